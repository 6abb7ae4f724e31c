// The log of one service: one line of JSON per line of output, masked, one file per day and a bound on each. What a
// day writes beyond the bound replaces its beginning, never its end. Written by the supervisor, daemon up or not.
import {
  closeSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { PROCESSES, STEPS } from '@berth/shared'
import type { Masker, MaskStream } from '../runner/mask.ts'

export type ServiceSource = 'out' | 'err'

export interface ServiceLine {
  t: string
  s: ServiceSource
  task: number
  text: string
}

const NEWLINE = 0x0a

export class ServiceLog {
  readonly #dir: string
  readonly #taskId: number
  readonly #now: () => Date
  readonly #streams: Record<ServiceSource, { mask: MaskStream; rest: Buffer }>
  #day = ''
  #fd = -1
  #bytes = 0

  constructor(dir: string, taskId: number, masker: Masker, now: () => Date = () => new Date()) {
    mkdirSync(dir, { recursive: true, mode: 0o700 })
    this.#dir = dir
    this.#taskId = taskId
    this.#now = now
    const nothing = Buffer.alloc(0)
    this.#streams = {
      out: { mask: masker.source(), rest: nothing },
      err: { mask: masker.source(), rest: nothing },
    }
  }

  write(source: ServiceSource, chunk: Buffer): void {
    this.#split(source, this.#streams[source].mask.push(chunk))
  }

  /** What was held back is written; the log may go on afterwards (a restarted command). */
  flush(): void {
    for (const source of ['out', 'err'] as const) {
      const stream = this.#streams[source]
      this.#split(source, stream.mask.end())
      if (stream.rest.length > 0) this.#append(source, [stream.rest])
      stream.rest = Buffer.alloc(0)
    }
  }

  close(): void {
    this.flush()
    if (this.#fd >= 0) closeSync(this.#fd)
    this.#fd = -1
  }

  #split(source: ServiceSource, masked: Buffer): void {
    if (masked.length === 0) return
    const stream = this.#streams[source]
    let rest = stream.rest.length > 0 ? Buffer.concat([stream.rest, masked]) : masked
    const lines: Buffer[] = []
    for (let at = rest.indexOf(NEWLINE); at >= 0; at = rest.indexOf(NEWLINE)) {
      lines.push(rest.subarray(0, at))
      rest = rest.subarray(at + 1)
    }
    // a line without an end is written in pieces, so that no program can fill the memory
    while (rest.length >= PROCESSES.serviceLineBytes) {
      lines.push(rest.subarray(0, PROCESSES.serviceLineBytes))
      rest = rest.subarray(PROCESSES.serviceLineBytes)
    }
    stream.rest = Buffer.from(rest)
    if (lines.length > 0) this.#append(source, lines)
  }

  #append(source: ServiceSource, lines: Buffer[]): void {
    const t = this.#now().toISOString()
    const text = lines.map((line) => {
      const entry: ServiceLine = {
        t,
        s: source,
        task: this.#taskId,
        text: line.toString('utf8').replace(/\r$/, ''),
      }
      return `${JSON.stringify(entry)}\n`
    })
    const bytes = Buffer.from(text.join(''))
    this.#open(t.slice(0, 10), bytes.length)
    writeSync(this.#fd, bytes)
    this.#bytes += bytes.length
  }

  /** The file of the day; a full one moves aside once, and what lay there is gone. */
  #open(day: string, coming: number): void {
    const isFull =
      this.#fd >= 0 && this.#bytes > 0 && this.#bytes + coming > PROCESSES.serviceLogBytes
    if (day === this.#day && this.#fd >= 0 && !isFull) return
    const before = this.#fd
    this.#fd = -1 // what follows may fail; the number may soon be another file's
    if (before >= 0) closeSync(before)
    const file = join(this.#dir, `${day}.ndjson`)
    if (isFull && day === this.#day) renameSync(file, join(this.#dir, `${day}.1.ndjson`))
    this.#fd = openSync(file, 'a', 0o600)
    this.#bytes = fstatSync(this.#fd).size
    this.#day = day
  }
}

/** The last lines that a service of this deployment wrote, oldest first. */
export function readLastLines(dir: string, taskId: number): string[] {
  const lines: string[] = []
  const byTime = (a: string, b: string): number => sortKey(b).localeCompare(sortKey(a))
  for (const name of listLogs(dir).sort(byTime).slice(0, 2)) {
    const found = readEnd(join(dir, name)).filter((line) => line.task === taskId)
    lines.unshift(...found.map(({ text }) => text))
    if (lines.length >= STEPS.outputTailLines) break
  }
  return lines.slice(-STEPS.outputTailLines)
}

/** When a service of this deployment wrote its last line that is kept; undefined: none is. */
export function lastLineAt(dir: string, taskId: number): string | undefined {
  const newest = listLogs(dir).sort((a, b) => sortKey(b).localeCompare(sortKey(a)))
  for (const name of newest.slice(0, 2)) {
    const last = readEnd(join(dir, name)).findLast((line) => line.task === taskId)
    if (last) return last.t
  }
  return undefined
}

/** 2026-11-15.1.ndjson is the older half of 2026-11-15.ndjson. */
const sortKey = (name: string): string => name.replace('.1.ndjson', '.0').replace('.ndjson', '.2')

function listLogs(dir: string): string[] {
  try {
    return readdirSync(dir).filter((name) => name.endsWith('.ndjson'))
  } catch {
    return []
  }
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
