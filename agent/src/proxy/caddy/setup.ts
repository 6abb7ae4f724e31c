// `berth-agent setup proxy`: prepares a server for routing and prints what it did. Installs the distribution's package
// with apt if the agent came without a Caddy, makes Caddy's account, gives it the files of a Caddy that ran as root, and keeps the package's own unit
// from taking the ports. Starts nothing.
import { existsSync } from 'node:fs'
import { PROXY } from '../../limits/proxy.ts'
import { findCaddy } from '../../machine/caddy-program.ts'
import { findListeners, nameHolder } from '../../machine/process/ports.ts'
import { locateProgram, type ProgramResult, runProgram } from '../../machine/process/programs.ts'
import { isRoot } from '../../machine/users/users.ts'
import type { AgentSettings } from '../../settings.ts'
import { edgePaths } from '../paths.ts'
import { isAlive, readProxyProcess } from '../process-files.ts'
import { endRootCaddy } from '../supervision.ts'
import { ensureCaddyAccount, handOver } from './account.ts'
import { handOverUnaccepted } from './unaccepted.ts'

type Say = (line: string) => void

/** `berth-agent setup proxy-account`: for every server, also before Caddy is installed. Returns the exit code. */
export async function setUpAccount(settings: AgentSettings, say: Say): Promise<number> {
  if (!isRoot()) {
    say('This needs root: it makes an account.')
    return 1
  }
  const { account, isNew } = await ensureCaddyAccount(settings)
  say(`Account ${account.name}: ${isNew ? 'made' : 'is there'}.`)
  if (await endRootCaddy(settings)) say('Caddy ran as root: it was ended.')
  await handOver(settings, account)
  return 0
}

/** Returns the exit code. */
export async function setUpProxy(settings: AgentSettings, say: Say): Promise<number> {
  if (!isRoot()) {
    say('This needs root: it installs a package and makes an account.')
    return 1
  }
  if (!(await ensureCaddy(settings, say))) return 1
  await ensureIptables(say)
  await setUpAccount(settings, say)
  await disableStockUnit(say)
  const refusal = handOverUnaccepted()
  say(
    refusal
      ? `New connections may be reset when a password or a path changes: ${refusal}.`
      : 'New connections survive a change of settings (net.ipv4.tcp_migrate_req is 1).',
  )
  return reportPorts(settings, say)
}

async function ensureCaddy(settings: AgentSettings, say: Say): Promise<boolean> {
  const found = await findCaddy(settings)
  if (found?.isShipped && found.version) {
    say(`Caddy ${found.version}: shipped with this agent.`)
    return true
  }
  if (found) {
    if (!isEnough(found.version)) {
      say(
        `Caddy ${found.version} is too old: 2.6.2 or newer is needed. Replace it, then run this again.`,
      )
      return false
    }
    say(`Caddy ${found.version}: is there, from the distribution.`)
    return true
  }
  if (!locateProgram('apt-get')) {
    say(
      'Caddy is not installed, and there is no apt here. Install Caddy 2.6.2 or newer, then run this again.',
    )
    return false
  }
  say('Caddy: installing the package of the distribution …')
  const installed = await installPackage('caddy')
  if (installed.code === 0 && locateProgram('caddy')) {
    say('Caddy: installed.')
    return true
  }
  say(`Caddy could not be installed: ${installed.stderr.trim().split('\n').at(-1) ?? ''}`)
  say('Run `apt-get update` and try again, or install Caddy 2.6.2 or newer yourself.')
  return false
}

const installPackage = (name: string): Promise<ProgramResult> =>
  runProgram(['apt-get', 'install', '-y', '-qq', '--no-install-recommends', '--no-remove', name], {
    timeoutMs: PROXY.installMs,
    env: { PATH: process.env.PATH ?? '', DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C' },
  })

/** Without iptables routes work with less protection; the server's page shows that. */
async function ensureIptables(say: Say): Promise<void> {
  const isThere = (): boolean => locateProgram('iptables-restore') !== undefined
  if (isThere()) return say('iptables: is there.')
  if (locateProgram('apt-get')) await installPackage('iptables')
  say(
    isThere()
      ? 'iptables: installed.'
      : 'iptables is missing: install it, so that no other account can take the port of a manual service.',
  )
}

function isEnough(version: string): boolean {
  const [a = 0, b = 0, c = 0] = version.split('.').map(Number)
  return a * 1_000_000 + b * 1_000 + c >= 2_006_002
}

/** The package starts its own Caddy on port 80, with another configuration than Berth's. */
async function disableStockUnit(say: Say): Promise<void> {
  if (!existsSync('/run/systemd/system') || !locateProgram('systemctl')) return
  const { code, stderr } = await runProgram(['systemctl', 'disable', '--now', 'caddy.service'])
  if (code === 0) say('caddy.service of the package: stopped and disabled.')
  else if (!/does not exist|not loaded/i.test(stderr)) say(`caddy.service: ${stderr.trim()}`)
}

function reportPorts(settings: AgentSettings, say: Say): number {
  const isOurs = isAlive(readProxyProcess(edgePaths(settings).caddyProcess))
  let code = 0
  for (const endpoint of [settings.proxy.http, settings.proxy.https]) {
    if (!endpoint) continue
    const holders = findListeners(endpoint.port)
    const isFree = holders.length === 0 || isOurs
    if (!isFree) code = 1
    say(
      isFree
        ? `Port ${endpoint.port}: ${isOurs ? 'served by Berth' : 'free'}.`
        : `Port ${endpoint.port} is held by ${nameHolder(holders)}. Stop it: Berth needs this port.`,
    )
  }
  if (code === 0) say('Ready. The daemon starts Caddy by itself.')
  return code
}
