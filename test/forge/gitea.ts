// A real Gitea on loopback: built once from its Go module and kept in the user's cache folder, with SQLite, its own SSH
// server, and its pages below a path. Its Go module has no built pages for browsers, so tests use its API and git.
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { until } from '../fixtures/server/installation.ts'
import { freePort } from '../fixtures/server/installation-docker.ts'

const MODULE = 'code.gitea.io/gitea'
const VERSION = 'v1.25.2'
const TAGS = 'sqlite sqlite_unlock_notify'
const DOWNLOAD_MS = 600_000

const run = promisify(execFile)
const cacheFolder = (): string =>
  join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'berth-test', `gitea-${VERSION}`)

/** Returns the folder with the program and the files it reads; builds it if it is not there. */
async function build(say: (line: string) => void): Promise<string> {
  const folder = cacheFolder()
  const program = join(folder, 'gitea')
  if (existsSync(program)) return folder
  say(`building Gitea ${VERSION} from its Go module, once; this takes many minutes`)
  const PATH = [process.env.PATH, '/usr/local/go/bin'].join(delimiter)
  const env = { ...process.env, PATH, GOTOOLCHAIN: 'auto', CGO_ENABLED: '1' }
  const scratch = mkdtempSync(join(tmpdir(), 'berth-gitea-module-'))
  writeFileSync(join(scratch, 'go.mod'), 'module built\n')
  const asked = ['mod', 'download', '-json', `${MODULE}@${VERSION}`]
  const { stdout } = await run('go', asked, { cwd: scratch, env, timeout: DOWNLOAD_MS })
  const { Dir: source } = JSON.parse(stdout) as { Dir: string }
  rmSync(scratch, { recursive: true, force: true })
  // its go.mod replaces modules, which `go install` refuses, so it is built in a copy of its own
  mkdirSync(folder, { recursive: true })
  execFileSync('cp', ['-R', '--no-preserve=mode', `${source}/.`, folder])
  const made = `${program}.new`
  const go = spawn('go', ['build', '-buildvcs=false', '-tags', TAGS, '-o', made, '.'], {
    cwd: folder,
    env,
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const [code] = (await once(go, 'exit')) as [number | null]
  if (code !== 0) throw new Error(`go build ended with ${code}`)
  renameSync(made, program)
  return folder
}

interface Settings {
  folder: string
  source: string
  http: number
  ssh: number
}

const writeSettings = ({ folder, source, http, ssh }: Settings): string => `
APP_NAME = Forge
RUN_MODE = prod
RUN_USER = ${execFileSync('id', ['-un']).toString().trim()}
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
WORK_PATH = ${folder}
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = ${http}
ROOT_URL = http://127.0.0.1:${http}/forge/
LOCAL_ROOT_URL = http://127.0.0.1:${http}/forge/
USE_SUB_URL_PATH = true
STATIC_ROOT_PATH = ${source}
START_SSH_SERVER = true
BUILTIN_SSH_SERVER_USER = git
SSH_USER = git
SSH_DOMAIN = localhost
SSH_LISTEN_HOST = 127.0.0.1
SSH_LISTEN_PORT = ${ssh}
SSH_PORT = ${ssh}
OFFLINE_MODE = true
[database]
DB_TYPE = sqlite3
PATH = ${folder}/gitea.db
[repository]
ROOT = ${folder}/repositories
[security]
INSTALL_LOCK = true
SECRET_KEY = ${randomBytes(32).toString('hex')}
[webhook]
ALLOWED_HOST_LIST = loopback
[service]
DISABLE_REGISTRATION = true
[log]
MODE = console
LEVEL = Warn
[indexer]
ISSUE_INDEXER_TYPE = db
[cron]
ENABLED = false
[actions]
ENABLED = false
[mirror]
ENABLED = false
`

type Json = Record<string, unknown>

export class Gitea {
  readonly folder: string
  readonly #program: string
  readonly #settings: string
  readonly #http: number
  readonly #ssh: number
  #child: ChildProcess | undefined
  /** A token that may do everything, for the test's own hands. */
  #root = ''

  private constructor(o: Settings) {
    this.folder = o.folder
    this.#program = join(o.source, 'gitea')
    this.#settings = join(o.folder, 'app.ini')
    this.#http = o.http
    this.#ssh = o.ssh
  }

  static async start(say: (line: string) => void = console.log): Promise<Gitea> {
    const source = await build(say)
    const folder = mkdtempSync(join(tmpdir(), 'berth-gitea-'))
    const settings = { folder, source, http: await freePort(), ssh: await freePort() }
    const gitea = new Gitea(settings)
    writeFileSync(gitea.#settings, writeSettings(settings))
    mkdirSync(join(folder, 'custom'))
    gitea.#cli('migrate')
    const log = openSync(join(folder, 'gitea.log'), 'a')
    gitea.#child = spawn(gitea.#program, ['--config', gitea.#settings, 'web'], {
      cwd: folder,
      env: gitea.#environment,
      stdio: ['ignore', log, log],
    })
    await until('Gitea to answer', async () => {
      if (gitea.#child?.exitCode !== null) throw new Error(gitea.log())
      return (await fetch(`${gitea.url}/api/v1/version`)).ok || undefined
    })
    gitea.#cli(
      ...['admin', 'user', 'create', '--admin', '--username', 'ada'],
      ...['--password', randomBytes(16).toString('hex'), '--email', 'ada@example.com'],
      '--must-change-password=false',
    )
    gitea.#root = gitea.token('all')
    return gitea
  }

  get #environment(): Record<string, string | undefined> {
    return { ...process.env, HOME: this.folder, GITEA_WORK_DIR: this.folder }
  }

  #cli(...words: string[]): string {
    return execFileSync(this.#program, ['--config', this.#settings, ...words], {
      cwd: this.folder,
      env: this.#environment as NodeJS.ProcessEnv,
      stdio: 'pipe',
    }).toString()
  }

  /** A new token of ada with these scopes. */
  token(scopes: string): string {
    const name = `t${randomBytes(4).toString('hex')}`
    const asked = ['--username', 'ada', '--token-name', name, '--scopes', scopes, '--raw']
    return (
      this.#cli('admin', 'user', 'generate-access-token', ...asked)
        .trim()
        .split('\n')
        .at(-1) ?? ''
    )
  }

  get url(): string {
    return `http://127.0.0.1:${this.#http}/forge`
  }

  /** What a project has: another hostname and port than the API. */
  sshUrl(repository: string): string {
    return `ssh://git@localhost:${this.#ssh}/${repository}.git`
  }

  /** For pushes of the test itself. */
  pushUrl(repository: string): string {
    return `http://ada:${this.#root}@127.0.0.1:${this.#http}/forge/${repository}.git`
  }

  async call<T = Json>(method: string, path: string, body?: unknown): Promise<T> {
    const answer = await fetch(`${this.url}/api/v1${path}`, {
      method,
      headers: { authorization: `token ${this.#root}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text.slice(0, 500)}`)
    return (text === '' ? {} : JSON.parse(text)) as T
  }

  log(): string {
    return readFileSync(join(this.folder, 'gitea.log'), 'utf8').slice(-4_000)
  }

  async close(): Promise<void> {
    const child = this.#child
    if (child && child.exitCode === null) {
      const gone = once(child, 'exit')
      child.kill('SIGTERM')
      await gone
    }
    rmSync(this.folder, { recursive: true, force: true })
  }
}
