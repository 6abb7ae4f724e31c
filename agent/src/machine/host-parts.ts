// Checks the parts of this machine that recipes need. Each check runs argv only, with a deadline and bounded output.
// A missing part has a reason that a person can act on.
import { execFile } from 'node:child_process'
import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { DAEMON } from '@berth/shared'
import type { AgentSettings } from '../settings.ts'
import { engineFacts, isEngineUp, openEngine } from './docker/engine.ts'
import type { EngineError } from './docker/engine-error.ts'
import { readFirewallState } from './firewall/apply.ts'
import { canUnshareMounts } from './process/namespaces.ts'
import { locateProgram } from './process/programs.ts'

export interface HostPart {
  name: string
  /** Empty when the part is missing; `reason` says why. */
  version: string
  reason: string
  details: Record<string, string>
}

type DockerSettings = Pick<AgentSettings, 'dockerSocket'>
type PartSettings = Pick<AgentSettings, 'dockerSocket' | 'runDir'>

const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
const part = (name: string, version: string, reason = ''): HostPart => ({
  name,
  version,
  reason: version ? '' : reason,
  details: {},
})

/** The version and the file of each program. Starting programs every minute would be most of an idle agent's cost. */
const known = new Map<string, { stamp: string; version: string }>()

/** Changes with the file; empty when there is none. */
function stampOf(program: string): string {
  for (const folder of PATH.split(':')) {
    const found = statSync(`${folder}/${program}`, { throwIfNoEntry: false })
    if (found) return `${folder} ${found.ino} ${found.size} ${found.mtimeMs}`
  }
  return ''
}

async function askVersion(argv: [string, ...string[]], pattern: RegExp): Promise<string> {
  const [program] = argv
  const stamp = stampOf(program)
  if (stamp === '') return ''
  const before = known.get(program)
  if (before?.stamp === stamp) return before.version
  const version = await runForVersion(argv, pattern)
  if (version !== '') known.set(program, { stamp, version })
  return version
}

/** First match of the pattern in the program's output, for any exit code; empty when there is none. */
function runForVersion(argv: [string, ...string[]], pattern: RegExp): Promise<string> {
  const [file, ...args] = argv
  return new Promise((resolve) => {
    const options = {
      timeout: DAEMON.probeMs,
      maxBuffer: DAEMON.probeBytes,
      killSignal: 'SIGKILL' as const,
      env: { PATH, LC_ALL: 'C', HOME: '/nonexistent' },
    }
    execFile(file, args, options, (_error, stdout, stderr) => {
      const match = pattern.exec(`${stdout}\n${stderr}`)
      resolve(match?.[1] ?? '')
    })
  })
}

export const isDockerUp = (settings: DockerSettings): Promise<boolean> =>
  isEngineUp(openEngine(settings), DAEMON.probeMs)

async function lookAtDocker(settings: DockerSettings): Promise<HostPart> {
  const advice = 'Install Docker 20.10 or newer, or use the manual recipe.'
  if (!existsSync(settings.dockerSocket)) {
    return part('docker', '', `No Docker engine was found at ${settings.dockerSocket}. ${advice}`)
  }
  try {
    const { version, api, cgroup, storage } = await engineFacts(
      openEngine(settings),
      DAEMON.probeMs,
    )
    return { ...part('docker', version), details: { api, cgroup, storage } }
  } catch (error) {
    const why = (error as EngineError).message.slice(0, 200)
    return part('docker', '', `The Docker engine does not answer: ${why}. ${advice}`)
  }
}

async function lookAtPty(): Promise<HostPart> {
  const name = 'node-pty' // optional; absent where it could not be built
  try {
    await import(name)
    return part('pty', 'node-pty')
  } catch {
    return part(
      'pty',
      '',
      'node-pty is not installed: output of commands comes without a terminal.',
    )
  }
}

function lookAtCgroup(): HostPart {
  const root = '/sys/fs/cgroup'
  const version = existsSync(`${root}/cgroup.controllers`)
    ? 'v2'
    : existsSync(`${root}/memory`)
      ? 'v1'
      : ''
  if (!version) return part('cgroup', '', 'No cgroup file system is mounted: limits cannot be set.')
  try {
    accessSync(root, constants.W_OK)
    return part('cgroup', version)
  } catch {
    return part('cgroup', '', 'The cgroup file system is read-only here: limits cannot be set.')
  }
}

async function lookAtSystemd(): Promise<HostPart> {
  const running = existsSync('/run/systemd/system')
  const version = running ? await askVersion(['systemctl', '--version'], /systemd (\d+)/) : ''
  return part('systemd', version, 'systemd does not run here.')
}

async function lookAtUsers(): Promise<HostPart> {
  const isRoot = process.getuid?.() === 0
  const found = PATH.split(':').some((folder) => existsSync(`${folder}/useradd`))
  const reason = isRoot
    ? 'The program useradd is missing: accounts cannot be made.'
    : 'The agent does not run as root and may not create accounts.'
  return part('users', isRoot && found ? 'useradd' : '', reason)
}

/** Without mount namespaces the commands of all environments share the machine's temporary folders and memory. */
function lookAtMounts(): HostPart {
  const unshare = locateProgram('unshare')
  const isAllowed = unshare !== undefined && canUnshareMounts(unshare)
  const reason =
    'Mount namespaces are not allowed here: commands of the manual recipe share /tmp, /dev/shm and /run/lock with each other. What an environment leaves there is removed with it.'
  return part('mounts', isAllowed ? 'private' : '', reason)
}

const UNBOUND =
  'The Docker engine has no control group of its own: ADD of a Dockerfile is fetched with the rights of this server. Run it as a service of systemd.'

/** The result of the last attempt (machine/firewall/apply.ts). */
function lookAtFirewall(settings: PartSettings, version: string): HostPart {
  const state = readFirewallState(settings)
  if (state?.isInForce) {
    const reason = state.engine === 'unbound' ? UNBOUND : ''
    return { ...part('firewall', version || 'iptables'), reason }
  }
  const reason =
    process.getuid?.() === 0
      ? 'Packet rules were not set yet.'
      : 'The agent does not run as root: there are no accounts and no packet rules.'
  return part('firewall', '', state?.reason || reason)
}

export async function lookAtParts(settings: PartSettings): Promise<HostPart[]> {
  const [git, caddy, sshd, iptables] = await Promise.all([
    askVersion(['git', '--version'], /git version (\S+)/),
    askVersion(['caddy', 'version'], /v?(\d+\.\d+\.\d+\S*)/),
    askVersion(['sshd', '-V'], /OpenSSH_(\S+?),?(?:\s|$)/),
    askVersion(['iptables', '--version'], /(iptables v\S+)/),
  ])
  return Promise.all([
    lookAtDocker(settings),
    part('caddy', caddy, 'Caddy is not installed: services cannot be routed.'),
    part('git', git, 'git is not installed: repositories cannot be fetched. Install it.'),
    lookAtPty(),
    lookAtCgroup(),
    lookAtMounts(),
    lookAtSystemd(),
    lookAtUsers(),
    part('sshd', sshd, 'No OpenSSH server is installed: people cannot connect to environments.'),
    lookAtFirewall(settings, iptables),
  ])
}
