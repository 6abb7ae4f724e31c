// Finds where the last writer of a container's log stopped, in the log itself: only a line in the file counts as
// written. So a crash between a line and a separate position cannot lose or repeat one.
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { SERVICE_LOGS } from '@berth/shared'
import { listParts } from './days.ts'
import { readPart } from './lines.ts'

interface LastLines {
  /** The newest time, and how many lines have it. */
  at: string
  count: number
}

export interface Resume {
  out?: LastLines | undefined
  err?: LastLines | undefined
  /** For a source without last lines: everything before this time was written. */
  complete: string
  /** Where to start reading from the engine. */
  since: string
}

interface Line {
  t: string
  s: 'out' | 'err'
  task: number
  /** The replica, in the log of a service that has several. */
  r?: number
}

/** Identifies the lines of one container. */
export interface LogWriter {
  taskId: number
  /** From 1. */
  replica: number
}

/** Collects facts from the lines of one container, in the order of the file. */
class Collecting {
  readonly #mark: Buffer
  readonly #of: LogWriter
  readonly #last: { out?: LastLines; err?: LastLines } = {}
  #first = ''

  constructor(of: LogWriter) {
    this.#of = of
    this.#mark = Buffer.from(`"task":${of.taskId},`)
  }

  add(line: Buffer): void {
    if (!line.includes(this.#mark)) return
    let entry: Line
    try {
      entry = JSON.parse(line.toString('utf8')) as Line
    } catch {
      return
    }
    if (entry.task !== this.#of.taskId || (entry.r ?? 1) !== this.#of.replica) return
    if (this.#first === '' || entry.t < this.#first) this.#first = entry.t
    const last = this.#last[entry.s]
    if (last && entry.t < last.at) return
    const count = last?.at === entry.t ? last.count + 1 : 1
    this.#last[entry.s] = { at: entry.t, count }
  }

  /** `isAll` says that no earlier lines of the deployment exist. */
  result(isAll: boolean): Resume | undefined {
    const { out, err } = this.#last
    if (!out && !err) return undefined
    const newest = [out?.at ?? '', err?.at ?? ''].sort().at(-1) ?? ''
    const since = new Date(Date.parse(newest) - SERVICE_LOGS.skewMs).toISOString()
    return { out, err, complete: isAll ? '' : this.#first, since }
  }
}

/** Reads the end of a plain part, which suffices unless other deployments wrote much since. */
function collectEnd(file: string, collecting: Collecting): { isWhole: boolean } {
  const fd = openSync(file, 'r')
  try {
    const { size } = fstatSync(fd)
    const from = Math.max(0, size - SERVICE_LOGS.resumeBytes)
    const bytes = Buffer.alloc(size - from)
    const read = readSync(fd, bytes, 0, bytes.length, from)
    let at = from > 0 ? bytes.indexOf(0x0a) + 1 : 0
    for (let end = bytes.indexOf(0x0a, at); end >= 0 && end < read; ) {
      collecting.add(bytes.subarray(at, end))
      at = end + 1
      end = bytes.indexOf(0x0a, at)
    }
    return { isWhole: from === 0 }
  } finally {
    closeSync(fd)
  }
}

/** Undefined when the log has no line of this container. `notBefore` is when it was made. */
export async function findResume(
  dir: string,
  of: LogWriter,
  notBefore: Date,
): Promise<Resume | undefined> {
  const firstDay = notBefore.toISOString().slice(0, 10)
  const parts = listParts(dir).filter(({ day }) => day >= firstDay)
  for (const part of parts.toReversed()) {
    const { name, isCompressed } = part
    const file = join(dir, name)
    const isOldest = part === parts[0]
    if (!isCompressed) {
      const end = new Collecting(of)
      const { isWhole } = collectEnd(file, end)
      const found = end.result(isWhole && isOldest)
      if (found) return found
    }
    const whole = new Collecting(of)
    const reader = readPart(file, isCompressed)
    try {
      for (let lines = await reader.next(); lines; lines = await reader.next()) {
        for (const { bytes } of lines) whole.add(bytes)
      }
    } finally {
      reader.close()
    }
    const found = whole.result(isOldest)
    if (found) return found
  }
  return undefined
}
