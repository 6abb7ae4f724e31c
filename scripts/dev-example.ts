// The example of `npm start`: creates a repository, a project and an environment, and deploys, all through the control
// plane's REST API like any client.
import { execFileSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { cpSync, existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const DEADLINE_MS = 120_000
const POLL_MS = 150
/** Each poll issues a certificate. */
const SSH_POLL_MS = 1_000

export async function until<T>(
  what: string,
  look: () => Promise<T | undefined>,
  pollMs = POLL_MS,
): Promise<T> {
  const deadline = Date.now() + DEADLINE_MS
  while (Date.now() < deadline) {
    const found = await look().catch(() => undefined)
    if (found !== undefined) return found
    await new Promise((resolve) => setTimeout(resolve, pollMs))
  }
  throw new Error(`gave up waiting for ${what}`)
}

interface Api {
  get<T>(path: string): Promise<T>
  post<T>(path: string, body?: unknown): Promise<T>
  patch<T>(path: string, body: unknown): Promise<T>
}

export function connect(url: string, token: string): Api {
  const call = async (method: string, path: string, body?: unknown) => {
    const answer = await fetch(url + path, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
    return answer.json()
  }
  return {
    get: <T>(path: string) => call('GET', path) as Promise<T>,
    post: <T>(path: string, body?: unknown) => call('POST', path, body) as Promise<T>,
    patch: <T>(path: string, body: unknown) => call('PATCH', path, body) as Promise<T>,
  }
}

/** Creates the repository of the example. */
export function makeRepository(repositories: string): void {
  const target = join(repositories, 'hello')
  if (existsSync(join(target, '.git'))) return
  mkdirSync(target, { recursive: true })
  cpSync(join(root, 'examples/hello'), target, { recursive: true })
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=Berth', '-c', 'user.email=berth@localhost', ...args], {
      cwd: target,
      stdio: 'pipe',
    })
  git('init', '--quiet', '--initial-branch=main')
  git('add', '--all')
  git('commit', '--quiet', '--message=Hello')
}

export interface Named {
  id: number
  name: string
}
interface Environment {
  id: number
  identifier: string
  url: string | null
}
interface Task {
  id: number
  status: string
  failure: { message: string; step: string | null } | null
}

export async function findOrMake<T extends Named>(
  api: Api,
  path: string,
  name: string,
  body: object,
): Promise<T> {
  const list = await api.get<T[]>(path)
  return list.find((one) => one.name === name) ?? api.post<T>(path, { name, ...body })
}

export async function deployExample(
  api: Api,
  serverId: number,
  gitUrl: string,
): Promise<Environment> {
  const repository = `${gitUrl}/hello/.git`
  const project = await findOrMake<Named & { repo_url: string }>(api, '/api/projects', 'hello', {
    repo_url: repository,
    domain: 'hello.localhost',
    server_ids: [serverId],
    default_recipe: 'manual',
  })
  // the ports have changed since
  if (project.repo_url !== repository) {
    await api.patch(`/api/projects/${project.id}`, { repo_url: repository })
  }
  const path = `/api/projects/${project.id}/environments`
  const known = (await api.get<Environment[]>(path)).find((e) => e.identifier === 'main')
  // the guide deploys by hand: a deployment that a commit starts by itself would refuse that one
  const wanted = { identifier: 'main', branch: 'main', auto_deploy: false }
  const environment = known ?? (await api.post<Environment>(path, wanted))
  const started = await api.post<Task>(`/api/environments/${environment.id}/tasks`)
  const task = await until('the deployment', async () => {
    const now = await api.get<Task>(`/api/tasks/${started.id}`)
    return ['succeeded', 'failed', 'canceled'].includes(now.status) ? now : undefined
  })
  if (task.status !== 'succeeded') {
    throw new Error(
      `task ${task.id} ${task.status}: ${task.failure?.step} ${task.failure?.message}`,
    )
  }
  return api.get<Environment>(`/api/environments/${environment.id}`)
}

/** A throw-away key: the request only checks whether the server reported its sshd's port. */
function makePublicKey(): string {
  const raw = generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'der' })
  const parts = [Buffer.from('ssh-ed25519'), raw.subarray(-32)].flatMap((part) => {
    const length = Buffer.alloc(4)
    length.writeUInt32BE(part.length)
    return [length, part]
  })
  return `ssh-ed25519 ${Buffer.concat(parts).toString('base64')}`
}

/** The local agent sets up its sshd after it is online; the printed commands must find it. */
export async function awaitSsh(
  api: Api,
  serverId: number,
  environmentId: number,
  port: number,
): Promise<void> {
  const asked = { public_key: makePublicKey(), purpose: 'logs', environment_id: environmentId }
  const look = async () => {
    const found = await api.post<{ port: number }>(`/api/servers/${serverId}/ssh`, asked)
    return found.port === port || undefined
  }
  await until('sshd', look, SSH_POLL_MS)
}
