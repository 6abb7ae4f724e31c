// Files of the proxy's log of requests: `access.log` is being written; the proxy sets a full one aside under its time and
// compresses it. A file is known by its first line, which neither renaming nor compression changes.
import { createHash } from 'node:crypto'
import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import { listFolder } from '../machine/files.ts'
import { readPart } from '../service-logs/lines.ts'
import { requestTimeOf } from './records.ts'

export interface RequestLogFile {
  file: string
  isCompressed: boolean
  id: string
  /** The time of its first line. */
  firstUs: number
}

const CURRENT = 'access.log'
const ASIDE = /^access-(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)[a-z-]*\.log(\.gz)?$/

const isFile = (file: string): boolean =>
  lstatSync(file, { throwIfNoEntry: false })?.isFile() ?? false

/** Of files that were set aside, whose first line no longer changes; by path. */
const known = new Map<string, Pick<RequestLogFile, 'id' | 'firstUs'>>()
const MOST_KNOWN = 100

async function readFirst(file: string, isCompressed: boolean) {
  try {
    const reader = readPart(file, isCompressed)
    try {
      const [first] = (await reader.next()) ?? []
      const id = first && createHash('sha256').update(first.bytes).digest('hex').slice(0, 16)
      return id && { id, firstUs: requestTimeOf(first.bytes) ?? 0 }
    } finally {
      reader.close()
    }
  } catch {
    return undefined // renamed or compressed meanwhile
  }
}

/** Oldest first; without files that have no line yet. */
export async function listRequestLogs(folder: string): Promise<RequestLogFile[]> {
  const names = listFolder(folder)
  const aside = names
    .filter((name) => ASIDE.test(name))
    // while the proxy compresses a file, the plain one is the complete one
    .filter((name) => !(name.endsWith('.gz') && names.includes(name.slice(0, -'.gz'.length))))
    .sort()
  const files: RequestLogFile[] = []
  for (const name of [...aside, ...names.filter((n) => n === CURRENT)]) {
    const file = join(folder, name)
    const isCompressed = name.endsWith('.gz')
    const first = isFile(file)
      ? (known.get(file) ?? (await readFirst(file, isCompressed)))
      : undefined
    if (!first) continue
    files.push({ file, isCompressed, ...first })
    if (name === CURRENT) continue
    if (known.size >= MOST_KNOWN) known.clear()
    known.set(file, first)
  }
  return files
}
