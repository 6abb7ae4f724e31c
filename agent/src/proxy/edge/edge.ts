// `berth-agent edge`, the process that routes: table, name server, page server, and the only writer of Caddy's
// configuration. It is detached and has no connection to the control plane; daemon and runners come and go. All its
// state is table.json, so after a kill and a restart it serves the same table.
import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { PROXY } from '../../limits/proxy.ts'
import { findCaddy } from '../../machine/caddy-program.ts'
import { readBootId } from '../../machine/process/processes.ts'
import type { AgentSettings } from '../../settings.ts'
import { findCaddyAccount } from '../caddy/account.ts'
import { openAdmin } from '../caddy/admin.ts'
import { Pushes } from '../caddy/pushes.ts'
import { renderConfiguration } from '../caddy/render.ts'
import {
  type HostHolders,
  readHolders,
  withHolders,
  withoutHolder,
  writeHolders,
} from '../host-holders.ts'
import { addLinks, syncLinks } from '../links.ts'
import { type EdgeKeys, edgePaths, ensureKeys } from '../paths.ts'
import { readProxyProcess, settingsDigest, writeProxyProcess } from '../process-files.ts'
import {
  type EdgeCall,
  type EdgeDescription,
  EdgeError,
  type PortRoute,
  type RoutesSet,
  type SetRoutes,
} from '../protocol.ts'
import { SocketLinks } from '../socket-links.ts'
import { SocketOwners } from '../socket-owners.ts'
import {
  findRoute,
  listRoutes,
  readTable,
  routeKey,
  type Table,
  withAuth,
  withoutRoutes,
  withRoutes,
  writeTable,
} from '../table.ts'
import { type AddressBook, Addresses } from './addresses.ts'
import { openControlSocket } from './control-socket.ts'
import { Forwarder } from './forwarder.ts'
import { openNameServer, type Upstream } from './name-server.ts'
import { isOwnPlace } from './owned-ports.ts'
import { openPageServer } from './page-server.ts'
import { containersOf, type Place, pageFor, placesOf } from './resolution.ts'
import { RouteSwitcher } from './route-switcher.ts'

interface EdgeOptions {
  addresses: AddressBook
  log: (message: string) => void
  /** Of Caddy; empty when it is not installed. */
  findVersion?: () => Promise<string>
}

export interface RunningEdge {
  close(): void
}

export async function startEdge(
  settings: AgentSettings,
  options: EdgeOptions,
): Promise<RunningEdge> {
  const edge = await Edge.open(settings, options)
  return { close: () => edge.close() }
}

class Edge {
  readonly #settings: AgentSettings
  readonly #paths: ReturnType<typeof edgePaths>
  readonly #addresses: Addresses
  readonly #board: RouteSwitcher
  readonly #pushes: Pushes | undefined
  readonly #sockets: SocketLinks | undefined
  readonly #forwarder: Forwarder | undefined
  readonly #version: string
  readonly #log: EdgeOptions['log']
  readonly #keys: EdgeKeys
  readonly #rendered = new WeakMap<Table, string>()
  #pagePort: number
  #holders: HostHolders
  /** In mode 'ports', connections go to the replicas in turn. */
  #turn = 0
  readonly #closers: (() => void)[] = []

  static async open(settings: AgentSettings, options: EdgeOptions): Promise<Edge> {
    const paths = edgePaths(settings)
    mkdirSync(paths.dir, { recursive: true, mode: 0o711 })
    mkdirSync(dirname(paths.socket), { recursive: true, mode: 0o711 })
    const find = options.findVersion ?? (async () => (await findCaddy(settings))?.version ?? '')
    const version = await find()
    const edge = new Edge(settings, options, version)
    await edge.#open()
    return edge
  }

  private constructor(settings: AgentSettings, { addresses, log }: EdgeOptions, version: string) {
    this.#settings = settings
    this.#paths = edgePaths(settings)
    this.#version = version
    this.#log = log
    const found = readTable(settings)
    const mode = settings.development && version === '' ? 'ports' : 'caddy'
    const bootId = readBootId()
    const table: Table = { ...found, mode, bootId }
    this.#pagePort = table.pagePort
    this.#holders = readHolders(settings)
    const wanted = (): string[] => containersOf(this.#board.table)
    this.#addresses = new Addresses(addresses, wanted, () => this.#saveAddresses())
    // addresses of another boot may belong to other containers by now
    if (found.bootId === bootId) this.#addresses.remember(found.addresses)
    this.#keys = ensureKeys(settings)
    if (mode === 'caddy') {
      this.#sockets = new SocketLinks({ settings, table: () => this.#board.table, log })
      this.#pushes = new Pushes({
        admin: openAdmin(this.#paths.adminSocket(version), this.#keys.origin),
        file: this.#paths.configuration,
        group: async () => (await findCaddyAccount(settings))?.gid,
        wanted: () => this.#render(this.#board.table),
        explain: () => this.#explain(),
        log,
      })
    } else {
      const find = (host: string, path: string): Place => this.#serverOf(host, path)
      this.#forwarder = new Forwarder({ find, owners: new SocketOwners(settings) })
    }
    this.#board = new RouteSwitcher({
      table,
      addresses: this.#addresses,
      pushes: this.#pushes,
      render: (of) => this.#render(of),
      prepare: (of) => addLinks(this.#paths.links, of),
      commit: (of) => this.#commit(of),
      pageAt: () => ({ address: '127.0.0.1', port: this.#pagePort }),
    })
  }

  /** Opens the name server before anything else that others can see; its port makes this the only edge. */
  async #open(): Promise<void> {
    // after a restart on the same boot, known addresses are served immediately, because requests wait for this process
    const isKnown = (id: string): boolean => this.#addresses.find(id) !== undefined
    if (!containersOf(this.#board.table).every(isKnown)) {
      // a starting engine may not answer for minutes; routes other than to its containers are served meanwhile
      const enough = delay(PROXY.firstLookMs, undefined, { ref: false })
      await Promise.race([this.#addresses.look(), enough])
    }
    const names = await openNameServer(this.#settings.proxy.dnsPort, (n) =>
      this.#board.answer(n)?.map((place) => this.#own(place)),
    )
    this.#closers.push(() => names.close())
    const { server, port } = await openPageServer(this.#pagePort, {
      pageFor: (host, path) =>
        pageFor(this.#board.table, host, path, (id) => this.#addresses.find(id)),
      isKnownHost: (host) => listRoutes(this.#board.table).some((r) => r.host === host),
      httpsPort: this.#settings.proxy.https?.port ?? null,
      askKey: this.#keys.ask,
    })
    this.#closers.push(() => server.close())
    this.#pagePort = port
    const table = { ...(await this.#withPorts(this.#board.table)), pagePort: port }
    this.#try('The table could not be written', () => this.#board.adopt(table))
    this.#addresses.open()
    void this.#addresses.look()
    this.#closers.push(() => this.#addresses.close())
    this.#sockets?.open()
    this.#closers.push(() => this.#sockets?.close())
    await this.#pushes?.open()
    this.#closers.push(() => this.#pushes?.close())
    const control = await openControlSocket(this.#paths.socket, (call) => this.#perform(call))
    this.#closers.push(() => control.close())
    const digest = settingsDigest(this.#settings)
    writeProxyProcess(this.#paths.edgeProcess, process.pid, { digest, caddy: this.#version })
  }

  close(): void {
    for (const close of this.#closers.reverse()) close()
    this.#forwarder?.close()
  }

  #render(table: Table): string {
    const known = this.#rendered.get(table)
    if (known !== undefined) return known
    const rendered = JSON.stringify(
      renderConfiguration({
        proxy: this.#settings.proxy,
        routes: listRoutes(table),
        keys: this.#keys,
        adminSocket: this.#paths.adminSocket(this.#version),
        links: this.#paths.links,
        sockets: this.#paths.sockets,
        logs: this.#paths.caddy,
        pagePort: this.#pagePort,
        version: this.#version,
      }),
    )
    this.#rendered.set(table, rendered)
    return rendered
  }

  #commit(table: Table): void {
    this.#hold(withHolders(this.#holders, table, Date.now()))
    writeTable(this.#settings, { ...table, addresses: this.#addresses.all() })
    syncLinks(this.#paths.links, table)
    this.#forwarder?.prune(table)
  }

  #hold(holders: HostHolders): void {
    if (holders === this.#holders) return
    writeHolders(this.#settings, holders)
    this.#holders = holders
  }

  #saveAddresses(): void {
    const table = { ...this.#board.table, addresses: this.#addresses.all() }
    this.#try('Addresses could not be written', () => writeTable(this.#settings, table))
  }

  /** For background work: on a full disk the edge still serves what it knows. */
  #try(failure: string, act: () => void): void {
    try {
      act()
    } catch (error) {
      this.#log(`${failure}: ${(error as Error).message}`)
    }
  }

  #serverOf(host: string, path: string): Place {
    const route = findRoute(this.#board.table, host, path)
    const address = (id: string): string | undefined => this.#addresses.find(id)
    const page = { address: '127.0.0.1', port: this.#pagePort }
    const places = route ? placesOf(route, address, this.#board.avoided) : []
    const place = places[this.#turn++ % Math.max(1, places.length)]
    if (!place) return page
    return 'socket' in place ? place : this.#own(place)
  }

  #own(place: Upstream): Upstream {
    const isOwn = isOwnPlace(this.#settings, this.#board.table, place)
    return isOwn ? place : { address: '127.0.0.1', port: this.#pagePort }
  }

  async #withPorts(table: Table): Promise<Table> {
    return this.#forwarder ? this.#forwarder.open(table) : table
  }

  async #perform(call: EdgeCall): Promise<unknown> {
    switch (call.method) {
      case 'setRoutes':
        return this.#board.withContainers(call.params, () => this.#setRoutes(call.params))
      case 'getRoutes': {
        const entry = this.#board.table.environments[call.params.environmentId]
        return entry && { fence: BigInt(entry.fence), routes: entry.routes }
      }
      case 'removeRoutes': {
        const { environmentId } = call.params
        const apply = (table: Table): Table => withoutPorts(withoutRoutes(table, call.params))
        await this.#board.change(environmentId, apply, false)
        if (call.params.forget) this.#hold(withoutHolder(this.#holders, environmentId))
        return this.#sockets?.look(environmentId)
      }
      case 'setAuth': {
        const apply = (table: Table): Table => withAuth(table, call.params)
        return this.#board.change(call.params.environmentId, apply, false)
      }
      case 'setAvoided':
        this.#board.avoid(call.params)
        return this.#board.settle(call.params.environmentId)
      case 'describe':
        return this.#describe()
      case 'findPort':
        return this.#findPort(call.params)
      default:
        throw new EdgeError('refused', 'The edge does not know this call.')
    }
  }

  async #setRoutes(params: SetRoutes): Promise<RoutesSet> {
    await this.#sockets?.require(params)
    const ported = await this.#withPorts(withRoutes(this.#board.table, params))
    const apply = (table: Table): Table =>
      withoutPorts({
        ...withRoutes(table, params),
        ports: { ...table.ports, ...ported.ports },
      })
    await this.#board.change(params.environmentId, apply, true)
    await this.#sockets?.look(params.environmentId)
    await this.#board.settle(params.environmentId)
    return { generation: this.#board.table.generation, isSettled: true }
  }

  async #describe(): Promise<EdgeDescription> {
    const { generation, mode } = this.#board.table
    const trouble = this.#pushes ? await this.#pushes.findTrouble() : NO_CADDY
    const up = trouble === undefined
    return { generation, mode, caddy: { up, version: this.#version, reason: trouble ?? '' } }
  }

  #findPort({ host, path }: { host: string; path: string }): PortRoute {
    const route = findRoute(this.#board.table, host, path)
    const port = route && this.#board.table.ports[routeKey(route.host, route.path)]
    if (!port) throw new EdgeError('refused', `${host} has no port here.`)
    const place = this.#serverOf(host, path)
    const upstream = 'socket' in place ? place.socket.path : `${place.address}:${place.port}`
    return { port, upstream }
  }

  #explain(): string {
    if (this.#version === '') return NO_CADDY
    return readProxyProcess(this.#paths.caddyProcess)?.reason ?? ''
  }
}

const NO_CADDY = 'Caddy is not installed. Run `berth-agent setup proxy` on this server.'

const withoutPorts = (table: Table): Table => {
  const routed = new Set(listRoutes(table).map((r) => routeKey(r.host, r.path)))
  const ports = Object.entries(table.ports).filter(([key]) => routed.has(key))
  return { ...table, ports: Object.fromEntries(ports) }
}
