#!/usr/bin/env node
// berth-agent: one program, several processes. `run` is the daemon; it or its children start `runner`, `supervise`,
// `collect`, `read-static`, `edge` and `updater`, which load none of its code. Exit codes: 0 done, 1 refused or broken
// (reason on stderr), 2 wrong usage, 78 locked out by the control plane (the service manager must not restart it).
import { VERSION } from '@berth/shared'
import { closeInherited } from './machine/process/descriptors.ts'
import { type AgentSettings, readSettings } from './settings.ts'

const USAGE = `berth-agent ${VERSION}: runs deployments on this server

Usage: berth-agent <command>

Commands:
  join [--force] <url> [token]  Join the control plane at <url>; its server page shows the token, which is read from
                                stdin if it is not given. --if-needed: only if the control plane does not know this
                                server
  move <url>                    Use a new address of the control plane
  run                           Run the daemon (the service manager starts it)
  status                        Show whether the daemon runs and is connected
  setup proxy                   Prepare this server for routing: Caddy, its account and its ports
  setup proxy-account           Create only Caddy's account
  services stop                 Stop all services of manual environments
  containers stop               Stop all containers of environments; the next daemon starts them again
  proxy stop                    Stop Caddy and the edge; a running daemon starts them again
  ssh stop                      Stop Berth's own sshd
  ssh remove                    Remove Berth from this server's sshd: files, daemon and accounts
  firewall stop                 Remove Berth's packet rules; a running daemon sets them again
  edge                          Run the edge (the daemon starts it)
  doctor [--json]               Check this server and say how to fix each problem; changes nothing
  uninstall [--yes] [--purge]   Remove Berth and everything it made from this server; refuses while environments are
                                here, unless --purge removes them too

Options:
  --version                     Show the version
  --help                        Show this help

Environment variables:
  BERTH_STATE_DIR               State (default /var/lib/berth)
  BERTH_RUN_DIR                 Sockets and process files (default /run/berth)
  BERTH_LOG_LEVEL               Log level (default info)
  BERTH_MISE                    Where mise is, if not in a system folder
`

async function main([command, ...rest]: string[]): Promise<number> {
  const settings = readSettings(process.env)
  const [only] = rest.length === 1 ? rest : []
  switch (command) {
    case 'join':
      return join(settings, rest)
    case 'move': {
      if (!only) return usage()
      const { move } = await import('./link/identity/renewal.ts')
      const { endpoints } = await move(settings, only)
      process.stdout.write(`The agent now connects to ${endpoints.join(', ')}.\n`)
      return 0
    }
    case 'run':
      return rest.length === 0 ? run(settings) : usage()
    case 'status':
      return rest.length === 0 ? status(settings) : usage()
    case 'runner': {
      if (rest.length === 0) {
        const { runWarm } = await import('./runner/warm.ts')
        await runWarm(settings)
        return 0
      }
      if (!only) return usage()
      const { runAttempt } = await import('./runner/runner.ts')
      await runAttempt(only, settings)
      return 0
    }
    case 'services': {
      if (only !== 'stop') return usage()
      const { stopAllServices } = await import('./supervise/control.ts')
      const count = await stopAllServices(settings)
      process.stdout.write(
        `${count} services stopped. A restart of the daemon starts them again.\n`,
      )
      return 0
    }
    case 'containers': {
      if (only !== 'stop') return usage()
      const { isJoined, readIdentity } = await import('./link/identity/identity.ts')
      if (!isJoined(settings)) return 0 // nothing of ours is in the engine
      const { stopAllContainers } = await import('./resources/stop-containers.ts')
      const owner = readIdentity(settings).agentId
      const count = await stopAllContainers({ ...settings, owner })
      process.stdout.write(
        `${count} containers stopped. A restart of the daemon starts them again.\n`,
      )
      return 0
    }
    case 'supervise': {
      if (rest.length > 0) return usage()
      const { runSupervisor } = await import('./supervise/supervisor.ts')
      await runSupervisor(settings)
      return 0
    }
    case 'ssh-work': {
      if (rest.length > 0) return usage()
      const { runSshWork } = await import('./ssh/sessions/session-process.ts')
      return runSshWork(settings)
    }
    case 'ssh':
      return only === 'remove' || only === 'stop' ? ssh(settings, only) : usage()
    case 'collect':
    case 'gather': {
      // 'gather' is what a runner of before 1.16 calls it, after an upgrade in the middle of its attempt
      if (rest.length > 0) return usage()
      const { runCollect } = await import('./files/collect-main.ts')
      runCollect()
      return 0
    }
    case 'read-static': {
      if (!only) return usage()
      const { readStatic } = await import('./files/static-reading.ts')
      return readStatic(JSON.parse(only))
    }
    case 'edge': {
      if (rest.length > 0) return usage()
      const { runEdge } = await import('./proxy/edge/edge-process.ts')
      return runEdge(settings)
    }
    case 'updater': {
      if (!only) return usage()
      const { runUpdater } = await import('./update/watch.ts')
      return runUpdater(settings, only)
    }
    case 'setup': {
      if (only !== 'proxy' && only !== 'proxy-account') return usage()
      const { setUpAccount, setUpProxy } = await import('./proxy/caddy/setup.ts')
      const setUp = only === 'proxy' ? setUpProxy : setUpAccount
      return setUp(settings, (line) => process.stdout.write(`${line}\n`))
    }
    case 'proxy': {
      if (only !== 'stop') return usage()
      const { stopProxy } = await import('./proxy/supervision.ts')
      await stopProxy(settings)
      process.stdout.write('Edge and Caddy are stopped. A running daemon starts them again.\n')
      return 0
    }
    case 'firewall': {
      if (only !== 'stop') return usage()
      const { unguardServer } = await import('./resources/firewall.ts')
      await unguardServer(settings)
      process.stdout.write(
        'Packet rules are removed. A running daemon sets them again, unless BERTH_FIREWALL=off.\n',
      )
      return 0
    }
    case 'doctor': {
      const { doctor } = await import('./commands/doctor/doctor.ts')
      return doctor(settings, rest, (text) => process.stdout.write(`${text}\n`))
    }
    case 'uninstall': {
      const { uninstall } = await import('./commands/uninstall/uninstall.ts')
      return uninstall(settings, rest, (line) => process.stdout.write(`${line}\n`))
    }
    case '--version':
      process.stdout.write(`${VERSION}\n`)
      return 0
    case '--help':
    case 'help':
      process.stdout.write(USAGE)
      return 0
    default:
      return usage()
  }
}

async function ssh(settings: AgentSettings, what: 'remove' | 'stop'): Promise<number> {
  if (what === 'stop') {
    const { stopOwnSshd } = await import('./ssh/sshd/own-daemon.ts')
    await stopOwnSshd(settings)
    return 0
  }
  const { removeFromServer } = await import('./ssh/ssh-service.ts')
  await removeFromServer(settings)
  process.stdout.write(
    'SSH access through Berth is removed. The daemon sets it up again when it starts, unless BERTH_SSH=off.\n',
  )
  return 0
}

function usage(): number {
  process.stderr.write(USAGE)
  return 2
}

const JOIN_OPTIONS = ['--force', '--if-needed']

async function join(settings: AgentSettings, args: string[]): Promise<number> {
  const [url, given, ...more] = args.filter((arg) => !JOIN_OPTIONS.includes(arg))
  if (!url || more.length > 0) return usage()
  // an argument is shown in the list of processes, to every account of the server
  const token = given === undefined || given === '-' ? await readToken() : given
  if (!token) return usage()
  const { isMember, join: joinControlPlane } = await import('./link/identity/join.ts')
  const { ensureStateFolders } = await import('./machine/files.ts')
  const ifNeeded = args.includes('--if-needed')
  if (ifNeeded && (await isMember(settings, url))) {
    process.stdout.write(`This server has joined ${url} already; the token was not used.\n`)
    return 0
  }
  ensureStateFolders(settings)
  const force = ifNeeded || args.includes('--force')
  const identity = await joinControlPlane(settings, { url, token, force })
  await reportEngine(settings)
  process.stdout.write(
    `Joined ${url} as server ${identity.serverId}. Start the daemon: berth-agent run (or restart its service).\n`,
  )
  return 0
}

/** An engine that Berth refuses is said now, and not only when the first deployment fails. */
async function reportEngine(settings: AgentSettings): Promise<void> {
  const { checkEngine } = await import('./commands/doctor/host.ts')
  const { writeFindings } = await import('@berth/shared/findings')
  const { findings } = await checkEngine(settings)
  const refused = findings.filter(({ status }) => status === 'problem')
  for (const line of writeFindings(refused)) process.stderr.write(`${line}\n`)
}

const TOKEN_BYTES = 1_024

async function readToken(): Promise<string> {
  let text = ''
  for await (const chunk of process.stdin) {
    text += String(chunk)
    if (text.length > TOKEN_BYTES) throw new Error('This is no join token: it is too long.')
  }
  return text.trim()
}

async function status(settings: AgentSettings): Promise<number> {
  const { isJoined } = await import('./link/identity/identity.ts')
  const { readStatus } = await import('./maintenance/status.ts')
  const found = readStatus(settings)
  if (!found) {
    process.stdout.write(isJoined(settings) ? 'Joined, not running.\n' : 'Not joined.\n')
    return 1
  }
  const { phase, endpoint, pid, since, attempts, version } = found
  const connected = phase === 'active' ? `connected to ${endpoint}` : `not connected (${phase})`
  process.stdout.write(
    `berth-agent ${version}, pid ${pid}: ${connected} since ${since}; ${attempts.length} attempts running.\n`,
  )
  return phase === 'active' ? 0 : 1
}

async function run(settings: AgentSettings): Promise<number> {
  const { startAgent } = await import('./agent.ts')
  const { createLog } = await import('./log.ts')
  const log = createLog(process.env.BERTH_LOG_LEVEL ?? 'info')
  const ended = Promise.withResolvers<number>()
  const agent = await startAgent(settings, {
    log,
    program: [process.execPath, import.meta.filename],
    routes: settings.proxy.managed !== false,
    ssh: true,
    firewall: true,
    onFatal: (code, message) => {
      process.stderr.write(`berth-agent: ${message}\n`)
      process.exit(code)
    },
  })
  const { keepSearching } = await import('./maintenance/shared-search.ts')
  const stopSearching = process.getuid?.() === 0 ? keepSearching(settings, log) : () => undefined
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.once(signal, () => {
      stopSearching()
      log.info({ signal }, 'stopping; runners continue')
      agent.close().then(
        () => ended.resolve(0),
        (error: Error) => ended.reject(error),
      )
    })
  }
  return ended.promise
}

closeInherited()
// every folder and file gets the mode that the code names, independent of the caller's umask
process.umask(0o022)
main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (error: Error) => {
    process.stderr.write(`berth-agent: ${error.message}\n`)
    process.exit(1)
  },
)
