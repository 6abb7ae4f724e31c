// Writes a backup as a stream: a compressed tar with the head, the rows of every table in parts, the logs, their
// checksums and the manifest. Standard programs read it (`tar`, `sha256sum --check`). Memory holds one part.
import { createHash, type Hash } from 'node:crypto'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { pack as makePack, type Pack } from 'tar-stream'
import { BACKUPS } from '../limits/installation.ts'
import { ENTRY_BYTES } from '../store/deployments/log-index.ts'
import { encodeRow, RowHash } from '../store/transfer/rows.ts'
import type { TableSource } from '../store/transfer/tables.ts'
import { HEAD_FILE, type Head, MANIFEST_FILE, type Manifest } from './manifest.ts'

export interface Archive {
  stream: Readable
  /** Settles when everything is in the stream; rejects if the source fails, and the stream with it. */
  done: Promise<Manifest>
}

export function writeArchive(
  source: TableSource,
  head: Head,
  logsDir: string | undefined,
): Archive {
  const pack = makePack()
  const gzip = createGzip()
  const writing = pipeline(pack, gzip)
  const adding = addEverything(new Entries(pack, head.takenAt), source, head, logsDir).then(
    (manifest) => {
      pack.finalize()
      return manifest
    },
    (error: Error) => {
      gzip.destroy(error)
      throw error
    },
  )
  const done = settle(adding, writing)
  done.catch(() => {}) // reported where it is awaited; until then it is no unhandled rejection
  return { stream: gzip, done }
}

/** Waits for both, so that the source is no longer read afterwards. */
async function settle(adding: Promise<Manifest>, writing: Promise<void>): Promise<Manifest> {
  const [added, written] = await Promise.allSettled([adding, writing])
  if (added.status === 'rejected') throw added.reason
  if (written.status === 'rejected') throw written.reason
  return added.value
}

class Entries {
  readonly #pack: Pack
  readonly #mtime: Date

  constructor(pack: Pack, takenAt: number) {
    this.#pack = pack
    this.#mtime = new Date(takenAt)
  }

  async add(
    name: string,
    size: number,
    content: Iterable<Buffer> | AsyncIterable<Buffer>,
  ): Promise<void> {
    const entry = this.#pack.entry({ name, size, mode: 0o600, mtime: this.#mtime })
    await pipeline(Readable.from(content), entry)
  }

  async addText(name: string, text: string): Promise<void> {
    const bytes = Buffer.from(text)
    await this.add(name, bytes.length, [bytes])
  }
}

/** Collects lines into files of a bounded size: a tar must know the size of a file before its content. */
class Parts {
  readonly #entries: Entries
  readonly #folder: string
  #lines: string[] = []
  #bytes = 0
  #count = 0

  constructor(entries: Entries, folder: string) {
    this.#entries = entries
    this.#folder = folder
  }

  async add(line: string): Promise<void> {
    this.#lines.push(line)
    this.#bytes += line.length
    if (this.#bytes >= BACKUPS.partBytes) await this.flush()
  }

  async flush(): Promise<void> {
    if (this.#lines.length === 0) return
    this.#count += 1
    const name = `${this.#folder}/${String(this.#count).padStart(8, '0')}`
    await this.#entries.addText(name, this.#lines.join(''))
    this.#lines = []
    this.#bytes = 0
  }
}

async function addEverything(
  entries: Entries,
  source: TableSource,
  head: Head,
  logsDir: string | undefined,
): Promise<Manifest> {
  await entries.addText(HEAD_FILE, `${JSON.stringify(head, null, 2)}\n`)
  const tables: Manifest['tables'] = {}
  for (const table of source.tables) {
    const hash = new RowHash()
    const parts = new Parts(entries, `tables/${table.name}`)
    for await (const batch of source.rows(table)) {
      for (const row of batch) {
        const line = encodeRow(row)
        hash.add(line)
        await parts.add(line)
      }
    }
    await parts.flush()
    tables[table.name] = hash.sum()
  }
  const logs = await addLogs(entries, source, logsDir)
  const manifest = { tables, logs }
  await entries.addText(MANIFEST_FILE, `${JSON.stringify(manifest, null, 2)}\n`)
  return manifest
}

/**
 * Logs only grow, so the part that the snapshot knows stays as it is while they are read. Beside PostgreSQL, files hold
 * those that are not imported yet.
 */
async function addLogs(
  entries: Entries,
  source: TableSource,
  logsDir: string | undefined,
): Promise<Manifest['logs']> {
  const all = createHash('sha256')
  const sums = new Parts(entries, 'sums')
  let files = 0
  let total = 0
  if (logsDir !== undefined) {
    for await (const batch of source.logs()) {
      for (const { attemptId, bytes, records } of batch) {
        const pair = [
          ['log', bytes],
          ['idx', records * ENTRY_BYTES],
        ] as const
        for (const [part, length] of pair) {
          const name = `${attemptId}.${part}`
          const stored = await source.openLog?.({ attemptId, bytes, records }, part)
          const added = stored
            ? await addContent(entries, `logs/${name}`, length, stored)
            : await addFile(entries, join(logsDir, name), `logs/${name}`, length)
          if (!added) continue
          const line = `${added.sha256}  logs/${name}\n`
          all.update(line)
          await sums.add(line)
          files += 1
          total += added.bytes
        }
      }
    }
  }
  await sums.flush()
  return { files, bytes: total, sha256: all.digest('hex') }
}

async function addContent(
  entries: Entries,
  name: string,
  size: number,
  content: Iterable<Buffer> | AsyncIterable<Buffer>,
): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash('sha256')
  await entries.add(name, size, hashed(content, hash))
  return { bytes: size, sha256: hash.digest('hex') }
}

/** Returns undefined if the file is gone: its retention ended, or it was never restored. */
async function addFile(
  entries: Entries,
  path: string,
  name: string,
  length: number,
): Promise<{ bytes: number; sha256: string } | undefined> {
  const file = await open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (!file) return undefined
  try {
    const size = Math.min((await file.stat()).size, length)
    const end = size - 1
    const content = size === 0 ? [] : file.createReadStream({ start: 0, end, autoClose: false })
    return await addContent(entries, name, size, content)
  } finally {
    await file.close()
  }
}

async function* hashed(
  content: Iterable<Buffer> | AsyncIterable<Buffer>,
  hash: Hash,
): AsyncGenerator<Buffer> {
  for await (const chunk of content) {
    hash.update(chunk)
    yield chunk
  }
}
