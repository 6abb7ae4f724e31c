// Reads the files that an action left, as the environment's own user (`berth-agent collect`, a child of the runner):
// drops all other rights first, then walks element by element. Each element is opened by its name in its parent's open
// folder, without following links, and checked again after opening, so a swap cannot lead outside. Files go to stdout
// in order of their names. Everything is synchronous, as nothing else runs.
import {
  closeSync,
  constants,
  type Dirent,
  fstatSync,
  lstatSync,
  opendirSync,
  openSync,
  readFileSync,
  readSync,
  type Stats,
  writeSync,
} from 'node:fs'
import { ARTIFACTS } from '@berth/shared'
import { encodeHead, type FrameKind } from './frames.ts'
import { compareNames } from './names.ts'

/** What to look for, as far as the walk needs it. */
interface Wanted {
  matches(path: readonly string[]): boolean
  mayHold(folder: readonly string[]): boolean
  whyUnfit(path: string): string | undefined
}

export interface CollectOrder {
  /** Root owns the path up to here; nothing below is trusted. */
  root: string
  /** The action's folder, below it. */
  dir: string[]
  patterns: string[]
  account: { uid: number; gid: number } | null
  files: number
  bytes: number
}

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY } = constants
const FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW
const FILE = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? 'unknown'
/** A name in an open folder; no other element of a path is resolved. */
const inFolder = (fd: number, name: string): string => `/proc/self/fd/${fd}/${name}`

/** Permanently: no groups, no capabilities, no way back. */
function becomeAccount(account: { uid: number; gid: number }): void {
  if (!(account.uid > 0 && account.gid > 0)) throw new Error('not an account without rights')
  process.setgroups?.([])
  process.setgid?.(account.gid)
  process.setuid?.(account.uid)
  const isBack = (): boolean => {
    try {
      process.setuid?.(0)
      return true
    } catch {
      return false
    }
  }
  if (process.geteuid?.() !== account.uid || process.getegid?.() !== account.gid || isBack()) {
    throw new Error('the rights could not be given up')
  }
}

class Left extends Error {}

class Walk {
  readonly #wanted: Wanted
  readonly #order: CollectOrder
  readonly #say: (kind: FrameKind, body: Buffer) => void
  readonly #buffer = Buffer.allocUnsafe(ARTIFACTS.frameBytes)
  #entries = 0
  #files = 0
  #bytes = 0

  constructor(
    order: CollectOrder,
    wanted: Wanted,
    say: (kind: FrameKind, body: Buffer) => void = sayFrame,
  ) {
    this.#order = order
    this.#wanted = wanted
    this.#say = say
  }

  run(): void {
    try {
      const base = this.#openBase()
      if (base !== undefined) this.#walk(base, [])
    } catch (error) {
      if (!(error instanceof Left)) throw error
    }
    this.#say('done', Buffer.alloc(0))
  }

  #report(kind: FrameKind, facts: object): void {
    this.#say(kind, Buffer.from(JSON.stringify(facts)))
  }

  #skip(path: readonly string[], why: string): void {
    this.#report('skip', { path: path.join('/').slice(0, ARTIFACTS.pathBytes), why })
  }

  #openBase(): number | undefined {
    let fd = openSync(this.#order.root, FOLDER)
    for (const [i, name] of this.#order.dir.entries()) {
      if (name === '..' || name.includes('/')) throw new Error('a folder outside of the release')
      const next = this.#openFolder(fd, name, this.#order.dir.slice(0, i + 1))
      closeSync(fd)
      if (next === undefined) return undefined
      fd = next
    }
    return fd
  }

  #openFolder(parent: number, name: string, path: readonly string[]): number | undefined {
    try {
      return openSync(inFolder(parent, name), FOLDER)
    } catch (error) {
      const code = codeOf(error)
      if (code === 'ELOOP' || code === 'ENOTDIR') this.#skip(path, 'a symbolic link')
      else if (code === 'EACCES') this.#skip(path, 'a folder that cannot be read')
      else if (code !== 'ENOENT') throw error
      return undefined
    }
  }

  /** Closes `fd`. Sorts by whole paths, so a folder's name counts with its slash. */
  #walk(fd: number, path: readonly string[]): void {
    try {
      for (const entry of this.#list(fd, path)) this.#visit(fd, entry, [...path, entry.name])
    } finally {
      closeSync(fd)
    }
  }

  #list(fd: number, path: readonly string[]): Dirent[] {
    const found: Dirent[] = []
    const folder = opendirSync(inFolder(fd, '.'))
    try {
      for (let entry = folder.readSync(); entry; entry = folder.readSync()) {
        this.#entries += 1
        if (this.#entries > ARTIFACTS.entries) this.#leave([...path, entry.name], 'entries')
        found.push(entry)
      }
    } finally {
      folder.closeSync()
    }
    const key = (e: Dirent): string => (e.isDirectory() ? `${e.name}/` : e.name)
    return found.toSorted((a, b) => compareNames(key(a), key(b)))
  }

  #visit(fd: number, entry: Dirent, path: readonly string[]): void {
    const isWanted = this.#wanted.matches(path)
    if (!isWanted && !this.#wanted.mayHold(path)) return
    const kind = isKnown(entry) ? entry : lstatSync(inFolder(fd, entry.name), NO_THROW)
    if (!kind) return
    if (kind.isDirectory()) {
      if (!this.#wanted.mayHold(path)) return
      if (path.length >= ARTIFACTS.depth) return void this.#skip(path, 'too deep')
      const inner = this.#openFolder(fd, entry.name, path)
      if (inner !== undefined) this.#walk(inner, path)
      return
    }
    if (kind.isSymbolicLink()) return void this.#skip(path, 'a symbolic link')
    if (isWanted) this.#offer(fd, entry.name, path)
  }

  #offer(parent: number, name: string, path: readonly string[]): void {
    const shown = path.join('/')
    const unfit = this.#wanted.whyUnfit(shown)
    if (unfit) return void this.#skip(path, unfit)
    // opening a device can have effects, so it is checked before, and again after
    const before = lstatSync(inFolder(parent, name), NO_THROW)
    if (!before) return
    const strange = this.#whyStrange(before)
    if (strange) return void this.#skip(path, strange)
    let fd: number
    try {
      fd = openSync(inFolder(parent, name), FILE)
    } catch (error) {
      if (codeOf(error) === 'ELOOP') return void this.#skip(path, 'a symbolic link')
      if (codeOf(error) === 'ENOENT') return
      this.#fail(shown, codeOf(error))
    }
    try {
      const stats = fstatSync(fd)
      const still = this.#whyStrange(stats)
      if (still) this.#skip(path, still)
      else this.#send(fd, shown, stats)
    } finally {
      closeSync(fd)
    }
  }

  #whyStrange(stats: Stats): string | undefined {
    if (stats.isSymbolicLink()) return 'a symbolic link'
    if (!stats.isFile()) return 'not a regular file'
    const uid = this.#order.account?.uid ?? process.getuid?.()
    if (stats.uid !== uid) return 'of another owner'
    return stats.nlink === 1 ? undefined : 'hard-linked'
  }

  #send(fd: number, path: string, { size, mtimeMs }: Stats): void {
    if (this.#files >= this.#order.files) this.#leave([path], 'files')
    if (this.#bytes + size > this.#order.bytes) this.#leave([path], 'bytes')
    this.#files += 1
    this.#bytes += size
    this.#report('file', { path, size, modifiedAt: Math.trunc(mtimeMs) })
    for (let at = 0; at < size; ) {
      const count = readSync(fd, this.#buffer, 0, Math.min(this.#buffer.length, size - at), at)
      if (count === 0) this.#fail(path, 'shorter')
      this.#say('data', this.#buffer.subarray(0, count))
      at += count
    }
    this.#say('end', Buffer.alloc(0))
  }

  #leave(path: readonly string[], limit: 'files' | 'bytes' | 'entries'): never {
    this.#report('over', { path: path.join('/'), limit })
    throw new Left()
  }

  #fail(path: string, code: string): never {
    this.#report('fail', { path, code })
    throw new Left()
  }
}

const NO_THROW = { throwIfNoEntry: false } as const

const isKnown = (entry: Dirent): boolean =>
  entry.isFile() ||
  entry.isDirectory() ||
  entry.isSymbolicLink() ||
  entry.isFIFO() ||
  entry.isSocket() ||
  entry.isCharacterDevice() ||
  entry.isBlockDevice()

const OUT = 1
const wait = new Int32Array(new SharedArrayBuffer(4))

function writeWhole(bytes: Buffer): void {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(OUT, bytes, at)
    } catch (error) {
      if (codeOf(error) !== 'EAGAIN') throw error
      Atomics.wait(wait, 0, 0, 1) // the pipe is full
    }
  }
}

function sayFrame(kind: FrameKind, body: Buffer): void {
  writeWhole(encodeHead(kind, body.length))
  if (body.length > 0) writeWhole(body)
}

/** Runs `berth-agent collect`; the order comes on stdin. */
export function collect(read: (order: CollectOrder) => Wanted): void {
  const order = JSON.parse(readFileSync(0, 'utf8')) as CollectOrder
  const wanted = read(order)
  if (order.account) becomeAccount(order.account)
  new Walk(order, wanted).run()
}
