// What `npm start` runs: a control plane on embedded SQLite, a local agent that joins by the real join flow, a forge, and
// an example that is deployed from it. Ctrl-C ends everything it starts; its data stays and is used again.
//   npm start -- --docker   runs a private Docker engine, if none answers
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { buildDashboardIfStale } from '../build-dashboard.ts'
import { ensureCaddy } from '../caddy.ts'
import { startPrivateEngine } from './engine.ts'
import {
  type Api,
  awaitExample,
  awaitSsh,
  connect,
  deployExample,
  EXAMPLE,
  findOrMake,
  type Named,
  until,
} from './example.ts'
import { followWith } from './follow.ts'
import { type Forge, startForge } from './forge/forge.ts'
import { choosePorts, type Ports } from './ports.ts'
import { describeRecipes, doesEngineAnswer } from './recipes.ts'
import {
  agentEnvironment,
  digestOf,
  type Environ,
  freeServerPorts,
  knowsAddress,
  refuseTaken,
  root,
  runAgent,
  stopServer,
  whyNoSsh,
} from './server.ts'

const STOP_MS = 15_000

/** What to end, in the order of its start; ended in reverse. */
const ending: (() => Promise<void> | void)[] = []
let stopping = false

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

/** Kept, because connections of projects use it. */
function forgeToken(data: string): string {
  const file = join(data, 'forge-token')
  if (!existsSync(file)) {
    writeFileSync(file, `${randomBytes(24).toString('base64url')}\n`, { mode: 0o600 })
  }
  return readFileSync(file, 'utf8').trim()
}

/** An engine that answers is used. Otherwise `--docker` runs a private one. */
async function chooseEngine(data: string, isAsked: boolean): Promise<Environ> {
  if (!isAsked || (await doesEngineAnswer())) return {}
  console.log('Starting a private Docker engine …')
  const engine = await startPrivateEngine(data, digestOf(data))
  ending.push(() => engine.stop())
  return { DOCKER_HOST: `unix://${engine.socket}`, BERTH_NETWORK_POOL: engine.pool }
}

/** What the agent needs before it starts. */
async function prepareServer(data: string, ports: Ports, wantsEngine: boolean): Promise<Environ> {
  const agentEnv = await agentEnvironment(data, ports)
  await freeServerPorts(ports, data, agentEnv)
  Object.assign(agentEnv, await chooseEngine(data, wantsEngine))
  // Caddy never runs as root; without root it runs as the current user
  if (process.getuid?.() === 0) await runAgent(['setup', 'proxy-account'], agentEnv)
  return agentEnv
}

async function startControlPlane(
  url: string,
  data: string,
  ports: { http: number; agent: number },
) {
  console.log('Starting the control plane …')
  const settings = {
    BERTH_DEV: '1',
    BERTH_DATA_DIR: join(data, 'control-plane'),
    BERTH_PORT: String(ports.http),
    BERTH_AGENT_PORT: String(ports.agent),
    BERTH_URL: url,
  }
  const controlPlane = start('control-plane', ['control-plane/src/main.ts'], settings, data)
  let printed = ''
  controlPlane.stdout?.on('data', (chunk) => {
    printed = (printed + chunk).slice(-10_000)
  })
  await until('the control plane', async () => (await fetch(`${url}/api/health`)).ok || undefined)
  return connect(url, await administrator(url, data, () => printed))
}

async function startAgent(
  api: Api,
  agentEnv: Environ,
  { url, port, data }: { url: string; port: number; data: string },
): Promise<number> {
  type Server = Named & { status: string }
  const asked = { hostname: '127.0.0.1' }
  const server = await findOrMake<Server>(api, '/api/servers', 'local', asked)
  if (server.status === 'pending') {
    console.log('Joining the local agent …')
    const made = await api.post<{ token: string }>(`/api/servers/${server.id}/join_token`)
    await runAgent(['join', url, made.token], agentEnv)
  } else if (!knowsAddress(agentEnv.BERTH_STATE_DIR ?? '', url, port)) {
    await stopServer(agentEnv) // leftover processes listen on the previous ports
    await runAgent(['move', url], agentEnv)
  }
  ending.push(() => stopServer(agentEnv))
  start('agent', ['agent/src/main.ts', 'run'], agentEnv, data)
  await until('the agent', async () => {
    const { status } = await api.get<{ status: string }>(`/api/servers/${server.id}`)
    return status === 'online' || undefined
  })
  return server.id
}

async function main(): Promise<void> {
  const words = process.argv.slice(2)
  const unknown = words.find((word) => word !== '--docker')
  if (unknown) throw new Error(`npm start does not know ${unknown}; it knows -- --docker`)
  const data = process.env.BERTH_DATA ?? join(root, '.data')
  mkdirSync(data, { recursive: true })
  accessSync(data, constants.W_OK)
  process.env.NODE_COMPILE_CACHE ??= join(data, 'cache') // a start reads several hundred sources
  ensureCaddy()
  const ports = await choosePorts(data)
  await refuseTaken(ports, data, ['http', 'agent', 'git'])
  const url = `http://127.0.0.1:${ports.http}`
  let api: Api | undefined
  const forge = await startForge({
    folder: join(data, 'repositories'),
    port: ports.git,
    token: forgeToken(data),
    follow: followWith(() => api),
  })
  ending.push(() => forge.close())
  writeFileSync(join(data, 'forge-address'), `${forge.url}\n`)

  let isPackaging = true
  const packaged = packageAgent(data).finally(() => {
    isPackaging = false
  })
  const preparing = prepareServer(data, ports, words.includes('--docker'))
  preparing.catch(() => {}) // seen below
  await buildDashboardIfStale(() => console.log('Building the dashboard …'))
  api = await startControlPlane(url, data, ports)
  const agentEnv = await preparing
  const serverId = await startAgent(api, agentEnv, { url, port: ports.agent, data })
  console.log('Deploying the example …')
  const environment = await deployExample(api, serverId, forge)
  const noExample = environment.url === null ? undefined : await awaitExample(environment.url)
  const noSsh =
    whyNoSsh() ??
    (await awaitSsh(api, serverId, environment.id, ports.ssh).then(
      () => undefined,
      () => `it did not start; see ${data}/agent.log`,
    ))
  if (isPackaging) console.log('Packaging the agent for other servers …')
  const noPackage = await packaged
  for (const problem of [noExample, noPackage]) {
    if (problem) console.error(`warning: ${problem}`)
  }
  const recipes = describeRecipes(await api.get(`/api/servers/${serverId}`))
  console.log(describe({ url, data, forge, example: environment.url, recipes, noSsh }))
}

function describe(run: {
  url: string
  data: string
  forge: Forge
  example: string | null
  recipes: string
  noSsh: string | undefined
}): string {
  const { url, data, forge } = run
  const token = join(data, 'administrator-token')
  return `
Berth is running.
  Dashboard            ${url}/   (sign in as ${ADMINISTRATOR}, password in ${passwordFile(data)})
  API                  ${url}/api   (administrator's token in ${token})
  Example              ${run.example}
  Forge                ${forge.url}/   (a push deploys; its token is in ${join(data, 'forge-token')})
  Recipes              ${run.recipes}
  Logs                 ${data}/control-plane.log, ${data}/agent.log

Try next, in another terminal:
  npm run --silent berth -- login --url ${url} --with-token < ${token}
  npm run --silent berth -- deploy -p hello -e main --wait
  npm run --silent berth -- tasks -p hello -e main
${run.noSsh ? `  (logs and ssh need SSH, which is off here: ${run.noSsh})` : SSH_COMMANDS}

A pull request gets a preview, with its own address:
  git clone --quiet ${forge.url}/${EXAMPLE}.git hello
  cd hello
  git switch --quiet --create pr/evening
  sed -i 's/Hello from Berth/Good evening/' .service.yml
  git commit --quiet --all --message 'Greet in the evening'
  git push origin HEAD                  # opens a pull request and prints the preview's address
  git push origin --delete pr/evening   # closes it: the preview goes

Ctrl-C ends everything that was started here, containers included. The data stays, and the next start brings them back.
npm run clean removes the data and the accounts.`
}

// handles repeated signals: npm forwards one that the terminal has sent already, and users press twice
process.on('SIGINT', () => void stop(0))
process.on('SIGTERM', () => void stop(0))
main().catch((error: unknown) => {
  if (stopping) return
  console.error(`error: ${error instanceof Error ? error.message : String(error)}`)
  void stop(1)
})
