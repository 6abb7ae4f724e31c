// Writes the log of one service: one line of JSON per line of output, masked, in parts of a day (days.ts). Used by the
// supervisor of a process, the daemon that follows a container, and the runner that removes one. Invariants: a line is
// written whole or repeated; the environment's log stays within its bound for all writers; a log that continues where
// another writer stopped (`resume`) repeats no line.
import { closeSync, fstatSync, mkdirSync, openSync, readSync, statSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { SERVICE_LOGS, STEPS } from '@berth/shared'
import { PROCESSES } from '../limits/machine.ts'
import type { Masker, MaskStream } from '../machine/masking/mask.ts'
import { keepWithinBounds, listParts, setAside } from './days.ts'
import type { Resume } from './resume.ts'

type ServiceSource = 'out' | 'err'

export interface ServiceLine {
  /** As precise as its writer knows it; the engine has nanoseconds. */
  t: string
  s: ServiceSource
  task: number
  /** The replica, where the service has several. */
  r?: number
  text: string
}

interface ServiceLogOptions {
  now?: () => Date
  /** Drops what an earlier writer wrote already. */
  resume?: Resume | undefined
  /** Undefined: the service has one container or process. */
  replica?: number | undefined
}

const NEWLINE = 0x0a

export class ServiceLog {
  readonly #dir: string
  readonly #taskId: number
  readonly #now: () => Date
  readonly #resume: Resume | undefined
  readonly #replica: number | undefined
  readonly #streams: Record<ServiceSource, { mask: MaskStream; rest: Buffer }>
  readonly #dropped = { out: 0, err: 0 }
  #day = ''
  #fd = -1
  #inode = 0
  #bytes = 0

  constructor(dir: string, taskId: number, masker: Masker, options: ServiceLogOptions = {}) {
    this.#dir = dir
    this.#taskId = taskId
    this.#now = options.now ?? (() => new Date())
    this.#resume = options.resume
    this.#replica = options.replica
    const nothing = Buffer.alloc(0)
    this.#streams = {
      out: { mask: masker.source(), rest: nothing },
      err: { mask: masker.source(), rest: nothing },
    }
  }

  /** `at` is when the program wrote it, if that is known. */
  write(source: ServiceSource, chunk: Buffer, at?: string): void {
    this.#split(source, this.#streams[source].mask.push(chunk), at)
  }

  /** Writes what was held back; the log may continue afterwards (a restarted command). */
  flush(at?: string): void {
    for (const source of ['out', 'err'] as const) {
      const stream = this.#streams[source]
      this.#split(source, stream.mask.end(), at)
      if (stream.rest.length > 0) this.#append(source, [stream.rest], at)
      stream.rest = Buffer.alloc(0)
    }
  }

  close(at?: string): void {
    try {
      this.flush(at)
    } finally {
      this.#release()
    }
  }

  /** Drops what was held back, as the next writer reads it again. */
  abandon(): void {
    this.#release()
  }

  #release(): void {
    const fd = this.#fd
    this.#fd = -1 // what follows may fail, and the descriptor may soon belong to another file
    if (fd >= 0) closeSync(fd)
  }

  #split(source: ServiceSource, masked: Buffer, at: string | undefined): void {
    if (masked.length === 0) return
    const stream = this.#streams[source]
    let rest = stream.rest.length > 0 ? Buffer.concat([stream.rest, masked]) : masked
    const lines: Buffer[] = []
    for (let end = rest.indexOf(NEWLINE); end >= 0; end = rest.indexOf(NEWLINE)) {
      lines.push(rest.subarray(0, end))
      rest = rest.subarray(end + 1)
    }
    // an endless line is written in pieces, so that no program can fill the memory
    while (rest.length >= PROCESSES.serviceLineBytes) {
      lines.push(rest.subarray(0, PROCESSES.serviceLineBytes))
      rest = rest.subarray(PROCESSES.serviceLineBytes)
    }
    stream.rest = Buffer.from(rest)
    if (lines.length > 0) this.#append(source, lines, at)
  }

  #append(source: ServiceSource, lines: Buffer[], at = this.#now().toISOString()): void {
    const text = lines.flatMap((line) => {
      if (this.#isKnown(source, at)) return []
      const entry: ServiceLine = {
        t: at,
        s: source,
        task: this.#taskId,
        ...(this.#replica === undefined ? {} : { r: this.#replica }),
        text: line.toString('utf8').replace(/\r$/, ''),
      }
      return `${JSON.stringify(entry)}\n`
    })
    if (text.length > 0) this.#put(at.slice(0, 10), Buffer.from(text.join('')))
  }

  /** Lines of the same time can only be counted; drops as many of them as the file has already. */
  #isKnown(source: ServiceSource, at: string): boolean {
    if (!this.#resume) return false
    const last = this.#resume[source]
    if (!last) return at < this.#resume.complete
    if (at !== last.at) return at < last.at
    this.#dropped[source] += 1
    return this.#dropped[source] <= last.count
  }

  #put(day: string, bytes: Buffer): void {
    this.#open(day, bytes.length)
    try {
      for (let done = 0; done < bytes.length; ) done += writeSync(this.#fd, bytes, done)
    } catch (error) {
      this.#release() // part of a line may be written; the next writer ends it
      throw error
    }
    this.#bytes += bytes.length
  }

  /** Opens the current part of the day; sets a full one aside. */
  #open(day: string, coming: number): void {
    if (this.#fd >= 0 && day === this.#day && this.#isCurrent()) {
      if (this.#bytes === 0 || this.#bytes + coming <= SERVICE_LOGS.partBytes) return
      setAside(this.#dir, day)
      keepWithinBounds(dirname(this.#dir), this.#now())
    }
    this.#release()
    mkdirSync(this.#dir, { recursive: true, mode: 0o700 })
    this.#fd = openSync(this.#fileOf(day), 'a+', 0o600)
    const { size, ino } = fstatSync(this.#fd)
    this.#day = day
    this.#inode = ino
    this.#bytes = size + endLine(this.#fd, size)
  }

  #fileOf(day: string): string {
    return join(this.#dir, `${day}.ndjson`)
  }

  /** False when another writer, or the daemon, has set it aside meanwhile. */
  #isCurrent(): boolean {
    const found = statSync(this.#fileOf(this.#day), { throwIfNoEntry: false })
    if (found?.ino !== this.#inode) return false
    this.#bytes = found.size
    return true
  }
}

/** After a crash or on a full disk the last line may lack its end; it never counted as written. */
function endLine(fd: number, size: number): number {
  if (size === 0) return 0
  const last = Buffer.alloc(1)
  readSync(fd, last, 0, 1, size - 1)
  return last[0] === NEWLINE ? 0 : writeSync(fd, '\n')
}

/** The last lines that a service of this deployment wrote, oldest first. */
export function readLastLines(dir: string, taskId: number): string[] {
  const lines: string[] = []
  const plain = listParts(dir).filter(({ isCompressed }) => !isCompressed)
  for (const { name } of plain.reverse().slice(0, 2)) {
    const found = readEnd(join(dir, name)).filter((line) => line.task === taskId)
    lines.unshift(...found.map(({ text }) => text))
    if (lines.length >= STEPS.outputTailLines) break
  }
  return lines.slice(-STEPS.outputTailLines)
}

function readEnd(file: string): ServiceLine[] {
  const fd = openSync(file, 'r')
  try {
    const { size } = fstatSync(fd)
    const from = Math.max(0, size - PROCESSES.serviceTailBytes)
    const buffer = Buffer.alloc(size - from)
    readSync(fd, buffer, 0, buffer.length, from)
    const lines = buffer.toString('utf8').split('\n')
    return lines.slice(from > 0 ? 1 : 0).flatMap((line) => {
      try {
        return [JSON.parse(line) as ServiceLine]
      } catch {
        return []
      }
    })
  } finally {
    closeSync(fd)
  }
}
