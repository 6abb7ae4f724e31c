// Development without Caddy: one loopback port per routed service, open while it is routed; each connection goes to the
// current upstream. No passwords, no paths, no waiting; the log of a deployment says so.
import {
  createConnection,
  createServer,
  type NetConnectOpts,
  type Server,
  type Socket,
} from 'node:net'
import { PROXY } from '../../limits/proxy.ts'
import { openSocket } from '../../machine/process/sockets.ts'
import { EdgeError } from '../protocol.ts'
import type { SocketOwners } from '../socket-owners.ts'
import { listRoutes, routeKey, type Table } from '../table.ts'
import type { Place } from './resolution.ts'

interface ForwarderOptions {
  /** The current upstream; the page server when there is none. */
  find: (host: string, path: string) => Place
  owners: SocketOwners
}

export class Forwarder {
  readonly #o: ForwarderOptions
  readonly #servers = new Map<string, { server: Server; port: number }>()

  constructor(options: ForwarderOptions) {
    this.#o = options
  }

  /** The table with a port for every route; open ports stay, and earlier ports are reused. */
  async open(table: Table): Promise<Table> {
    const ports: Record<string, number> = {}
    for (const { host, path } of listRoutes(table)) {
      const key = routeKey(host, path)
      const open = this.#servers.get(key)
      ports[key] = open?.port ?? (await this.#listen(key, host, path, table.ports[key]))
    }
    return { ...table, ports }
  }

  /** Closes the ports of removed routes. */
  prune(table: Table): void {
    for (const [key, { server }] of this.#servers) {
      if (key in table.ports) continue
      this.#servers.delete(key)
      server.close()
    }
  }

  close(): void {
    for (const { server } of this.#servers.values()) server.close()
  }

  async #listen(
    key: string,
    host: string,
    path: string,
    before: number | undefined,
  ): Promise<number> {
    const taken = new Set([...this.#servers.values()].map(({ port }) => port))
    const from = PROXY.portFrom + (process.pid % (PROXY.portTo - PROXY.portFrom))
    const candidates = before ? [before] : []
    for (let port = from; port <= PROXY.portTo; port += 1) {
      if (!taken.has(port)) candidates.push(port)
    }
    for (const port of candidates) {
      const server = await tryListen(port, (socket) => this.#pass(socket, host, path))
      if (!server) continue
      this.#servers.set(key, { server, port })
      return port
    }
    throw new EdgeError('unavailable', 'There is no free loopback port for another service.')
  }

  #pass(socket: Socket, host: string, path: string): void {
    socket.on('error', () => socket.destroy())
    this.#dial(this.#o.find(host, path)).then(
      (upstream) => {
        socket.on('close', () => upstream.destroy())
        upstream.on('close', () => socket.destroy())
        if (socket.destroyed) upstream.destroy()
        else if (upstream.destroyed) socket.destroy()
        else socket.pipe(upstream).pipe(socket)
      },
      () => socket.destroy(),
    )
  }

  /** Dials a socket through its descriptor, because its name may lead elsewhere by then. */
  async #dial(place: Place): Promise<Socket> {
    if (!('socket' in place)) return connect({ host: place.address, port: place.port })
    const { socket: target, environmentId } = place
    const uid = await this.#o.owners.find(environmentId, target)
    const found = uid === undefined ? 'wrong' : openSocket(target.path, uid)
    if (typeof found === 'string') throw new Error(`${target.path} is ${found}`)
    const upstream = connect({ path: found.path })
    const close = (): void => {
      upstream.off('connect', close).off('close', close)
      found.close()
    }
    return upstream.once('connect', close).once('close', close)
  }
}

function connect(to: NetConnectOpts): Socket {
  const upstream = createConnection(to)
  upstream.on('error', () => upstream.destroy())
  upstream.setTimeout(PROXY.dialMs, () => upstream.connecting && upstream.destroy())
  return upstream
}

function tryListen(port: number, serve: (socket: Socket) => void): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer(serve)
    server.once('error', () => resolve(undefined))
    server.listen(port, '127.0.0.1', () => resolve(server))
  })
}
