// The server of `npm start`: where its agent keeps its files, under which settings it runs, and how it ends. `npm run
// clean` uses the same settings to remove it.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findTaken, type Ports, portsFile } from './ports.ts'

export const root = fileURLToPath(new URL('../..', import.meta.url))
/** Longer than the agent's own timeout for edge and Caddy. */
const SERVER_STOP_MS = 60_000

export type Environ = Record<string, string>

/** Keeps two checkouts on one machine from using each other's folders and accounts. */
export const digestOf = (data: string): string =>
  createHash('sha256').update(data).digest('hex').slice(0, 12)

/** Below a folder that only root writes. */
export const systemFolder = (data: string): string => join('/var/lib/berth-dev', digestOf(data))

/** The account of an environment must reach its folder, so every folder above needs the x bit for others. */
function isOpenTo(folder: string): boolean {
  for (let at = folder; ; at = dirname(at)) {
    if (existsSync(at) && (statSync(at).mode & 0o001) === 0) return false
    if (at === dirname(at)) return true
  }
}

function chooseStateDir(data: string): string {
  const own = join(data, 'agent')
  if (process.getuid?.() !== 0 || isOpenTo(own)) return own
  return systemFolder(data)
}

/** Why SSH is not available; undefined if users can connect to environments. */
export function whyNoSsh(): string | undefined {
  if (process.getuid?.() !== 0) return 'the agent must run as root to let people in'
  const hasSshd = ['/usr/sbin/sshd', '/usr/local/sbin/sshd'].some((file) => existsSync(file))
  return hasSshd ? undefined : 'openssh-server is not installed'
}

/** Other accounts may have no access to the checkout and its Node.js: /root is closed on most machines. */
function placeNode(file: string): void {
  rmSync(file, { force: true })
  try {
    linkSync(process.execPath, file)
  } catch {
    copyFileSync(process.execPath, file) // on another file system
  }
}

/**
 * An sshd of the local agent, on loopback. Its files must be where only root writes, and its accounts must be able to
 * read the forced command and its Node.js. Without root or sshd everything works except SSH.
 */
async function sshEnvironment(data: string, port: number): Promise<Environ> {
  if (whyNoSsh()) return { BERTH_SSH: 'off' }
  const folder = join(systemFolder(data), 'sshd')
  mkdirSync(folder, { recursive: true, mode: 0o755 })
  const file = join(folder, 'ssh-session.mjs')
  const { build } = await import('rolldown')
  await build({
    cwd: root,
    platform: 'node',
    logLevel: 'silent',
    input: 'agent/src/ssh/sessions/session-main.ts',
    output: { file, format: 'esm', codeSplitting: false },
  })
  placeNode(join(folder, 'node'))
  return {
    BERTH_SSH: 'dedicated',
    BERTH_SSH_DIR: join(folder, 'ssh'),
    BERTH_SSH_LISTEN: `127.0.0.1:${port}`,
    BERTH_SSH_COMMAND: file,
  }
}

/** The settings of the local agent. */
export async function agentEnvironment(data: string, ports: Ports): Promise<Environ> {
  const stateDir = chooseStateDir(data)
  mkdirSync(stateDir, { recursive: true })
  chmodSync(stateDir, 0o711)
  return {
    BERTH_DEV: '1',
    BERTH_STATE_DIR: stateDir,
    BERTH_ACCOUNT_PREFIX: `berth-${digestOf(data).slice(0, 6)}-e`,
    BERTH_PROXY_HTTP: `127.0.0.1:${ports.proxy}`,
    BERTH_EDGE_DNS_PORT: String(ports.names),
    ...(await sshEnvironment(data, ports.ssh)),
  }
}

/** Throws if another program, or another `npm start` of this checkout, listens on one of them. */
export async function refuseTaken(
  ports: Ports,
  data: string,
  names: (keyof Ports)[],
): Promise<void> {
  const taken = await findTaken(ports, names)
  if (!taken) return
  throw new Error(
    `port ${ports[taken]} (${taken}), which this checkout had before, is taken. If npm start still runs in another terminal, ` +
      `end it with Ctrl-C; otherwise end what listens there, or remove ${portsFile(data)} to have other ports chosen.`,
  )
}

/** Ends the server's processes that a killed run left behind. */
export async function freeServerPorts(
  ports: Ports,
  data: string,
  agentEnv: Environ,
): Promise<void> {
  const names: (keyof Ports)[] = ['proxy', 'names', 'ssh']
  if (await findTaken(ports, names)) await stopServer(agentEnv)
  await refuseTaken(ports, data, names)
}

/**
 * Services, containers, edge, Caddy, sshd and packet rules outlive an agent on purpose; here they end after it. The next
 * start brings services and containers back.
 */
export async function stopServer(agentEnv: Environ): Promise<void> {
  for (const what of ['services', 'containers', 'proxy', 'ssh', 'firewall']) {
    const env = { ...process.env, ...agentEnv }
    // its own process group: a second Ctrl-C must not kill the clean-up
    const options = { cwd: root, env, stdio: 'ignore', detached: true } as const
    const child = spawn(process.execPath, ['agent/src/main.ts', what, 'stop'], options)
    const timer = setTimeout(() => child.kill('SIGKILL'), SERVER_STOP_MS)
    await new Promise((resolve) => child.once('exit', resolve).once('error', resolve))
    clearTimeout(timer)
  }
}

/** Runs one command of the agent to its end; its errors are shown. */
export async function runAgent(words: string[], agentEnv: Environ): Promise<void> {
  const child = spawn(process.execPath, ['agent/src/main.ts', ...words], {
    cwd: root,
    env: { ...process.env, ...agentEnv },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const [code] = (await once(child, 'exit')) as [number | null]
  if (code !== 0) throw new Error(`berth-agent ${words[0]} failed`)
}

/** The ports may have changed since the agent joined. */
export function knowsAddress(stateDir: string, url: string, port: number): boolean {
  const file = join(stateDir, 'identity/current/identity.json')
  if (!existsSync(file)) return true // joins again, or reports why it cannot
  const { baseUrl, endpoints } = JSON.parse(readFileSync(file, 'utf8'))
  return new URL(baseUrl).origin === url && endpoints.includes(`127.0.0.1:${port}`)
}
