// The example of `npm start`: creates a project, connects its forge, creates an environment and deploys it, all through
// the control plane's REST API like any client.
import { generateKeyPairSync } from 'node:crypto'
import { request } from 'node:http'
import { join } from 'node:path'
import type { Forge } from './forge/forge.ts'
import { root } from './server.ts'

const DEADLINE_MS = 120_000
const POLL_MS = 150
/** Each poll issues a certificate. */
const SSH_POLL_MS = 400
/** Users may have stopped it, or deployed a version that fails: the start goes on. */
const EXAMPLE_MS = 20_000

export async function until<T>(
  what: string,
  look: () => Promise<T | undefined>,
  { pollMs = POLL_MS, withinMs = DEADLINE_MS } = {},
): Promise<T> {
  const deadline = Date.now() + withinMs
  while (Date.now() < deadline) {
    const found = await look().catch(() => undefined)
    if (found !== undefined) return found
    await new Promise((resolve) => setTimeout(resolve, pollMs))
  }
  throw new Error(`gave up waiting for ${what}`)
}

export interface Api {
  get<T>(path: string): Promise<T>
  post<T>(path: string, body?: unknown): Promise<T>
  put<T>(path: string, body: unknown): Promise<T>
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
    put: <T>(path: string, body: unknown) => call('PUT', path, body) as Promise<T>,
    patch: <T>(path: string, body: unknown) => call('PATCH', path, body) as Promise<T>,
  }
}

/** Its address below that of the forge, without `.git`. */
export const EXAMPLE = 'demo/hello'
const files = join(root, 'examples/hello')

export interface Named {
  id: number
  name: string
}
interface Environment {
  id: number
  identifier: string
  url: string | null
  deployed: { commit_sha: string | null } | null
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
  forge: Forge,
): Promise<Environment> {
  await forge.seed(EXAMPLE, files)
  const repository = `${forge.url}/${EXAMPLE}.git`
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
  await connectForge(api, project.id, forge)
  const path = `/api/projects/${project.id}/environments`
  const known = (await api.get<Environment[]>(path)).find((e) => e.identifier === 'main')
  const wanted = { identifier: 'main', branch: 'main' }
  const environment = known ?? (await api.post<Environment>(path, wanted))
  if (environment.deployed === null) await deploy(api, environment.id)
  return api.get<Environment>(`/api/environments/${environment.id}`)
}

/** Once: a connection makes a test delivery and waits for it. */
async function connectForge(api: Api, projectId: number, forge: Forge): Promise<void> {
  const path = `/api/projects/${projectId}/forge`
  const api_url = `${forge.url}/api/v1`
  const now = await api.get<{ connection: { api_url: string } | null }>(path)
  if (now.connection?.api_url === api_url) return
  await api.put(path, { provider: 'gitea', api_url, token: forge.token })
}

async function deploy(api: Api, environmentId: number): Promise<void> {
  const started = await api.post<Task>(`/api/environments/${environmentId}/tasks`)
  const task = await until('the deployment', async () => {
    const now = await api.get<Task>(`/api/tasks/${started.id}`)
    return ['succeeded', 'failed', 'canceled'].includes(now.status) ? now : undefined
  })
  if (task.status === 'succeeded') return
  const why = `${task.failure?.step} ${task.failure?.message}`
  throw new Error(`task ${task.id} ${task.status}: ${why}`)
}

/** One that was deployed before comes back some time after its agent. Returns a problem, or undefined. */
export async function awaitExample(url: string): Promise<string | undefined> {
  const { host, hostname, port } = new URL(url)
  // not every system finds an address for a name below localhost
  const at = hostname.endsWith('.localhost') ? '127.0.0.1' : hostname
  const look = () =>
    new Promise<true | undefined>((resolve, reject) => {
      const sent = request({ host: at, port: port || 80, headers: { host } }, (answer) => {
        answer.resume()
        resolve((answer.statusCode ?? 500) < 500 || undefined)
      })
      sent.on('error', reject)
      sent.end()
    })
  return until('the example', look, { withinMs: EXAMPLE_MS }).then(
    () => undefined,
    () => `the example does not answer at ${url}; deploy it again, as shown below`,
  )
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
  await until('sshd', look, { pollMs: SSH_POLL_MS })
}
