// Docker and the proxy for a lab (lab.ts): ports nobody else has, and an end that leaves no process, container, network,
// volume or image of the lab behind. A lab without an engine sees none, whatever the machine has.
import { randomInt } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { isSameProcess, listProcesses } from '../agent/src/exec/processes.ts'
import { callEngine } from './docker-engine.ts'

export interface LabEngine {
  socket: string
  /** Networks of environments are taken from it. */
  pool: string
}

export interface ProxyPorts {
  http: number
  dns: number
}

const PORTS = { from: 10_000, to: 19_999 } // not those of services (port-slots.ts), and below those the kernel gives to outgoing connections: what is free stays so
const TRIES = 1_000

async function findPort(isFree: (port: number) => Promise<boolean>): Promise<number> {
  for (let n = 0; n < TRIES; n += 1) {
    const port = randomInt(PORTS.from, PORTS.to + 1)
    if (await isFree(port)) return port
  }
  throw new Error('no free port on loopback')
}

export const freePort = (): Promise<number> =>
  findPort(
    (port) =>
      new Promise((resolve) => {
        const server = createServer()
        server.once('error', () => resolve(false))
        server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
      }),
  )

export const freeDatagramPort = (): Promise<number> =>
  findPort(
    (port) =>
      new Promise((resolve) => {
        const socket = createSocket('udp4')
        socket.once('error', () => resolve(false))
        socket.bind(port, '127.0.0.1', () => socket.close(() => resolve(true)))
      }),
  )

export const freeProxyPorts = async (): Promise<ProxyPorts> => ({
  http: await freePort(),
  dns: await freeDatagramPort(),
})

/** Settings of an agent that routes on these ports and has this engine, or none. */
export const dockerEnvironment = (
  ports: ProxyPorts,
  engine: LabEngine | undefined,
): Record<string, string> => ({
  BERTH_PROXY_HTTP: `127.0.0.1:${ports.http}`,
  BERTH_EDGE_DNS_PORT: String(ports.dns),
  DOCKER_HOST: `unix://${engine?.socket ?? '/nonexistent/docker.sock'}`,
  ...(engine ? { BERTH_NETWORK_POOL: engine.pool } : {}),
})

const END_MS = 10_000
const POLL_MS = 20

function mentions(pid: number, text: string): boolean {
  return ['cmdline', 'environ'].some((file) => {
    try {
      return readFileSync(`/proc/${pid}/${file}`, 'utf8').includes(text)
    } catch {
      return false
    }
  })
}

/** Processes that were started for the lab in this folder: its name is in their arguments or environment. */
export const listProcessesOf = (folder: string) =>
  listProcesses().filter(({ pid }) => pid !== process.pid && mentions(pid, folder))

/** Edge, Caddy and runners are nobody's children: asked to end, then made to. */
export async function endProcessesOf(folder: string): Promise<void> {
  const found = listProcessesOf(folder)
  const alive = () => found.filter(({ pid, startTicks }) => isSameProcess(pid, startTicks))
  const send = (signal: NodeJS.Signals): void => {
    for (const { pid } of alive()) {
      try {
        process.kill(pid, signal)
      } catch {
        // gone meanwhile
      }
    }
  }
  send('SIGTERM')
  for (const end = performance.now() + END_MS; alive().length > 0; ) {
    if (performance.now() > end) send('SIGKILL')
    if (performance.now() > 2 * END_MS + end) break
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}

export interface OwnedObjects {
  containers: { id: string; name: string; image: string; running: boolean }[]
  images: { id: string; tags: string[] }[]
  networks: string[]
  volumes: string[]
}

async function list<T>(engine: LabEngine, path: string): Promise<T> {
  const { status, text } = await callEngine(engine.socket, 'GET', path)
  if (status !== 200) throw new Error(`${path}: ${status} ${text}`)
  return JSON.parse(text) as T
}

/** Everything on the engine whose name begins with the prefix that the lab's agent gives to its things. */
export async function listOwned(engine: LabEngine, accountPrefix: string): Promise<OwnedObjects> {
  const [containers, images, networks, volumes] = await Promise.all([
    list<{ Id: string; Names: string[]; ImageID: string; State: string }[]>(
      engine,
      '/containers/json?all=1',
    ),
    list<{ Id: string; RepoTags: string[] | null }[]>(engine, '/images/json'),
    list<{ Name: string }[]>(engine, '/networks'),
    list<{ Volumes: { Name: string }[] | null }>(engine, '/volumes'),
  ])
  const repository = `${accountPrefix.replace(/-e$/, '')}/`
  return {
    containers: containers
      .map(({ Id, Names, ImageID, State }) => {
        const name = (Names[0] ?? '').replace(/^\//, '')
        return { id: Id, name, image: ImageID, running: State === 'running' }
      })
      .filter(({ name }) => name.startsWith(accountPrefix)),
    images: images
      .map(({ Id, RepoTags }) => ({
        id: Id,
        tags: (RepoTags ?? []).filter((tag) => tag.startsWith(repository)),
      }))
      .filter(({ tags }) => tags.length > 0),
    networks: networks.map(({ Name }) => Name).filter((name) => name.startsWith(accountPrefix)),
    volumes: (volumes.Volumes ?? [])
      .map(({ Name }) => Name)
      .filter((name) => name.startsWith(accountPrefix)),
  }
}

/** Removes what the lab left on an engine that others use as well. */
export async function removeOwned(engine: LabEngine, accountPrefix: string): Promise<void> {
  const owned = await listOwned(engine, accountPrefix)
  const remove = (path: string) => callEngine(engine.socket, 'DELETE', path)
  for (const { id } of owned.containers) await remove(`/containers/${id}?force=1`)
  for (const { tags } of owned.images) for (const tag of tags) await remove(`/images/${tag}`)
  for (const name of owned.networks) await remove(`/networks/${name}`)
  for (const name of owned.volumes) await remove(`/volumes/${name}`)
}
