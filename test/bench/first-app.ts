// npm run bench -- first-app
//
// From a fresh `npm start` and an empty HOME: the commands that a new user types after the login, and the seconds until
// their own application and the preview of their first pull request answer, for six kinds of repository. The base images
// of registries are stand-ins under the same names, made of this machine's programs; everything else is real.
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { startDockerEngine } from '../../scripts/docker-engine.ts'
import { makePythonStandIn, makeStandIns } from '../fixtures/docker/images.ts'
import { locate } from '../fixtures/platform/components.ts'
import { until } from '../fixtures/server/installation.ts'
import { freePort } from '../fixtures/server/installation-docker.ts'
import { takePortRange } from '../fixtures/server/packet-rules.ts'
import { round } from './figures.ts'
import { type Kind, kinds, NEXT } from './first-app-kinds.ts'
import { goal } from './goals.ts'

const root = join(import.meta.dirname, '../..')
const START_MS = 300_000
const ANSWER_MS = 60_000

interface Installation {
  data: string
  home: string
  url: string
  forge: string
  proxyPort: number
}

interface Done {
  code: number
  text: string
}

function run(here: Installation, cwd: string, program: string, args: string[]): Promise<Done> {
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: here.home,
    GIT_AUTHOR_NAME: 'Ada',
    GIT_AUTHOR_EMAIL: 'ada@example.com',
    GIT_COMMITTER_NAME: 'Ada',
    GIT_COMMITTER_EMAIL: 'ada@example.com',
  }
  return new Promise((resolve) => {
    execFile(program, args, { cwd, env, maxBuffer: 10_000_000 }, (error, stdout, stderr) =>
      resolve({ code: error ? 1 : 0, text: stdout + stderr }),
    ).stdin?.end()
  })
}

const berth = (here: Installation, cwd: string, ...words: string[]): Promise<Done> =>
  run(here, cwd, process.execPath, [join(root, 'cli/src/main.ts'), ...words])

async function mustRun(...args: Parameters<typeof run>): Promise<string> {
  const { code, text } = await run(...args)
  if (code !== 0) throw new Error(`${args[2]} ${args[3].join(' ')}: ${text}`)
  return text
}

const visit = (port: number, host: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, headers: { host } }, (answer) => {
      let text = ''
      answer.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      })
      answer.on('end', () => resolve(text))
    })
    sent.on('error', reject)
    sent.end()
  })

/** Seconds until the page shows the text. */
async function answers(here: Installation, host: string, text: string, began: number) {
  await until(
    `${host} to show "${text}"`,
    async () => (await visit(here.proxyPort, host)).includes(text) || undefined,
    ANSWER_MS,
  )
  return (performance.now() - began) / 1_000
}

interface Measured {
  kind: string
  commands: number
  appSeconds: number
  previewSeconds: number
  trouble: string | null
}

async function measure(here: Installation, kind: Kind, folder: string): Promise<Measured> {
  const cwd = join(folder, kind.name)
  for (const [name, text] of Object.entries(kind.files)) {
    mkdirSync(dirname(join(cwd, name)), { recursive: true })
    writeFileSync(join(cwd, name), text)
  }
  const git = (...args: string[]) => mustRun(here, cwd, 'git', args)
  // what a user has before Berth: a repository at their forge
  await git('init', '--quiet', '--initial-branch=main')
  await git('add', '--all')
  await git('commit', '--quiet', '--message=First')
  await git('remote', 'add', 'origin', `${here.forge}/me/${kind.name}.git`)
  await git('push', '--quiet', '--set-upstream', 'origin', 'main')

  const failed = { kind: kind.name, commands: 1, appSeconds: 0, previewSeconds: 0 }
  const began = performance.now()
  const up = await berth(here, cwd, 'up', '--yes')
  if (up.code !== 0) return { ...failed, trouble: up.text }
  const host = (name: string): string => `${name}.${kind.name}.localhost`
  const appSeconds = await answers(here, host('main'), kind.shows, began)

  await git('switch', '--quiet', '--create', 'pr/next')
  const text = readFileSync(join(cwd, kind.changed), 'utf8')
  writeFileSync(join(cwd, kind.changed), text.replaceAll(kind.shows, NEXT))
  await git('commit', '--quiet', '--all', '--message=Second')
  const pushed = performance.now()
  const said = await run(here, cwd, 'git', ['push', 'origin', 'HEAD'])
  const isShown = /pr-1 runs: http/.test(said.text)
  if (!isShown) return { ...failed, appSeconds, trouble: said.text }
  const previewSeconds = await answers(here, host('pr-1'), NEXT, pushed)
  return { kind: kind.name, commands: 1, appSeconds, previewSeconds, trouble: null }
}

async function startBerth(
  here: Omit<Installation, 'forge' | 'proxyPort' | 'url'>,
  env: Record<string, string>,
): Promise<{ child: ChildProcess; installation: Installation }> {
  const ports = { http: await freePort(), agent: await freePort(), proxy: await freePort() }
  writeFileSync(join(here.data, 'ports.json'), JSON.stringify(ports))
  const child = spawn(process.execPath, ['scripts/dev/main.ts'], {
    cwd: root,
    env: { ...process.env, ...env, BERTH_DATA: here.data },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let said = ''
  child.stdout.on('data', (chunk: Buffer) => {
    said += chunk.toString('utf8')
  })
  let isOver = false
  child.once('exit', () => {
    isOver = true
  })
  await until(
    'npm start',
    () => isOver || said.includes('Berth is running.') || undefined,
    START_MS,
  )
  if (isOver) throw new Error(`npm start ended: ${said}`)
  const kept = JSON.parse(readFileSync(join(here.data, 'ports.json'), 'utf8'))
  const local = (port: number): string => `http://127.0.0.1:${port}`
  const addresses = { url: local(kept.http), forge: local(kept.git), proxyPort: kept.proxy }
  return { child, installation: { ...here, ...addresses } }
}

async function end(child: ChildProcess): Promise<void> {
  const gone = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGINT')
  await gone
}

export async function benchFirstApp(): Promise<void> {
  const dockerd = locate('docker')
  if (!dockerd || process.getuid?.() !== 0) throw new Error('this needs root and dockerd')
  const go = /go(1\.\d+)/.exec(execFileSync('go', ['version'], { encoding: 'utf8' }))?.[1] ?? ''
  const folder = mkdtempSync(join(tmpdir(), 'berth-first-app-'))
  chmodSync(folder, 0o755)
  const here = { data: join(folder, 'data'), home: join(folder, 'home') }
  for (const one of Object.values(here)) mkdirSync(one, { mode: 0o755 })
  const range = takePortRange()
  const engine = await startDockerEngine(dockerd)
  const env = {
    HOME: here.home,
    DOCKER_HOST: `unix://${engine.socket}`,
    BERTH_NETWORK_POOL: engine.pool,
    BERTH_PORT_RANGE: `${range.from}-${range.to}`,
  }
  try {
    await makeStandIns(engine.socket, go)
    await makePythonStandIn(engine.socket)
    const began = performance.now()
    const { child, installation } = await startBerth(here, env)
    console.log(`npm start was up after ${round((performance.now() - began) / 1_000)} s`)
    try {
      const token = readFileSync(join(here.data, 'administrator-token'), 'utf8').trim()
      const login = ['login', '--url', installation.url, '--with-token']
      await loginWith(installation, login, token)
      for (const kind of kinds(go)) {
        const one = await measure(installation, kind, folder)
        const times = `address after ${round(one.appSeconds)} s, preview after ${round(one.previewSeconds)} s`
        const isWhole = one.trouble === null && one.commands === 1
        goal(kind.name, isWhole, one.trouble ?? `${one.commands} command after the login; ${times}`)
      }
    } finally {
      await end(child)
    }
    execFileSync(process.execPath, ['scripts/dev/clean.ts'], {
      cwd: root,
      env: { ...process.env, ...env, BERTH_DATA: here.data },
      stdio: 'inherit',
    })
    goal('npm run clean', !existsSync(here.data), 'the data and the accounts are gone')
  } finally {
    await engine.stop()
    range.giveBack()
    rmSync(folder, { recursive: true, force: true })
  }
}

function loginWith(here: Installation, words: string[], token: string): Promise<void> {
  const child = spawn(process.execPath, [join(root, 'cli/src/main.ts'), ...words], {
    cwd: here.home,
    env: { PATH: process.env.PATH ?? '', HOME: here.home },
    stdio: ['pipe', 'ignore', 'inherit'],
  })
  child.stdin.end(token)
  return new Promise((resolve, reject) => {
    child.once('exit', (code) => (code === 0 ? resolve() : reject(new Error('login failed'))))
  })
}
