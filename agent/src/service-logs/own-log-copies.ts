// Copies what applications of the manual recipe write to `shared/log/*.log` into the logs of their environment: masked,
// with the time of reading, each file as a service of its name. Empties a large file once all of it is copied. The
// position in each file is stored beside the logs and counts whole lines only.
import { mkdirSync, read as readFd, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { SERVICE_LOGS } from '@berth/shared'
import { replaceUnsynced } from '../machine/atomic-files.ts'
import { environmentPaths } from '../machine/files.ts'
import { Masker } from '../machine/masking/mask.ts'
import { parseShellFile } from '../runner/plan/variable-files.ts'
import type { AgentSettings } from '../settings.ts'
import { emptyOwnLog, type OwnLog, withOwnLogs } from './own-logs.ts'
import { ServiceLog } from './writer.ts'

const readBytes = promisify(readFd)

interface Place {
  inode: number
  /** The position after the last whole line that was copied. */
  at: number
}

interface Copy {
  taskId: number
  log: ServiceLog
  /** The position after the last byte that was read, including an unfinished line. */
  at: number
  inode: number
}

export interface ManualVersion {
  environmentId: number
  taskId: number
  /** Undefined when all values are secret. */
  secretKeys: string[] | undefined
}

export class OwnLogs {
  readonly #settings: AgentSettings
  /** By environment and file. */
  readonly #copies = new Map<string, Copy>()

  constructor(settings: AgentSettings) {
    this.#settings = settings
  }

  close(): void {
    for (const { log } of this.#copies.values()) log.abandon()
    this.#copies.clear()
  }

  /** Reads the files of an environment once. Throws when they cannot be read or its values are not known. */
  async copy(version: ManualVersion): Promise<void> {
    const paths = environmentPaths(this.#settings, version.environmentId)
    const note = join(paths.logs, '.own.json')
    const known = readPositions(note)
    const before = JSON.stringify(known)
    await withOwnLogs(paths, async (own) => {
      known[own.name] = await this.#copyOne(version, own, known[own.name])
    })
    if (JSON.stringify(known) === before) return
    mkdirSync(paths.logs, { recursive: true, mode: 0o711 })
    replaceUnsynced(note, JSON.stringify(known))
  }

  /** Called when no version of it runs; closes its files. */
  forget(environmentId: number): void {
    for (const [key, { log }] of this.#copies) {
      if (!key.startsWith(`${environmentId}/`)) continue
      log.abandon()
      this.#copies.delete(key)
    }
  }

  async #copyOne(version: ManualVersion, own: OwnLog, known: Place | undefined): Promise<Place> {
    const { size, ino } = own.stats
    const isSame = known?.inode === ino && size >= known.at
    if (isSame && size === known.at) return this.#emptyIfLarge(version, own, known)
    const start = isSame ? known.at : Math.max(0, size - SERVICE_LOGS.ownFileBytes)
    const copy = this.#open(version, own, start, ino)
    const place: Place = { inode: ino, at: start }
    const chunk = Buffer.allocUnsafe(SERVICE_LOGS.chunkBytes)
    // bounded, as a program may write endlessly; the next round continues
    for (let read = 0; read < SERVICE_LOGS.ownFileBytes; ) {
      const { bytesRead } = await readBytes(own.fd, chunk, 0, chunk.length, copy.at)
      if (bytesRead === 0) break
      const bytes = chunk.subarray(0, bytesRead)
      copy.log.write('out', Buffer.from(bytes))
      const end = bytes.lastIndexOf(0x0a)
      if (end >= 0) place.at = copy.at + end + 1
      copy.at += bytesRead
      read += bytesRead
    }
    return this.#emptyIfLarge(version, own, place)
  }

  #emptyIfLarge({ environmentId }: ManualVersion, own: OwnLog, place: Place): Place {
    if (place.at < SERVICE_LOGS.ownFileBytes) return place
    emptyOwnLog(own)
    const copy = this.#copies.get(`${environmentId}/${own.name}`)
    if (copy) copy.at = 0
    return { ...place, at: 0 }
  }

  #open(version: ManualVersion, own: OwnLog, start: number, inode: number): Copy {
    const key = `${version.environmentId}/${own.name}`
    const open = this.#copies.get(key)
    const isSame = open?.taskId === version.taskId && open.inode === inode && open.at >= start
    if (open && isSame && open.at <= own.stats.size) return open
    open?.log.abandon()
    const { logs, variables } = environmentPaths(this.#settings, version.environmentId)
    const values = parseShellFile(readFileSync(join(variables, `${version.taskId}.sh`), 'utf8'))
    const keys = version.secretKeys ?? [...values.keys()]
    const secrets = keys.map((name) => Buffer.from(values.get(name) ?? ''))
    const masker = new Masker(secrets.filter((value) => value.length > 0))
    const log = new ServiceLog(join(logs, own.name), version.taskId, masker)
    const copy: Copy = { taskId: version.taskId, log, at: start, inode }
    this.#copies.set(key, copy)
    return copy
  }
}

function readPositions(file: string): Record<string, Place> {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Record<string, Place>
  } catch {
    return {}
  }
}
