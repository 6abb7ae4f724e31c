// Composition root of the daemon: journal, attempt manager, host facts, link. Opens parts in an order that lets each
// rely on the previous ones, and closes them in reverse. Tests use `kill` for "the process died": no goodbye, nothing
// written, handles closed.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { DAEMON } from '@berth/shared'
import { AttemptManager } from './attempts/attempt-manager.ts'
import { createExecutor, type Executor } from './attempts/executor.ts'
import { keepSpoolBounds } from './attempts/spool-bounds.ts'
import { Spools } from './attempts/spools.ts'
import { type Clock, systemClock } from './clock.ts'
import { Journal } from './journal/journal.ts'
import { createArtifactAnswerers } from './link/answers/artifacts.ts'
import { collectFacts } from './link/answers/facts.ts'
import { createLogPageAnswerer } from './link/answers/log-pages.ts'
import { createLogAnswerer } from './link/answers/service-logs.ts'
import { answerHostClaims } from './link/hostname-claims.ts'
import { readIdentity } from './link/identity/identity.ts'
import { Link, type LinkPhase } from './link/link.ts'
import { describeError, type Log, silentLog } from './log.ts'
import { ensureStateFolders } from './machine/files.ts'
import { readBootId } from './machine/process/processes.ts'
import { readServerSettings } from './machine/server-settings.ts'
import { EdgeReporting } from './maintenance/edge-reporting.ts'
import { Host } from './maintenance/host.ts'
import { maintain } from './maintenance/maintenance.ts'
import { serveMetrics } from './maintenance/metrics.ts'
import { Observations } from './maintenance/observations.ts'
import { removeStatus, writeStatus } from './maintenance/status.ts'
import { openEdge } from './proxy/client.ts'
import { keepProxyUp } from './proxy/supervision.ts'
import { keepFirewall } from './resources/firewall.ts'
import { recoverManual } from './runner/manual/recover.ts'
import { keepLogs } from './service-logs/retention.ts'
import type { AgentSettings } from './settings.ts'
import { SSH_SWITCHED_OFF, SshSide } from './ssh/ssh-service.ts'
import { keepServicesUp } from './supervise/revival.ts'
import { AgentUpdates } from './update/updater.ts'

export type { Executor, RunnerProcess, SpawnRequest } from './attempts/executor.ts'
export { type AgentSettings, readSettings } from './settings.ts'

export interface AgentOptions {
  executor?: Executor
  clock?: Clock
  log?: Log
  /** The command that starts this program again as a runner, e.g. [node, main.ts]. */
  program?: readonly string[]
  /** Keep edge and Caddy running and send them passwords; off where nothing is routed. */
  routes?: boolean
  /** Admit users by SSH, according to the settings; off in tests without SSH. */
  ssh?: boolean
  /** Set packet rules, according to the settings; off where several agents of a test share one process. */
  firewall?: boolean
  /** The control plane locked this agent out, or the journal broke; the process must exit with this code. */
  onFatal?: (exitCode: number, message: string) => void
}

export interface RunningAgent {
  /** SIGTERM: drain, flush, goodbye. */
  close(): Promise<void>
  /** As if the process had died. */
  kill(): void
  readonly phase: LinkPhase
  readonly sessionId: string
  /** Resolves when the link reaches this phase, immediately if it is already there. */
  reached(phase: LinkPhase): Promise<void>
}

const defaultProgram = (): string[] => [process.execPath, join(import.meta.dirname, 'main.ts')]

export async function startAgent(
  given: AgentSettings,
  options: AgentOptions = {},
): Promise<RunningAgent> {
  const fatal = options.onFatal ?? ((code) => process.exit(code))
  // fails immediately on a server that never joined; objects in the engine carry the agent's id
  const settings = { ...given, owner: readIdentity(given).agentId }
  const parts = openParts(settings, options, fatal)
  const { log, manager } = parts
  const waiting = new Set<{ phase: LinkPhase; resolve: () => void }>()
  let shown = { phase: 'idle', endpoint: '', since: new Date().toISOString() }
  const showStatus = (): void => writeStatus(settings, { ...shown, attempts: manager.liveIds() })
  const link = new Link({
    ...parts,
    settings,
    answerers: {
      collectFacts: () =>
        Promise.resolve({ case: 'facts', value: collectFacts(parts.host, settings) }),
      ...createArtifactAnswerers(settings, log),
      openContainerLogs: createLogAnswerer(settings, log),
      openLogPage: createLogPageAnswerer(settings, log),
    },
    onUpdate: (offer, offerer) => parts.updates.offered(offer, offerer),
    onEdge: (reported) => parts.edge?.report(reported),
    ...(parts.ssh ? { onTrust: () => (parts.ssh as SshSide).trust() } : {}),
    onPhase(phase, endpoint) {
      if (phase === 'active') parts.ssh?.connected((key) => link.signSshHostKey(key))
      shown = { phase, endpoint, since: new Date().toISOString() }
      showStatus()
      for (const wait of waiting) {
        if (wait.phase !== phase) continue
        waiting.delete(wait)
        wait.resolve()
      }
    },
    onStopped(exitCode, message, isRevoked) {
      log.error({ message }, 'the control plane stopped this agent')
      // the server was given up, so nothing of ours stays in its sshd
      const gone = isRevoked && parts.ssh ? parts.ssh.remove() : Promise.resolve()
      gone.then(
        () => fatal(exitCode, message),
        () => fatal(exitCode, message),
      )
    },
  })
  const release = await openUp(parts, showStatus, options)
  const running = link.run()
  const stopAnswering = answerHostClaims({ ...parts, claim: link.claimHosts.bind(link) })
  const isConnected = (): boolean => link.phase === 'active'
  const stopMetrics = serveMetrics({ ...parts, isConnected })
  return {
    async close() {
      manager.drain()
      stopMetrics()
      stopAnswering()
      await link.close()
      await running
      removeStatus(settings)
      release()
    },
    kill() {
      stopMetrics()
      stopAnswering()
      link.kill()
      release()
    },
    get phase() {
      return link.phase
    },
    get sessionId() {
      return link.sessionId
    },
    reached: (phase) =>
      link.phase === phase
        ? Promise.resolve()
        : new Promise((resolve) => {
            waiting.add({ phase, resolve })
          }),
  }
}

type Parts = ReturnType<typeof openParts>

/** Constructs everything but the network; from here on this process owns the journal. */
function openParts(
  settings: AgentSettings,
  options: AgentOptions,
  fatal: (exitCode: number, message: string) => void,
) {
  const log = options.log ?? silentLog
  const clock = options.clock ?? systemClock
  ensureStateFolders(settings)
  mkdirSync(join(settings.runDir, 'compiled'), { recursive: true, mode: 0o700 })
  const bootId = readBootId()
  const journal = Journal.open(settings.stateDir, {
    bootId,
    fatal: (error) => {
      log.error({ error: error.message }, 'the journal is broken')
      fatal(1, `The journal is broken: ${error.message}`)
    },
  })
  const program = options.program ?? defaultProgram()
  const executor = options.executor ?? createExecutor(settings, program)
  const edge = options.routes ? new EdgeReporting(settings, log) : undefined
  const spools = new Spools(settings, journal)
  const base = { settings, journal, executor, clock, log, bootId, spools }
  const taskSlots = (): number => readServerSettings(settings).taskSlots
  const manager = new AttemptManager({ ...base, taskSlots })
  const host = new Host(settings, log)
  const observations = new Observations()
  const own = { settings, program, journal, clock, log, executor, spools, manager }
  const onState = host.noteSsh.bind(host)
  const isOn = options.ssh && settings.ssh.mode !== 'off'
  const ssh = isOn ? new SshSide({ ...own, bootId, onState }) : undefined
  if (options.ssh && !ssh) onState(SSH_SWITCHED_OFF)
  const updates = new AgentUpdates({ settings, program, journal, clock, log })
  if (updates.isPossible) host.noteUpdates()
  return { ...own, host, edge, observations, ssh, updates }
}

/** Adopts what ran while no daemon did, before anything is reported. Returns a function that releases everything. */
async function openUp(
  parts: Parts,
  showStatus: () => void,
  { firewall }: AgentOptions,
): Promise<() => void> {
  const { journal, clock, executor, manager, spools, host, log, edge, ssh, updates } = parts
  const timers: NodeJS.Timeout[] = []
  let letGo: () => void = () => undefined
  const release = (): void => {
    for (const timer of timers) clearInterval(timer)
    letGo()
    updates.close()
    edge?.close()
    ssh?.close()
    executor.close?.()
    host.close()
    manager.close()
    spools.close()
    journal.close()
  }
  try {
    manager.open()
    manager.onChange(showStatus)
    // before anything that ran is started again
    const onChange = (): void => void host.look()
    if (firewall) letGo = await keepFirewall({ ...parts, onChange })
    await host.open()
  } catch (error) {
    release()
    throw error
  }
  const upkeep = (): void => {
    try {
      journal.reserve.hold()
      keepSpoolBounds(parts)
      journal.transact(() => journal.attempts.expireTombstones(clock.now()))
    } catch (error) {
      log.error(describeError(error), 'upkeep') // a full disk, for example; the next one may succeed
    }
  }
  timers.push(setTimeout(upkeep, DAEMON.sweepMs), setInterval(upkeep, DAEMON.factsMs))
  executor.prepare?.()
  updates.open()
  ssh?.open()
  const proxy = edge ? [keepProxyUp({ ...parts, onStarted: () => void host.look() })] : []
  const services = keepServicesUp({
    ...parts,
    recover: async (ledger, environmentId) => {
      const { settings } = parts
      await recoverManual({ edge: openEdge(settings), ledger, settings }, { environmentId })
    },
  })
  const closers = [letGo, services, ...proxy, maintain(parts), keepLogs(parts)]
  letGo = () => {
    for (const close of closers) close()
  }
  return release
}
