// The attacked installation: real control plane, agent, Docker engine, Caddy and sshd in their own network namespace.
// One server has a victim (guarded, in its own project) and an attacker of each recipe; there is also the owner of
// another organization, and members with low roles. The attackers run scripts that a case sends them (implant.cjs).
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import type { Environment, ProjectCreated, ProjectDetail, Server } from '@berth/shared/api'
import { buildDashboardIfStale } from '../../scripts/build-dashboard.ts'
import type { DockerEngine } from '../../scripts/docker-engine.ts'
import { type DockerFixture, openDockerFixture } from '../fixtures/docker/docker-fixture.ts'
import { NODE_IMAGE } from '../fixtures/docker/images.ts'
import { type Fixture, until } from '../fixtures/server/installation.ts'
import { freePort } from '../fixtures/server/installation-docker.ts'
import { AGENT_MAIN, copyForcedCommand } from '../fixtures/server/programs.ts'

export const PASSWORD = 'correct horse battery'
export const GUARD = { mode: 'own', username: 'preview', password: 'only-for-friends' }
/** A value of the victim that must never leak. */
export const CANARY = `canary-${randomBytes(12).toString('hex')}`

const IMPLANT = readFileSync(join(import.meta.dirname, 'implant.cjs'), 'utf8')
const ANSWER_MS = 45_000

export interface Visit {
  status: number
  text: string
}

export interface Person {
  token: string
  cookie: string
}

/** An environment as a case sees it. */
export interface Target {
  project: ProjectDetail
  environment: Environment
  /** By service; the first one has the environment's own hostname. */
  host: (service?: string) => string
}

export class AttackedInstallation {
  readonly fixture: Fixture
  readonly engine: DockerEngine
  readonly sshPort: number
  readonly #docker: DockerFixture
  readonly #dir: string
  victim!: Target
  mallory!: Target
  vault!: Target
  box!: Target
  /** Owner of another organization. */
  stranger!: Person
  strangerOrganization = 0
  viewer!: Person
  member!: Person

  private constructor(docker: DockerFixture, dir: string, sshPort: number) {
    this.#docker = docker
    this.fixture = docker.fixture
    this.engine = docker.engine
    this.#dir = dir
    this.sshPort = sshPort
  }

  static async open(say: (line: string) => void): Promise<AttackedInstallation> {
    // below /tmp an environment's own folder would be hidden from it, and sshd would trust no file
    await buildDashboardIfStale()
    const dir = mkdtempSync('/var/lib/berth-attack-')
    chmodSync(dir, 0o755)
    const sshPort = await freePort()
    let installation: AttackedInstallation | undefined
    try {
      const command = copyForcedCommand(dir)
      const docker = await openDockerFixture({
        withNode: true,
        fixture: {
          parent: dir,
          agentEnv: {
            BERTH_SSH: 'dedicated',
            BERTH_SSH_DIR: join(dir, 'ssh'),
            BERTH_SSH_LISTEN: `127.0.0.1:${sshPort}`,
            BERTH_SSH_COMMAND: command,
          },
        },
      })
      installation = new AttackedInstallation(docker, dir, sshPort)
      say('installed: control plane, agent, engine, proxy')
      await installation.#furnish()
      say('deployed: victim, attacker and docker neighbours')
      return installation
    } catch (error) {
      if (installation) await installation.close()
      else rmSync(dir, { recursive: true, force: true })
      throw error
    }
  }

  async close(): Promise<void> {
    const env = { ...process.env, ...this.fixture.agentEnvironment }
    this.fixture.agent?.kill('SIGTERM')
    try {
      const argv = [AGENT_MAIN, 'ssh', 'remove']
      const cwd = join(import.meta.dirname, '../..')
      execFileSync(process.execPath, argv, { cwd, env, stdio: 'pipe' })
    } finally {
      await this.#docker.close()
      rmSync(this.#dir, { recursive: true, force: true })
    }
  }

  async #furnish(): Promise<void> {
    const { fixture } = this
    const node = fixture.node()
    this.victim = await this.deployed('shop', 'manual', this.manualFiles(node, 'victim'), {
      variables: { SECRET: CANARY },
      basic_auth: GUARD,
    })
    this.mallory = await this.deployed('mallory', 'manual', this.manualFiles(node, 'mallory'))
    this.vault = await this.deployed('vault', 'docker', dockerFiles('vault'), {
      variables: { SECRET: CANARY },
      basic_auth: GUARD,
    })
    this.box = await this.deployed('box', 'docker', dockerFiles('box'))
    this.viewer = await this.#person('vera', 'viewer', 1)
    this.member = await this.#person('mike', 'developer', 1)
    const other = await fixture.post<{ id: number }>('/api/organizations', { name: 'Elsewhere' })
    this.strangerOrganization = other.id
    this.stranger = await this.#person('sven', 'owner', other.id)
    const { id } = await fixture.get<{ id: number }>('/api/me')
    const left = await fixture.call('DELETE', `/api/organizations/${other.id}/members/${id}`)
    if (!left.ok) throw new Error(`the administrator cannot leave: ${await left.text()}`)
    await until('sshd in the server’s parts', async () => {
      const { parts } = await fixture.get<Server>(`/api/servers/${fixture.serverId}`)
      return parts.some(({ name, reason }) => name === 'sshd' && !reason) || undefined
    })
  }

  /** A manual environment with a port, a socket and files; all of them answer with its name. */
  manualFiles(node: string, name: string, more: Record<string, string> = {}) {
    return {
      'implant.cjs': IMPLANT,
      'socket.cjs': `require('http').createServer((q, r) => { r.setHeader('connection', 'close'); r.end('socket of ${name}\\n') }).listen(process.env.BERTH_SOCKET_DIR + '/app.sock')\n`,
      '.service.yml': `manual:
  deploy: ['mkdir -p public && echo "page of ${name}" >public/page.html && echo hidden >public/.env']
  services:
    web: { port: auto, run: exec ${node} implant.cjs, env: { NAME: ${name} } }
    app: { socket: app.sock, run: 'rm -f "$BERTH_SOCKET_DIR/app.sock"; exec ${node} socket.cjs' }
    site: { root: public }
actions:
  collect: { run: 'true', artifacts: { paths: ['out/**'] } }
`,
      ...more,
    }
  }

  /** A project with a running environment. */
  async deployed(
    name: string,
    recipe: 'manual' | 'docker',
    files: Record<string, string>,
    settings: Record<string, unknown> = {},
  ): Promise<Target> {
    const { fixture } = this
    const project = await fixture.project(name, fixture.repository(name, files), recipe)
    const body = { identifier: 'main', branch: 'main', auto_deploy: false, ...settings }
    const environment = await fixture.post<Environment>(
      `/api/projects/${project.id}/environments`,
      body,
    )
    const target: Target = {
      project,
      environment,
      host: (service = '') => {
        const { host } = new URL(environment.url ?? `http://main.${name}.example.com`)
        return service ? `${service}-${host}` : host
      },
    }
    await this.redeploy(target)
    return target
  }

  async redeploy({ environment }: Target): Promise<void> {
    const { id } = await this.fixture.deploy(environment.id)
    const task = await this.fixture.finished(id, ANSWER_MS * 4)
    if (task.status === 'succeeded') return
    const log = (await this.fixture.log(id)).toString().split('\n').slice(-20).join('\n')
    throw new Error(`task ${id} is ${task.status}: ${JSON.stringify(task.failure)} ${log}`)
  }

  /** Deploys a commit that should be refused; returns the message. */
  async attempt(target: Target, files: Record<string, string>): Promise<string> {
    this.fixture.repository(target.project.name, files)
    const { id } = await this.fixture.deploy(target.environment.id)
    const task = await this.fixture.finished(id, ANSWER_MS * 4)
    const log = (await this.fixture.log(id)).toString()
    return `${task.status} ${JSON.stringify(task.failure)}\n${log}`
  }

  /** Through the proxy. */
  visit(host: string, path = '/', headers: Record<string, string> = {}): Promise<Visit> {
    return this.send('GET', host, path, headers)
  }

  send(
    method: string,
    host: string,
    path: string,
    headers: Record<string, string> = {},
    body = '',
  ): Promise<Visit> {
    const options = { host: '127.0.0.1', port: this.fixture.proxyPort, method, path, agent: false }
    return new Promise((resolve, reject) => {
      const asked = request({ ...options, headers: { ...headers, host } }, (answer) => {
        let text = ''
        answer.setEncoding('utf8').on('data', (piece: string) => {
          text += piece
        })
        answer.on('error', reject)
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text }))
      })
      asked.setTimeout(ANSWER_MS, () => asked.destroy(new Error(`${host} does not answer`)))
      asked.on('error', reject)
      asked.end(body)
    })
  }

  friend(): Record<string, string> {
    const { username, password } = GUARD
    return { authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}` }
  }

  /** Runs a script inside an attacker's environment, with its account and confinement. */
  async implant(target: Target, script: string): Promise<{ code: number | null; out: string }> {
    const { status, text } = await this.send('POST', target.host(), '/', {}, script)
    if (status !== 200) {
      throw new Error(
        `the implant answered ${status}: ${text.slice(0, 100)}; ${this.#lastOfCaddy()}`,
      )
    }
    return JSON.parse(text) as { code: number | null; out: string }
  }

  /** Why Caddy could not answer, in its own words. */
  #lastOfCaddy(): string {
    const log = readFileSync(join(this.fixture.stateDir, 'edge/caddy/caddy.log'), 'utf8')
    return log.trim().split('\n').slice(-2).join(' ')
  }

  /** The victim's port, from the agent's ledger. */
  async portOf(target: Target, service: string): Promise<number> {
    const { DatabaseSync } = await import('node:sqlite')
    const ledger = new DatabaseSync(join(this.fixture.stateDir, 'ledger.db'), { readOnly: true })
    try {
      const row = ledger
        .prepare(
          'SELECT port FROM processes WHERE environment_id = ? AND service = ? ORDER BY task_id DESC',
        )
        .get(target.environment.id, service) as { port: number } | undefined
      if (!row) throw new Error(`no process of ${service}`)
      return row.port
    } finally {
      ledger.close()
    }
  }

  /** One call of the API as a user; without a token it is anonymous. */
  async api(
    who: Person | string | undefined,
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Visit & { headers: Headers }> {
    const token = typeof who === 'string' ? who : who?.token
    const answer = await fetch(this.fixture.url + path, {
      method,
      redirect: 'manual',
      headers: {
        ...(token ? { authorization: `Bearer ${token}` } : {}),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    return { status: answer.status, text: await answer.text(), headers: answer.headers }
  }

  /** Adds a user: invited, registered by the link, signed in, with a token of the device login. */
  async #person(name: string, role: string, organizationId: number): Promise<Person> {
    const { fixture } = this
    const email = `${name}@example.com`
    await fixture.post(`/api/organizations/${organizationId}/invitations`, { email, role })
    const mail = join(fixture.dir, 'control-plane', 'mail')
    const token = await until(`the invitation of ${name}`, () => {
      const letters = readdirSync(mail).map((file) => readFileSync(join(mail, file), 'utf8'))
      const letter = letters.find((text) => text.startsWith(`To: ${email}`))
      return /\/invite\/(\S+)/.exec(letter ?? '')?.[1]
    })
    const body = { token: decodeURIComponent(token), name, password: PASSWORD }
    const made = await this.api(undefined, 'POST', '/api/invitations/register', body)
    if (made.status >= 300) throw new Error(`register: ${made.text}`)
    const cookie = await this.signIn(email)
    return { cookie, token: await this.#deviceToken(cookie) }
  }

  async signIn(email: string, password = PASSWORD): Promise<string> {
    const headers = { origin: this.fixture.url }
    const path = '/api/auth/sign-in/email'
    const answer = await this.api(undefined, 'POST', path, { email, password }, headers)
    if (answer.status !== 200) throw new Error(`sign-in: ${answer.status} ${answer.text}`)
    return answer.headers
      .getSetCookie()
      .map((line) => line.split(';')[0])
      .join('; ')
  }

  async #deviceToken(cookie: string): Promise<string> {
    const form = (path: string, fields: Record<string, string>) =>
      this.api(undefined, 'POST', path, new URLSearchParams(fields).toString(), {
        'content-type': 'application/x-www-form-urlencoded',
      })
    const scope = 'read deploy write ssh admin'
    const client = { client_id: 'berth-cli' }
    const started = await form('/api/oauth/device_authorization', {
      ...client,
      scope,
      device_name: 'laptop',
    })
    const { device_code, user_code } = JSON.parse(started.text)
    const headers = { origin: this.fixture.url, cookie }
    await this.api(undefined, 'POST', '/api/auth/device/approve', { user_code }, headers)
    const grant_type = 'urn:ietf:params:oauth:grant-type:device_code'
    const given = await form('/api/oauth/token', { ...client, grant_type, device_code })
    return String(JSON.parse(given.text).access_token)
  }

  /** A created project with its webhook secret. */
  created(name: string): Promise<ProjectCreated> {
    return this.fixture.post('/api/projects', {
      name,
      repo_url: `https://git.example.com/acme/${name}.git`,
      domain: `${name}.example.com`,
      server_ids: [this.fixture.serverId],
      default_recipe: 'docker',
    })
  }
}

export const dockerFiles = (name: string): Record<string, string> => ({
  'implant.cjs': IMPLANT,
  Dockerfile: `FROM ${NODE_IMAGE}\nCOPY implant.cjs /app/\nENV NAME=${name}\nCMD ["node", "/app/implant.cjs"]\n`,
  '.service.yml': 'docker: { services: { web: { build: ., port: 8080 } } }\n',
})
