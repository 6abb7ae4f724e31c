// The agent's own store of artifacts: copies under random names in folders of root, written while a task collects and
// removed after their retention; reading.ts reads them. No path of an environment is ever opened here. Invariants: a
// copy is hashed while it is written and synced before its record; each record describes exactly one file.
import { createHash, type Hash, randomUUID } from 'node:crypto'
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  fsync,
  mkdirSync,
  openSync,
  readdirSync,
  rmdirSync,
  rmSync,
  statfsSync,
  statSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ARTIFACTS } from '@berth/shared'
import type { ArtifactRow } from '../journal/artifact-table.ts'
import type { Ledger } from '../journal/ledger.ts'
import { syncFolder } from '../machine/atomic-files.ts'
import { removeTree } from '../machine/files.ts'
import type { AgentSettings } from '../settings.ts'
import { compareNames } from './names.ts'

type StoreSettings = Pick<AgentSettings, 'stateDir'>

const storeDir = (s: StoreSettings): string => join(s.stateDir, 'artifacts')
const taskDir = (s: StoreSettings, environmentId: number, taskId: number): string =>
  join(storeDir(s), `e${environmentId}`, String(taskId))
export const copyOf = (s: StoreSettings, row: ArtifactRow): string =>
  join(taskDir(s, row.environmentId, row.taskId), row.id)

/** Thrown when the store's disk has no space for another file, with the kernel's error code. */
function diskFull(): Error {
  return Object.assign(new Error('no space left on the disk of the store'), { code: 'ENOSPC' })
}

const syncFile = promisify(fsync)

/** One incoming file: written as it arrives, hashed, closed by `finish` or `drop`. */
export interface Incoming {
  readonly path: string
  write(chunk: Buffer): void
  finish(): void
  drop(): void
}

/** entries: of folders, for a collection that searches them. */
/** passed: bytes of files in a container that had to be skipped. */
export type Bound = 'files' | 'bytes' | 'entries' | 'passed'

interface Copy {
  id: string
  path: string
  size: number
  sha256: Buffer
  modifiedAt: number
}

/** The copies of one task; bounded, and committed atomically. */
export class ArtifactIntake {
  readonly #settings: StoreSettings
  readonly #dir: string
  readonly #of: { environmentId: number; taskId: number }
  readonly #limits: { files: number; bytes: number }
  readonly #copies = new Map<string, Copy>()
  #bytes = 0
  /** The first name that is left out; no file from here on is offered. */
  #firstLeftOut: { path: string; limit: Bound } | undefined

  constructor(
    settings: StoreSettings,
    of: { environmentId: number; taskId: number },
    limits: { files: number; bytes: number },
  ) {
    this.#settings = settings
    this.#of = of
    this.#limits = limits
    this.#dir = taskDir(settings, of.environmentId, of.taskId)
  }

  get firstLeftOut(): { path: string; limit: Bound } | undefined {
    return this.#firstLeftOut
  }

  get count(): number {
    return this.#copies.size
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Undefined when known already, or beyond a bound. Files come in any order; a bound leaves out the last by name. */
  begin(path: string, size: number, modifiedAt: number): Incoming | undefined {
    if (this.#copies.has(path)) return undefined
    if (this.#firstLeftOut && compareNames(path, this.#firstLeftOut.path) >= 0) return undefined
    if (!this.#fitsLimits(path, size)) return undefined
    this.#requireDiskSpace(size)
    return this.#open(path, size, modifiedAt)
  }

  /** Syncs all copies, then writes the records. */
  async commit(ledger: Ledger, expiresAt: number): Promise<ArtifactRow[]> {
    const copies = [...this.#copies.values()].toSorted((a, b) => compareNames(a.path, b.path))
    const rows: ArtifactRow[] = []
    for (let i = 0; i < copies.length; i += ARTIFACTS.syncs) {
      const some = copies.slice(i, i + ARTIFACTS.syncs)
      rows.push(...(await Promise.all(some.map((copy) => this.#sync(copy, expiresAt)))))
    }
    if (rows.length === 0) return rows
    for (const folder of [this.#dir, join(this.#dir, '..'), storeDir(this.#settings)]) {
      syncFolder(folder)
    }
    ledger.artifacts.add(rows)
    return rows
  }

  /** Removes all copies. */
  async discard(): Promise<void> {
    this.#copies.clear()
    if (existsSync(this.#dir)) await removeTree(this.#dir)
  }

  #open(path: string, size: number, modifiedAt: number): Incoming {
    mkdirSync(this.#dir, { recursive: true, mode: 0o700 })
    const id = randomUUID()
    const file = join(this.#dir, id)
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
    const fd = openSync(file, flags, 0o600)
    const hash: Hash = createHash('sha256')
    let written = 0
    const drop = (): void => {
      closeSync(fd)
      rmSync(file, { force: true })
    }
    return {
      path,
      drop,
      write: (chunk) => {
        written += chunk.length
        if (written > size) throw new Error(`${path} is longer than it said`)
        if (
          Math.floor(written / CHECK_EVERY) > Math.floor((written - chunk.length) / CHECK_EVERY)
        ) {
          this.#requireDiskSpace(size - written)
        }
        hash.update(chunk)
        for (let at = 0; at < chunk.length; ) at += writeSync(fd, chunk, at)
      },
      finish: () => {
        if (written !== size) {
          drop()
          throw new Error(`${path} became shorter while it was copied`)
        }
        closeSync(fd)
        this.#copies.set(path, { id, path, size, sha256: hash.digest(), modifiedAt })
        this.#bytes += size
      },
    }
  }

  async #sync(copy: Copy, expiresAt: number): Promise<ArtifactRow> {
    const fd = openSync(join(this.#dir, copy.id), constants.O_RDONLY | constants.O_NOFOLLOW)
    try {
      await syncFile(fd)
      const { ino, mtimeNs } = fstatSync(fd, { bigint: true })
      return { ...copy, ...this.#of, storedIno: ino, storedMtimeNs: mtimeNs, expiresAt }
    } finally {
      closeSync(fd)
    }
  }

  /** Uses the size that a file claims, before a byte is copied. False when this file itself exceeds a bound. */
  #fitsLimits(path: string, size: number): boolean {
    const { files, bytes } = this.#limits
    while (this.#copies.size + 1 > files || this.#bytes + size > bytes) {
      const limit = this.#copies.size + 1 > files ? 'files' : 'bytes'
      // a file that exceeds the bound alone displaces no other
      const last = size > bytes ? path : this.#lastName(path)
      this.leaveOut(last, limit)
      if (last === path) return false
    }
    return true
  }

  #lastName(path: string): string {
    return [...this.#copies.keys()].reduce((a, b) => (compareNames(a, b) >= 0 ? a : b), path)
  }

  /** Offers no file from this name on. */
  leaveOut(path: string, limit: Bound): void {
    if (this.#firstLeftOut && compareNames(path, this.#firstLeftOut.path) >= 0) return
    const later = [...this.#copies.values()].filter((copy) => compareNames(copy.path, path) >= 0)
    for (const copy of later) {
      rmSync(join(this.#dir, copy.id), { force: true })
      this.#copies.delete(copy.path)
      this.#bytes -= copy.size
    }
    this.#firstLeftOut = { path, limit }
  }

  #requireDiskSpace(bytes: number): void {
    mkdirSync(storeDir(this.#settings), { recursive: true, mode: 0o700 })
    const { bavail, bsize } = statfsSync(storeDir(this.#settings))
    if (bavail * bsize < bytes + ARTIFACTS.spareBytes) throw diskFull()
  }
}

const CHECK_EVERY = 64 * 1_024 * 1_024

/** Removes copies after their retention, and copies of tasks that never finished. Returns how many files. */
export async function expireArtifacts(
  settings: StoreSettings,
  ledger: Ledger,
  now: number,
): Promise<number> {
  const expired = ledger.artifacts.listExpired(now)
  for (const row of expired) rmSync(copyOf(settings, row), { force: true })
  ledger.artifacts.markRemoved(expired.map(({ id }) => id))
  ledger.artifacts.forgetExpiredBefore(now - ARTIFACTS.rememberedMs)
  for (const environment of listNumbered(storeDir(settings), /^e(\d+)$/)) {
    for (const task of listNumbered(environment.path, /^(\d+)$/)) {
      await tidyTask(ledger, environment.id, task, now)
    }
    removeEmpty(environment.path)
  }
  return expired.length
}

async function tidyTask(
  ledger: Ledger,
  environmentId: number,
  task: { id: number; path: string },
  now: number,
): Promise<void> {
  if (ledger.artifacts.hasTask(environmentId, task.id)) return
  removeEmpty(task.path)
  const touched = statSync(task.path, { throwIfNoEntry: false })?.mtimeMs ?? now
  if (now - touched > ARTIFACTS.unfinishedMs) await removeTree(task.path)
}

function listNumbered(folder: string, shape: RegExp): { id: number; path: string }[] {
  if (!existsSync(folder)) return []
  return readdirSync(folder).flatMap((name) => {
    const id = Number(shape.exec(name)?.[1] ?? Number.NaN)
    return Number.isSafeInteger(id) ? [{ id, path: join(folder, name) }] : []
  })
}

function removeEmpty(folder: string): void {
  try {
    rmdirSync(folder)
  } catch {
    // still contains copies of another task
  }
}
