// Checks the parts of this machine that recipes need. Each check runs argv only, with a deadline and bounded output.
// A missing part has a reason that a person can act on.
import { accessSync, constants, existsSync } from 'node:fs'
import { DAEMON } from '@berth/shared'
import type { AgentSettings } from '../settings.ts'
import { findCaddy } from './caddy-program.ts'
import { engineFacts, isEngineUp, openEngine } from './docker/engine.ts'
import type { EngineError } from './docker/engine-error.ts'
import { ENGINE_ADVICE, refuseEngine } from './docker/engine-kind.ts'
import { readFirewallState } from './firewall/apply.ts'
import { canUnshareMounts } from './process/namespaces.ts'
import { askVersion } from './process/program-version.ts'
import { locateProgram, SYSTEM_PATH } from './process/programs.ts'

export interface HostPart {
  name: string
  /** Empty when the part is missing; `reason` says why. */
  version: string
  reason: string
  details: Record<string, string>
}

type DockerSettings = Pick<AgentSettings, 'dockerSocket'>
type PartSettings = Pick<AgentSettings, 'dockerSocket' | 'runDir' | 'proxy'>

const part = (name: string, version: string, reason = ''): HostPart => ({
  name,
  version,
  reason: version ? '' : reason,
  details: {},
})

export const isDockerUp = (settings: DockerSettings): Promise<boolean> =>
  isEngineUp(openEngine(settings), DAEMON.probeMs)

async function lookAtDocker(settings: DockerSettings): Promise<HostPart> {
  const advice = ENGINE_ADVICE.docker
  if (!existsSync(settings.dockerSocket)) {
    return part('docker', '', `No Docker engine was found at ${settings.dockerSocket}. ${advice}`)
  }
  try {
    const facts = await engineFacts(openEngine(settings), DAEMON.probeMs)
    const { version, api, cgroup, storage, kind } = facts
    const refusal = refuseEngine(facts)
    if (refusal) {
      const reason = `The engine at ${settings.dockerSocket} cannot be used: ${refusal}. ${ENGINE_ADVICE[kind]}`
      return part('docker', '', reason)
    }
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
  const found = SYSTEM_PATH.split(':').some((folder) => existsSync(`${folder}/useradd`))
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

/** Names the origin, because the distribution's Caddy may be much older than ours. */
async function lookAtCaddy(settings: PartSettings): Promise<HostPart> {
  const found = await findCaddy(settings)
  if (!found?.version) {
    return part('caddy', '', 'Caddy is not installed: services cannot be routed.')
  }
  const origin = found.isShipped ? 'shipped with Berth' : 'of the distribution'
  return part('caddy', `${found.version} (${origin})`)
}

export async function lookAtParts(settings: PartSettings): Promise<HostPart[]> {
  const [git, sshd, iptables] = await Promise.all([
    askVersion(['git', '--version'], /git version (\S+)/),
    askVersion(['sshd', '-V'], /OpenSSH_(\S+?),?(?:\s|$)/),
    askVersion(['iptables', '--version'], /(iptables v\S+)/),
  ])
  return Promise.all([
    lookAtDocker(settings),
    lookAtCaddy(settings),
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
