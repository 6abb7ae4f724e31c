// What `npm start` runs: a control plane on embedded SQLite, a local agent that joins by the real join flow, and a
// deployed example project. Ctrl-C ends everything it starts; its data stays and is used again.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildDashboardIfStale } from './build-dashboard.ts'
import { ensureCaddy } from './caddy.ts'
import {
  awaitSsh,
  connect,
  deployExample,
  findOrMake,
  makeRepository,
  type Named,
  until,
} from './dev-example.ts'
import { choosePorts, findTaken, type Ports, portsFile } from './dev-ports.ts'
import { describeRecipes } from './dev-recipes.ts'
import { startGitServer } from './git-server.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const STOP_MS = 15_000
/** Longer than the agent's own timeout for edge and Caddy. */
const SERVER_STOP_MS = 60_000

/** What to end, in the order of its start; ended in reverse. */
const ending: (() => Promise<void> | void)[] = []
let stopping = false

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
  return join('/var/lib/berth-dev', createHash('sha256').update(data).digest('hex').slice(0, 12))
}

/** Keeps two checkouts on one machine from using each other's accounts. */
const accountPrefix = (data: string): string =>
  `berth-${createHash('sha256').update(data).digest('hex').slice(0, 6)}-e`

/** Why SSH is not available; undefined if users can connect to environments. */
function whyNoSsh(): string | undefined {
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
  const digest = createHash('sha256').update(data).digest('hex').slice(0, 12)
  const folder = join('/var/lib/berth-dev', digest, 'sshd')
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

/** Ends the server's processes that a killed run left behind, unless that run is still active in another terminal. */
async function takePorts(ports: Ports, data: string, agentEnv: Environ): Promise<void> {
  let taken = await findTaken(ports, ['http', 'agent', 'git'])
  const servers = ['proxy', 'names', 'ssh'] as const
  if (!taken && (await findTaken(ports, [...servers]))) {
    await stopServer(agentEnv)
    taken = await findTaken(ports, [...servers])
  }
  if (!taken) return
  throw new Error(
    `port ${ports[taken]} (${taken}), which this checkout had before, is taken. If npm start still runs in another terminal, ` +
      `end it with Ctrl-C; otherwise end what listens there, or remove ${portsFile(data)} to have other ports chosen.`,
  )
}

type Environ = Record<string, string>

/**
 * Services, containers, edge, Caddy, sshd and packet rules outlive an agent on purpose; here they end after it. The next
 * start brings services and containers back.
 */
async function stopServer(agentEnv: Environ): Promise<void> {
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

/** Runs one command of the agent to its end; its output is shown only on failure. */
function runAgent(words: string[], agentEnv: Environ): void {
  execFileSync(process.execPath, ['agent/src/main.ts', ...words], {
    cwd: root,
    env: { ...process.env, ...agentEnv },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
}

function start(name: string, argv: string[], env: Environ, data: string): ChildProcess {
  const log = openSync(join(data, `${name}.log`), 'a', 0o600)
  const child = spawn(process.execPath, argv, {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', log],
  })
  ending.push(() => end(child))
  child.once('exit', (code, signal) => {
    if (stopping) return
    console.error(`error: the ${name} ended (${signal ?? code}); see ${join(data, `${name}.log`)}`)
    void stop(1)
  })
  return child
}

/** The ports may have changed since the agent joined. */
function knowsAddress(stateDir: string, url: string, port: number): boolean {
  const file = join(stateDir, 'identity/current/identity.json')
  if (!existsSync(file)) return true // joins again, or reports why it cannot
  const { baseUrl, endpoints } = JSON.parse(readFileSync(file, 'utf8'))
  return new URL(baseUrl).origin === url && endpoints.includes(`127.0.0.1:${port}`)
}

/** For added servers and laptops; rebuilt only if its sources changed. Returns a problem, or undefined. */
async function packageAgent(data: string): Promise<string | undefined> {
  const file = join(data, 'package.log')
  const log = openSync(file, 'w', 0o600)
  const argv = ['scripts/bundle.ts', '--if-stale']
  const child = spawn(process.execPath, argv, { cwd: root, stdio: ['ignore', log, log] })
  closeSync(log)
  ending.push(() => end(child))
  const code = await new Promise((resolve) => child.once('exit', resolve).once('error', resolve))
  return code === 0 ? undefined : `agent or client could not be packaged for others; see ${file}`
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
  await gone
  clearTimeout(timer)
}

async function stop(code: number): Promise<void> {
  if (stopping) return
  stopping = true
  for (const end of ending.toReversed()) await Promise.resolve(end()).catch(() => {})
  process.exit(code)
}

const SSH_COMMANDS = `  npm run --silent berth -- logs -p hello -e main -f
  npm run --silent berth -- ssh -p hello -e main`

const ADMINISTRATOR = 'administrator@localhost.localdomain'
const passwordFile = (data: string): string => join(data, 'administrator-password')

/** On the first start the set-up token comes from the control plane's console, as in any installation. */
async function administrator(url: string, data: string, printed: () => string): Promise<string> {
  const file = join(data, 'administrator-token')
  if (existsSync(file)) return readFileSync(file, 'utf8').trim()
  const password = randomBytes(12).toString('base64url')
  const setup = await until('the set-up token', async () => /berth_setup_\w+/.exec(printed())?.[0])
  const answer = await fetch(`${url}/api/setup`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      token: setup,
      name: 'Administrator',
      email: ADMINISTRATOR,
      password,
      organization: 'Example',
    }),
  })
  if (answer.status !== 201) throw new Error(`set-up was refused: ${await answer.text()}`)
  const { token } = (await answer.json()) as { token: string }
  writeFileSync(passwordFile(data), `${password}\n`, { mode: 0o600 })
  writeFileSync(file, `${token}\n`, { mode: 0o600 })
  return token
}

async function main(): Promise<void> {
  const data = process.env.BERTH_DATA ?? join(root, '.data')
  mkdirSync(data, { recursive: true })
  accessSync(data, constants.W_OK)
  ensureCaddy()
  const ports = await choosePorts(data)
  const dev = { BERTH_DEV: '1' }
  const stateDir = chooseStateDir(data)
  mkdirSync(stateDir, { recursive: true })
  chmodSync(stateDir, 0o711)
  const agentEnv = {
    ...dev,
    BERTH_STATE_DIR: stateDir,
    BERTH_ACCOUNT_PREFIX: accountPrefix(data),
    BERTH_PROXY_HTTP: `127.0.0.1:${ports.proxy}`,
    BERTH_EDGE_DNS_PORT: String(ports.names),
    ...(await sshEnvironment(data, ports.ssh)),
  }
  await takePorts(ports, data, agentEnv)
  // Caddy never runs as root; without root it runs as the current user
  if (process.getuid?.() === 0) runAgent(['setup', 'proxy-account'], agentEnv)
  const url = `http://127.0.0.1:${ports.http}`
  const repositories = join(data, 'repositories')
  makeRepository(repositories)
  const git = await startGitServer(repositories, ports.git)
  ending.push(() => git.close())

  let isPackaging = true
  const packaged = packageAgent(data).finally(() => {
    isPackaging = false
  })
  console.log('Building the dashboard …')
  await buildDashboardIfStale()
  console.log('Starting the control plane …')
  const controlPlane = start(
    'control-plane',
    ['control-plane/src/main.ts'],
    {
      ...dev,
      BERTH_DATA_DIR: join(data, 'control-plane'),
      BERTH_PORT: String(ports.http),
      BERTH_AGENT_PORT: String(ports.agent),
      BERTH_URL: url,
    },
    data,
  )
  let printed = ''
  controlPlane.stdout?.on('data', (chunk) => {
    printed = (printed + chunk).slice(-10_000)
  })
  await until('the control plane', async () => (await fetch(`${url}/api/health`)).ok || undefined)
  const token = await administrator(url, data, () => printed)
  const api = connect(url, token)

  const server = await findOrMake<Named & { status: string }>(api, '/api/servers', 'local', {
    hostname: '127.0.0.1',
  })
  if (server.status === 'pending') {
    console.log('Joining the local agent …')
    const made = await api.post<{ token: string }>(`/api/servers/${server.id}/join_token`)
    runAgent(['join', url, made.token], agentEnv)
  } else if (!knowsAddress(stateDir, url, ports.agent)) {
    await stopServer(agentEnv) // leftover processes listen on the previous ports
    runAgent(['move', url], agentEnv)
  }
  ending.push(() => stopServer(agentEnv))
  start('agent', ['agent/src/main.ts', 'run'], agentEnv, data)
  await until('the agent', async () => {
    const { status } = await api.get<{ status: string }>(`/api/servers/${server.id}`)
    return status === 'online' || undefined
  })

  const recipes = describeRecipes(await api.get(`/api/servers/${server.id}`))
  for (const line of recipes.filter((one) => !one.endsWith(': ready'))) console.log(`  ${line}`)

  console.log('Deploying the example project …')
  const environment = await deployExample(api, server.id, git.url)
  const noSsh =
    whyNoSsh() ??
    (await awaitSsh(api, server.id, environment.id, ports.ssh).then(
      () => undefined,
      () => `it did not start; see ${data}/agent.log`,
    ))
  if (isPackaging) console.log('Packaging the agent for other servers …')
  const noPackage = await packaged
  if (noPackage) console.error(`warning: ${noPackage}`)
  console.log(`
Berth is running.
  Dashboard            ${url}/   (sign in as ${ADMINISTRATOR}, password in ${passwordFile(data)})
  API                  ${url}/api
  Administrator token  ${join(data, 'administrator-token')}
  Example application  ${environment.url}
  The server's folder  ${stateDir}
  Recipes              ${recipes.join(`\n${' '.repeat(23)}`)}
  Logs                 ${data}/control-plane.log, ${data}/agent.log

Try next, in another terminal:
  npm run --silent berth -- login --url ${url} --with-token < ${join(data, 'administrator-token')}
  npm run --silent berth -- deploy -p hello -e main --wait
  npm run --silent berth -- tasks -p hello -e main
${noSsh ? `  (logs and ssh need SSH, which is off here: ${noSsh})` : SSH_COMMANDS}

Ctrl-C ends everything that was started here, containers included. The data stays, and the next start brings them back.`)
}

// handles repeated signals: npm forwards one that the terminal has sent already, and users press twice
process.on('SIGINT', () => void stop(0))
process.on('SIGTERM', () => void stop(0))
main().catch((error: unknown) => {
  if (stopping) return
  console.error(`error: ${error instanceof Error ? error.message : String(error)}`)
  void stop(1)
})
