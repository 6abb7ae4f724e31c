// Where this agent keeps its things and under which names it makes accounts. Read once, from the environment,
// by daemon, runner and supervisor alike; the daemon hands the same variables to the processes it spawns.
import { join } from 'node:path'

export interface AgentSettings {
  /** Journal, identity, attempts, environments, logs. Survives reboots. */
  stateDir: string
  /** Sockets and scratch; a tmpfs on real servers. */
  runDir: string
  /** Unix accounts of environments are this and the environment's id: berth-e101. */
  accountPrefix: string
  /** `npm start` and tests: loopback control planes, commands as the developer's own user without root. */
  development: boolean
  /** Tests and the local example: repositories may be folders of this machine (file://). */
  gitFolders?: boolean
  /** Where `port: auto` is taken from; several agents on one machine need ranges of their own. */
  portRange?: PortRange
}

export interface PortRange {
  from: number
  to: number
}

export function readSettings(env: NodeJS.ProcessEnv): AgentSettings {
  const stateDir = env.BERTH_STATE_DIR ?? '/var/lib/berth'
  return {
    stateDir,
    runDir: env.BERTH_RUN_DIR ?? (env.BERTH_STATE_DIR ? join(stateDir, 'run') : '/run/berth'),
    accountPrefix: env.BERTH_ACCOUNT_PREFIX ?? 'berth-e',
    development: env.BERTH_DEV === '1',
    gitFolders: env.BERTH_TEST_GIT_FILE === '1',
    ...readPortRange(env.BERTH_PORT_RANGE),
  }
}

/** `21000-21999`. */
function readPortRange(text: string | undefined): { portRange?: PortRange } {
  if (!text) return {}
  const [from = 0, to = 0] = text.split('-').map(Number)
  if (!(from >= 1_024 && from <= to && to <= 65_535)) {
    throw new Error(`BERTH_PORT_RANGE must be like 21000-21999, got '${text}'.`)
  }
  return { portRange: { from, to } }
}

/** The variables that make a child read the same settings. */
export const settingsEnvironment = (s: AgentSettings): Record<string, string> => ({
  BERTH_STATE_DIR: s.stateDir,
  BERTH_RUN_DIR: s.runDir,
  BERTH_ACCOUNT_PREFIX: s.accountPrefix,
  ...(s.development ? { BERTH_DEV: '1' } : {}),
  ...(s.gitFolders ? { BERTH_TEST_GIT_FILE: '1' } : {}),
  ...(s.portRange ? { BERTH_PORT_RANGE: `${s.portRange.from}-${s.portRange.to}` } : {}),
})

export const attemptDir = (s: AgentSettings, attemptId: string): string =>
  join(s.stateDir, 'attempts', attemptId)
export const environmentDir = (s: AgentSettings, environmentId: number): string =>
  join(s.stateDir, 'environments', `e${environmentId}`)
export const scratchDir = (s: AgentSettings, attemptId: string): string =>
  join(s.runDir, 'attempts', attemptId)
