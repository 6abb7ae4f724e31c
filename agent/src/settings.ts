// Where this agent keeps its files and how it names accounts. Read once from the environment by daemon, runner and
// supervisor; the daemon passes the same variables to the processes it spawns.
import { join } from 'node:path'
import { STEPS } from '@berth/shared'

export interface AgentSettings {
  /** Journal, identity, attempts, environments, logs. Survives reboots. */
  stateDir: string
  /** Sockets and scratch; a tmpfs on real servers. */
  runDir: string
  /** Unix accounts of environments are this prefix and the environment's id: berth-e101. */
  accountPrefix: string
  /** `npm start` and tests: loopback control planes, and commands run as the developer's own user without root. */
  development: boolean
  /** Tests and the local example: repositories may be folders of this machine (file://). */
  gitFolders?: boolean
  /** Tests: how long a started process must stay up before it counts. */
  proofMs?: number
  /** Tests: how long a new version of the agent must stay up before it is kept. */
  updateStayMs?: number
  /** Where mise is, if not in a system folder; it installs the tools of manual environments. */
  mise?: string
  /** The range for `port: auto`; several agents on one machine need separate ranges. */
  portRange?: PortRange
  /** Unix socket of the Docker engine. */
  dockerSocket: string
  /** Value of the label `dev.berth.agent` on every object in the engine; objects with another value are not ours. */
  owner: string
  /** Every environment's network is a /26 of this range. */
  networkPool: string
  /** False: the server's owner manages the firewall; the edge checks listeners instead. */
  firewall?: boolean
  proxy: ProxySettings
  ssh: SshSettings
  /** Where figures for monitoring are served, and the file with their token; absent: nowhere. */
  metrics?: { listen: Endpoint; tokenFile: string }
}

interface SshSettings {
  /** auto: a drop-in for the server's sshd, or our own daemon where that is impossible; off: no SSH access. */
  mode: 'auto' | 'dedicated' | 'off'
  /** What sshd reads: authorities, principals, revoked serials, the host certificate. Owned by root. */
  dir: string
  /** Configuration of the server's own sshd. */
  config: string
  pidFile: string
  /** The program that sshd starts for our accounts. */
  launcher: string
  /** Where our own daemon listens. */
  own: Endpoint
  /**
   * The program of the forced command if it is not beside the agent's, for a checkout that other users cannot enter.
   */
  command?: string
}

interface ProxySettings {
  /** Where Caddy listens: `0.0.0.0:80`. */
  http: Endpoint
  /** Null: no HTTPS at all (development). */
  https: Endpoint | null
  /** UDP port of the edge's name server on loopback. */
  dnsPort: number
  /**
   * Who signs certificates: a public authority, the one with this ACME directory, or Caddy's own (for servers that the
   * internet cannot reach).
   */
  tls?: 'internal' | `https://${string}`
  /** `system`: the distribution's Caddy, although one ships with this agent. */
  caddy?: 'system'
  /**
   * Caddy writes a line for each request, of which metrics are made; it costs an eighth of the requests that the processor
   * could serve.
   */
  accessLog?: true
  /** False: another program keeps edge and Caddy running (units of the service manager, a test without routes). */
  managed?: boolean
}

export interface Endpoint {
  address: string
  port: number
}

export interface PortRange {
  from: number
  to: number
}

export function readSettings(env: NodeJS.ProcessEnv): AgentSettings {
  const stateDir = env.BERTH_STATE_DIR ?? '/var/lib/berth'
  const accountPrefix = env.BERTH_ACCOUNT_PREFIX ?? 'berth-e'
  return {
    stateDir,
    runDir: env.BERTH_RUN_DIR ?? (env.BERTH_STATE_DIR ? join(stateDir, 'run') : '/run/berth'),
    accountPrefix,
    development: env.BERTH_DEV === '1',
    gitFolders: env.BERTH_TEST_GIT_FILE === '1',
    ...(env.BERTH_MISE ? { mise: env.BERTH_MISE } : {}),
    ...(env.BERTH_TEST_PROOF_MS ? { proofMs: Number(env.BERTH_TEST_PROOF_MS) } : {}),
    ...(env.BERTH_TEST_UPDATE_STAY_MS
      ? { updateStayMs: Number(env.BERTH_TEST_UPDATE_STAY_MS) }
      : {}),
    ...readPortRange(env.BERTH_PORT_RANGE),
    dockerSocket: /^unix:\/\/(.+)$/.exec(env.DOCKER_HOST ?? '')?.[1] ?? '/var/run/docker.sock',
    owner: env.BERTH_OWNER ?? accountPrefix,
    networkPool: env.BERTH_NETWORK_POOL ?? '10.214.0.0/16',
    ...(env.BERTH_FIREWALL === 'off' ? { firewall: false } : {}),
    proxy: readProxy(env),
    ssh: readSsh(env, stateDir),
    ...readMetrics(env),
  }
}

/** Without root, and in development unless requested, sshd is not touched. */
function readSsh(env: NodeJS.ProcessEnv, stateDir: string): SshSettings {
  const isDevelopment = env.BERTH_DEV === '1'
  const mode = env.BERTH_SSH ?? (isDevelopment ? 'off' : 'auto')
  if (mode !== 'auto' && mode !== 'dedicated' && mode !== 'off') {
    throw new Error(`BERTH_SSH must be auto, dedicated or off, got '${mode}'.`)
  }
  const dir = env.BERTH_SSH_DIR ?? (isDevelopment ? join(stateDir, 'ssh') : '/etc/berth/ssh')
  const listen = env.BERTH_SSH_LISTEN ?? (isDevelopment ? '127.0.0.1:2222' : '0.0.0.0:2222')
  return {
    mode,
    dir,
    config: env.BERTH_SSHD_CONFIG ?? '/etc/ssh/sshd_config',
    pidFile: env.BERTH_SSHD_PID_FILE ?? '/run/sshd.pid',
    launcher: isDevelopment ? join(dir, 'ssh-session') : '/usr/lib/berth/ssh-session',
    own: readEndpoint('BERTH_SSH_LISTEN', listen),
    ...(env.BERTH_SSH_COMMAND ? { command: env.BERTH_SSH_COMMAND } : {}),
  }
}

function readMetrics(env: NodeJS.ProcessEnv): Pick<AgentSettings, 'metrics'> {
  const { BERTH_METRICS_LISTEN: listen, BERTH_METRICS_TOKEN_FILE: tokenFile } = env
  if (!listen) return {}
  if (!tokenFile) {
    throw new Error(
      'BERTH_METRICS_TOKEN_FILE must be set with BERTH_METRICS_LISTEN: a file that only root can read.',
    )
  }
  return { metrics: { listen: readEndpoint('BERTH_METRICS_LISTEN', listen), tokenFile } }
}

function readProxy(env: NodeJS.ProcessEnv): ProxySettings {
  const isDevelopment = env.BERTH_DEV === '1'
  const http = env.BERTH_PROXY_HTTP ?? (isDevelopment ? '127.0.0.1:8080' : '0.0.0.0:80')
  const https = env.BERTH_PROXY_HTTPS ?? (isDevelopment ? 'off' : '0.0.0.0:443')
  const dnsPort = Number(env.BERTH_EDGE_DNS_PORT ?? 15_353)
  if (!isPort(dnsPort)) throw new Error(`BERTH_EDGE_DNS_PORT must be a port number.`)
  return {
    http: readEndpoint('BERTH_PROXY_HTTP', http),
    https: https === 'off' ? null : readEndpoint('BERTH_PROXY_HTTPS', https),
    dnsPort,
    ...readAuthority(env.BERTH_PROXY_TLS),
    ...(env.BERTH_PROXY_CADDY === 'system' ? { caddy: 'system' as const } : {}),
    ...(env.BERTH_PROXY_ACCESS_LOG === 'off' ? {} : { accessLog: true as const }),
    managed: env.BERTH_PROXY !== 'off',
  }
}

const isPort = (n: number): boolean => Number.isInteger(n) && n >= 1 && n <= 65_535

const isDirectory = (text: string): text is `https://${string}` =>
  text.startsWith('https://') && URL.canParse(text)

function readAuthority(given: string | undefined): Pick<ProxySettings, 'tls'> {
  if (given === undefined || given === '') return {}
  if (given === 'internal' || isDirectory(given)) return { tls: given }
  throw new Error(
    `BERTH_PROXY_TLS must be internal, or the address of an ACME directory (https://…), got ${JSON.stringify(given)}.`,
  )
}

function readEndpoint(name: string, text: string): Endpoint {
  const [, address = '', port = ''] = /^(\d+\.\d+\.\d+\.\d+):(\d+)$/.exec(text) ?? []
  if (!address || !isPort(Number(port))) {
    throw new Error(`${name} must be like 0.0.0.0:80, got '${text}'.`)
  }
  return { address, port: Number(port) }
}

const writeEndpoint = ({ address, port }: Endpoint): string => `${address}:${port}`

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
  ...(s.proofMs === undefined ? {} : { BERTH_TEST_PROOF_MS: String(s.proofMs) }),
  ...(s.mise ? { BERTH_MISE: s.mise } : {}),
  ...(s.portRange ? { BERTH_PORT_RANGE: `${s.portRange.from}-${s.portRange.to}` } : {}),
  DOCKER_HOST: `unix://${s.dockerSocket}`,
  BERTH_OWNER: s.owner,
  BERTH_NETWORK_POOL: s.networkPool,
  ...(s.firewall === false ? { BERTH_FIREWALL: 'off' } : {}),
  BERTH_PROXY_HTTP: writeEndpoint(s.proxy.http),
  BERTH_PROXY_HTTPS: s.proxy.https ? writeEndpoint(s.proxy.https) : 'off',
  BERTH_EDGE_DNS_PORT: String(s.proxy.dnsPort),
  ...(s.proxy.tls ? { BERTH_PROXY_TLS: s.proxy.tls } : {}),
  ...(s.proxy.caddy ? { BERTH_PROXY_CADDY: s.proxy.caddy } : {}),
  ...(s.proxy.accessLog ? {} : { BERTH_PROXY_ACCESS_LOG: 'off' }),
  ...(s.proxy.managed === false ? { BERTH_PROXY: 'off' } : {}),
  BERTH_SSH: s.ssh.mode,
  BERTH_SSH_DIR: s.ssh.dir,
  BERTH_SSHD_CONFIG: s.ssh.config,
  BERTH_SSHD_PID_FILE: s.ssh.pidFile,
  BERTH_SSH_LISTEN: writeEndpoint(s.ssh.own),
  ...(s.ssh.command ? { BERTH_SSH_COMMAND: s.ssh.command } : {}),
})

/** During this time no process of a new version may exit or restart. */
export const proofMs = (s: AgentSettings): number => s.proofMs ?? STEPS.stayedUpMs
/** The compile cache: a process reuses the compiled code of the previous one and starts in half the time. */
export const compiledDir = (s: Pick<AgentSettings, 'runDir'>): string =>
  process.env.NODE_COMPILE_CACHE ?? join(s.runDir, 'compiled')
export const attemptDir = (s: Pick<AgentSettings, 'stateDir'>, attemptId: string): string =>
  join(s.stateDir, 'attempts', attemptId)
export const environmentDir = (s: AgentSettings, environmentId: number): string =>
  join(s.stateDir, 'environments', `e${environmentId}`)
export const scratchDir = (s: AgentSettings, attemptId: string): string =>
  join(s.runDir, 'attempts', attemptId)
