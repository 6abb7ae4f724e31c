// The names under which Caddy dials sockets of manual services: hard links of the sockets, in a folder that only root
// can write. A socket is checked and linked through one descriptor, so renames in the environment's folder cannot
// change what Caddy dials. Polling finds the new socket of a restarted program: two calls per route, and unlike with
// watches an account cannot raise that cost. Invariant: Caddy dials only sockets of the environment's account.
import {
  type BigIntStats,
  chmodSync,
  chownSync,
  lstatSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { join } from 'node:path'
import { PROXY } from '../limits/proxy.ts'
import { ensureFolder, listFolder } from '../machine/files.ts'
import { runProgram } from '../machine/process/programs.ts'
import { type OpenSocket, openSocket } from '../machine/process/sockets.ts'
import { isRoot } from '../machine/users/users.ts'
import type { AgentSettings } from '../settings.ts'
import { findWebGroup } from './caddy/web-group.ts'
import { edgePaths } from './paths.ts'
import { EdgeError, type SetRoutes, type SocketTarget } from './protocol.ts'
import { SocketOwners } from './socket-owners.ts'
import { listRoutes, routeId, type Table } from './table.ts'

interface Wanted {
  id: string
  environmentId: number
  service: string
  target: SocketTarget
}

const wantedLinks = (table: Table): Wanted[] =>
  listRoutes(table).flatMap(({ host, path, environmentId, service, target }) =>
    target.kind === 'socket' ? [{ id: routeId(host, path), environmentId, service, target }] : [],
  )

/** The kernel's limit for the address of a socket. */
const ADDRESS_BYTES = 107
const SHARED = 0o060

/** Undefined also when the account has made the path unusable. */
function look(path: string): BigIntStats | undefined {
  try {
    return lstatSync(path, { bigint: true, throwIfNoEntry: false })
  } catch {
    return undefined
  }
}

const isSameInode = (a: BigIntStats | undefined, b: BigIntStats | undefined): boolean =>
  a !== undefined && b !== undefined && a.ino === b.ino && a.dev === b.dev

/** Whether Caddy dials exactly the socket that has this name now. */
export const isLinked = (folder: string, id: string, path: string): boolean =>
  isSameInode(look(join(folder, id)), look(path))

interface SocketLinksOptions {
  settings: AgentSettings
  table: () => Table
  log: (message: string) => void
}

export class SocketLinks {
  readonly #o: SocketLinksOptions
  readonly #folder: string
  readonly #owners: SocketOwners
  #group: number | undefined
  #groupAskedAt = Number.NEGATIVE_INFINITY
  /** When each route's link was made last; an account that keeps swapping its socket gets one per second. */
  readonly #madeAt = new Map<string, number>()
  /** The last message about each route; at most one per minute, so that an account cannot fill the log. */
  readonly #said = new Map<string, { trouble: string; at: number }>()
  #listed: { table: Table; wanted: Wanted[] } | undefined
  #turn: Promise<void> = Promise.resolve()
  #isBusy = false
  #count = 0
  #timer: NodeJS.Timeout | undefined

  constructor(options: SocketLinksOptions) {
    this.#o = options
    this.#folder = edgePaths(options.settings).sockets
    this.#owners = new SocketOwners(options.settings)
  }

  open(): void {
    this.#timer = setInterval(() => {
      if (!this.#isBusy && !this.#isIdle()) void this.#queue(undefined)
    }, PROXY.socketsMs)
    void this.#queue(undefined)
  }

  close(): void {
    clearInterval(this.#timer)
  }

  /** Called before a change of routes: refuses sockets that cannot be linked. Absent and wrong ones pass, undialled. */
  async require({ environmentId, routes }: SetRoutes): Promise<void> {
    if (!(await this.#hasGroup())) return
    for (const { service, host, path, target } of routes) {
      if (target.kind !== 'socket') continue
      const id = routeId(host, path)
      const socket = this.#open(target, await this.#owners.find(environmentId, target))
      if (typeof socket === 'string') continue
      try {
        if (isLinked(this.#folder, id, target.path)) continue
        rmSync(await this.#link(socket, id), { force: true })
      } catch (error) {
        const why = `The proxy cannot reach ${target.path} (service ${service}): ${(error as Error).message}.`
        throw new EdgeError('refused', why)
      } finally {
        socket.close()
      }
    }
  }

  /** Called after a change of routes; their links exist when it returns. */
  look(environmentId: number): Promise<void> {
    return this.#queue(environmentId)
  }

  /** Runs one check at a time. `asked` is the environment whose links are made immediately. */
  #queue(asked: number | undefined): Promise<void> {
    this.#turn = this.#turn.then(() => this.#lookOnce(asked))
    return this.#turn
  }

  #isIdle(): boolean {
    return this.#wanted().length === 0 && this.#said.size === 0 && this.#madeAt.size === 0
  }

  #wanted(): Wanted[] {
    const table = this.#o.table()
    if (this.#listed?.table !== table) this.#listed = { table, wanted: wantedLinks(table) }
    return this.#listed.wanted
  }

  async #lookOnce(asked: number | undefined): Promise<void> {
    this.#isBusy = true
    try {
      const wanted = this.#wanted()
      this.#prune(new Set(wanted.map(({ id }) => id)))
      if (wanted.length === 0 || !(await this.#hasGroup())) return
      for (const one of wanted) await this.#lookAt(one, one.environmentId === asked)
    } catch (error) {
      this.#o.log(`Sockets could not be looked at: ${(error as Error).message}`)
    } finally {
      this.#isBusy = false
    }
  }

  #prune(ids: ReadonlySet<string>): void {
    for (const id of listFolder(this.#folder)) {
      if (!ids.has(id)) rmSync(join(this.#folder, id), { force: true })
    }
    for (const known of [this.#madeAt, this.#said]) {
      for (const id of known.keys()) if (!ids.has(id)) known.delete(id)
    }
  }

  /** As root, Caddy connects through its group; without the group there is no Caddy yet. */
  async #hasGroup(): Promise<boolean> {
    if (!isRoot() || this.#group !== undefined) return true
    if (performance.now() - this.#groupAskedAt < PROXY.relinkMs) return false
    this.#groupAskedAt = performance.now()
    this.#group = await findWebGroup(this.#o.settings)
    return this.#group !== undefined
  }

  async #lookAt(wanted: Wanted, isAsked: boolean): Promise<void> {
    const { id, target } = wanted
    const link = join(this.#folder, id)
    const linked = look(link)
    const uid = await this.#owners.find(wanted.environmentId, target)
    const isChecked = linked?.isSocket() === true && Number(linked.uid) === uid
    if (isChecked && isSameInode(linked, look(target.path)) && this.#isShared(linked)) {
      return this.#say(wanted, '')
    }
    const socket = this.#open(target, uid)
    if (typeof socket === 'string') {
      rmSync(link, { force: true })
      if (socket !== '') this.#say(wanted, socket)
      return
    }
    try {
      const isPresent = isSameInode(look(link), statSync(socket.path, { bigint: true }))
      if (!isPresent) rmSync(link, { force: true })
      if (!isAsked && this.#isEarly(id)) return
      this.#madeAt.set(id, performance.now())
      this.#share(socket)
      if (!isPresent) renameSync(await this.#link(socket, id), link)
      this.#say(wanted, '')
    } catch (error) {
      rmSync(link, { force: true })
      this.#say(wanted, (error as Error).message)
    } finally {
      socket.close()
    }
  }

  #isEarly(id: string): boolean {
    const madeAt = this.#madeAt.get(id)
    return madeAt !== undefined && performance.now() - madeAt < PROXY.relinkMs
  }

  /** Returns the reason when it fails; an empty one when the program is just not running. */
  #open(target: SocketTarget, uid: number | undefined): OpenSocket | string {
    if (uid === undefined) return 'the account of its environment is not known'
    const socket = openSocket(target.path, uid)
    if (socket === 'wrong') return 'it is not a socket of its environment'
    return socket === 'absent' ? '' : socket
  }

  #isShared(socket: BigIntStats | undefined): boolean {
    if (this.#group === undefined) return true
    return (Number(socket?.mode ?? 0) & SHARED) === SHARED && Number(socket?.gid) === this.#group
  }

  /** Lets Caddy connect, independent of the program's umask and group; other accounts gain no access. */
  #share({ path }: OpenSocket): void {
    if (this.#group === undefined) return
    const { uid, mode } = statSync(path)
    chownSync(path, uid, this.#group)
    chmodSync(path, (mode & 0o777) | SHARED)
  }

  /** Makes a new hard link of the socket, under a temporary name that Caddy does not dial. */
  async #link({ path }: OpenSocket, id: string): Promise<string> {
    if (this.#group === undefined) ensureFolder(this.#folder, 0o700)
    else ensureFolder(this.#folder, 0o710, { uid: 0, gid: this.#group })
    this.#count += 1
    const temporary = join(this.#folder, `${id}.${this.#count}`)
    if (Buffer.byteLength(join(this.#folder, id)) > ADDRESS_BYTES) {
      throw new Error(`${this.#folder} is too long a name for sockets; choose a shorter run folder`)
    }
    rmSync(temporary, { force: true })
    // follows the link of the descriptor, not a name of the environment; linkSync of Node would not
    const made = await runProgram(['ln', '-L', '-T', '--', path, temporary])
    if (made.code === 0) return temporary
    const isElsewhere = /cross-device/i.test(made.stderr)
    throw new Error(
      isElsewhere
        ? `it is on another file system than ${this.#folder}; both must be on one`
        : `it could not be linked: ${made.stderr.trim()}`,
    )
  }

  /** Called with each check, so that lasting problems are logged. */
  #say({ id, target, service, environmentId }: Wanted, trouble: string): void {
    const said = this.#said.get(id) ?? { trouble: '', at: Number.NEGATIVE_INFINITY }
    if (said.trouble === trouble || performance.now() - said.at < PROXY.steadyMs) return
    this.#said.set(id, { trouble, at: performance.now() })
    const which = `${target.path} (service ${service} of environment ${environmentId})`
    this.#o.log(`${which} is ${trouble === '' ? 'dialled again' : `not dialled: ${trouble}`}.`)
  }
}
