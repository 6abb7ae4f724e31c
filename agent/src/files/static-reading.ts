// `berth-agent read-static`: the child that reads a static root with its environment's rights alone, and writes it to
// stdout (static-frames.ts). It starts as root, so that it can load this program and no process of the environment can
// trace it, and drops its rights before it touches a file of the environment. Folders and files are opened through
// their parent's descriptor, never through a link, so a swap cannot lead outside.
import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readdirSync,
  readSync,
  writeSync,
} from 'node:fs'
import { STATIC } from '../limits/files.ts'
import { encodeHeader, isStaticPath, type StaticHeader } from './static-frames.ts'

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants

export interface ReadRequest {
  /** Null in development without root, where the developer reads. */
  account: { uid: number; gid: number } | null
  /** The checkout. */
  base: string
  /** The folder, relative to it. */
  root: string
}

class Refused extends Error {}

/** Writes everything; blocks while the parent is busy. */
function write(bytes: Buffer): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at)
}

const say = (header: StaticHeader): void => write(encodeHeader(header))

function dropTo({ uid, gid }: { uid: number; gid: number }): void {
  process.setgroups?.([])
  process.setgid?.(gid)
  process.setuid?.(uid)
  if (!(uid > 0) || process.getuid?.() !== uid || process.geteuid?.() !== uid) {
    throw new Error('the rights could not be dropped')
  }
}

const inside = (folder: number, name: string): string => `/proc/self/fd/${folder}/${name}`

/** Undefined when it is a link, no folder, or missing. */
function enter(folder: number, name: string): number | undefined {
  try {
    return openSync(inside(folder, name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
  } catch {
    return undefined
  }
}

class Reader {
  readonly #buffer = Buffer.allocUnsafe(STATIC.chunkBytes)
  files = 0
  bytes = 0
  skipped = 0

  folder(fd: number, way: string): void {
    const names = readdirSync(`/proc/self/fd/${fd}`).sort()
    for (const name of names) {
      const path = way === '' ? name : `${way}/${name}`
      if (!isStaticPath(path) || !this.#entry(fd, name, path)) this.skipped += 1
    }
  }

  /** False when it is neither a folder nor a readable regular file. */
  #entry(parent: number, name: string, path: string): boolean {
    let fd: number
    try {
      // non-blocking, as opening a pipe without a writer would wait
      fd = openSync(inside(parent, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    } catch {
      return false
    }
    try {
      const facts = fstatSync(fd)
      if (facts.isDirectory()) this.folder(fd, path)
      else if (facts.isFile()) this.#file(fd, path, facts.size)
      return facts.isDirectory() || facts.isFile()
    } finally {
      closeSync(fd)
    }
  }

  #file(fd: number, path: string, size: number): void {
    this.files += 1
    this.bytes += size
    if (this.files > STATIC.files) {
      throw new Refused(`holds more than ${STATIC.files.toLocaleString('en-US')} files.`)
    }
    if (this.bytes > STATIC.bytes) {
      throw new Refused(`holds more than ${STATIC.bytes / 1_024 ** 3} GiB.`)
    }
    say({ kind: 'file', path, size })
    for (let left = size; left > 0; ) {
      const got = readSync(fd, this.#buffer, 0, Math.min(left, this.#buffer.length), null)
      // the announced bytes cannot follow; the parent sees the stream end inside a file
      if (got === 0) throw new Error(`${path} became shorter while it was copied`)
      write(this.#buffer.subarray(0, got))
      left -= got
    }
  }
}

/** Returns the exit code. */
export function readStatic({ account, base, root }: ReadRequest): number {
  if (account) dropTo(account)
  let fd: number | undefined = openSync(base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
  for (const name of root.split('/').filter((part) => part !== '' && part !== '.')) {
    fd = name === '..' ? undefined : enter(fd, name)
    if (fd === undefined) {
      say({ kind: 'fail', message: 'is not in the checkout.' })
      return 0
    }
  }
  const reader = new Reader()
  try {
    reader.folder(fd, '')
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    say({ kind: 'fail', message: error.message })
    return 0
  }
  say({ kind: 'end', skipped: reader.skipped })
  return 0
}
