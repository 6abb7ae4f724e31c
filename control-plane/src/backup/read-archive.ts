// Reads a backup as a stream and gives its parts to a receiver. It checks everything on the way, so reading once with a
// receiver that does nothing says whether a backup is whole.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { type Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { extract } from 'tar-stream'
import { BACKUPS } from '../limits/installation.ts'
import { decodeRow, type Row, RowHash } from '../store/transfer/rows.ts'
import type { Table } from '../store/transfer/tables.ts'
import { AGE_MAGIC, decrypt, type Unlock } from './encryption.ts'
import { BackupError, damaged } from './faults.ts'
import {
  HEAD_FILE,
  type Head,
  MANIFEST_FILE,
  type Manifest,
  parseHead,
  parseManifest,
} from './manifest.ts'

export interface Receiver {
  head?(head: Head): Promise<void>
  rows?(table: Table, rows: Row[]): Promise<void>
  /** Must read the content to its end. */
  log?(name: string, content: AsyncIterable<Buffer>): Promise<void>
}

type Entry = Readable & { header: { name: string; size?: number } }

const LOG_NAME = /^logs\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.(?:log|idx))$/
const PART_NAME = /^tables\/([a-z0-9_]+)\/\d{8}$/
const SUMS_NAME = /^sums\/\d{8}$/
const GZIP_MAGIC = Buffer.from([0x1f, 0x8b])

async function openContent(file: string, unlock: Unlock): Promise<Readable> {
  const handle = await open(file, 'r')
  const start = Buffer.alloc(AGE_MAGIC.length)
  try {
    await handle.read(start, 0, start.length, 0)
  } finally {
    await handle.close()
  }
  if (start.equals(Buffer.from(AGE_MAGIC))) return decrypt(createReadStream(file), unlock)
  if (start.subarray(0, 2).equals(GZIP_MAGIC)) return createReadStream(file)
  throw new BackupError(`${file} is not a backup of Berth, or its beginning is damaged.`)
}

export interface ReadBackup {
  head: Head
  manifest: Manifest
  /** Of all rows as text. */
  rowBytes: number
}

/** Throws a BackupError for a backup that is damaged, cut off, locked for others or too new. */
export async function readArchive(
  file: string,
  unlock: Unlock,
  receiver: Receiver = {},
): Promise<ReadBackup> {
  const content = await openContent(file, unlock)
  const tar = extract()
  const reading = pipeline(content, createGunzip(), tar)
  reading.catch(() => {})
  const state = new Reading(receiver)
  try {
    for await (const entry of tar) await state.take(entry as unknown as Entry)
    await reading
  } catch (error) {
    content.destroy()
    // the cause is the stream's, unless the receiver or a check failed first
    const cause = await reading.then(
      () => undefined,
      (failed: unknown) => failed,
    )
    const isRefused = error instanceof ReceiverError || error instanceof BackupError
    if (!isRefused) throw damaged(CHANGED, cause ?? error)
    // a changed byte may turn the head of a fitting backup into one of a newer version, and only the end tells
    if (state.isAtHead && !(await isReadable(file, unlock))) throw damaged(CHANGED, error)
    throw error instanceof ReceiverError ? error.cause : error
  }
  return state.finish()
}

const CHANGED = 'a part of it is changed or missing'

/** Whether its content can be unpacked to the end, where its checksum is. */
async function isReadable(file: string, unlock: Unlock): Promise<boolean> {
  const ignore = new Writable({ write: (_chunk, _encoding, done) => done() })
  try {
    await pipeline(await openContent(file, unlock), createGunzip(), ignore)
    return true
  } catch {
    return false
  }
}

/** The receiver's own failure says nothing of the backup. */
class ReceiverError extends Error {}

async function receive(work: Promise<void> | undefined): Promise<void> {
  try {
    await work
  } catch (cause) {
    throw new ReceiverError('the receiver failed', { cause })
  }
}

class Reading {
  readonly #receiver: Receiver
  readonly #sums = new Map<string, RowHash>()
  readonly #logs = createHash('sha256')
  #files = 0
  #logBytes = 0
  #rowBytes = 0
  #head: Head | undefined
  #manifest: Manifest | undefined
  isAtHead = false

  constructor(receiver: Receiver) {
    this.#receiver = receiver
  }

  async take(entry: Entry): Promise<void> {
    const { name } = entry.header
    if (this.#manifest) throw damaged('something follows its end')
    if (!this.#head) {
      if (name !== HEAD_FILE) throw damaged('it does not begin with its head')
      const text = await readText(entry)
      this.isAtHead = true
      this.#head = parseHead(text)
      await receive(this.#receiver.head?.(this.#head))
      this.isAtHead = false
      return
    }
    const table = PART_NAME.exec(name)?.[1]
    const log = LOG_NAME.exec(name)?.[1]
    if (name === MANIFEST_FILE) this.#manifest = parseManifest(await readText(entry))
    else if (table !== undefined) await this.#takeRows(this.#head, table, await readText(entry))
    else if (log !== undefined) await this.#takeLog(log, entry)
    else if (SUMS_NAME.test(name))
      entry.resume() // for people; the manifest has the hash of all of them
    else throw damaged('it holds a file of an unknown kind')
  }

  async #takeRows(head: Head, name: string, text: string): Promise<void> {
    const table = head.tables.find((one) => one.name === name)
    if (!table || !text.endsWith('\n')) throw damaged(`rows of ${name} are incomplete`)
    const hash = this.#sums.get(name) ?? new RowHash()
    this.#sums.set(name, hash)
    this.#rowBytes += text.length
    let rows: Row[] = []
    for (const line of text.slice(0, -1).split('\n')) {
      hash.add(`${line}\n`)
      rows.push(decodeRow(line, table.columns.length))
      if (rows.length < BACKUPS.rows) continue
      await receive(this.#receiver.rows?.(table, rows))
      rows = []
    }
    if (rows.length > 0) await receive(this.#receiver.rows?.(table, rows))
  }

  async #takeLog(name: string, entry: Entry): Promise<void> {
    const hash = createHash('sha256')
    const count = (bytes: number): void => {
      this.#logBytes += bytes
    }
    async function* content(): AsyncGenerator<Buffer> {
      for await (const chunk of entry as AsyncIterable<Buffer>) {
        hash.update(chunk)
        count(chunk.length)
        yield chunk
      }
    }
    if (this.#receiver.log) await receive(this.#receiver.log(name, content()))
    else for await (const _ of content()); // for its hash
    this.#logs.update(`${hash.digest('hex')}  logs/${name}\n`)
    this.#files += 1
  }

  finish(): ReadBackup {
    const [head, manifest] = [this.#head, this.#manifest]
    if (!head || !manifest) throw damaged('its end is missing')
    for (const { name } of head.tables) {
      const sum = (this.#sums.get(name) ?? new RowHash()).sum()
      const wanted = manifest.tables[name]
      if (sum.rows === wanted?.rows && sum.sha256 === wanted.sha256) continue
      throw damaged(`the table ${name} differs from its manifest`)
    }
    const { files, bytes, sha256 } = manifest.logs
    if (this.#files !== files || this.#logBytes !== bytes || this.#logs.digest('hex') !== sha256) {
      throw damaged('logs differ from its manifest')
    }
    return { head, manifest, rowBytes: this.#rowBytes }
  }
}

async function readText(entry: Entry): Promise<string> {
  // a part is cut after the row that fills it, and a row may be larger than a part
  if ((entry.header.size ?? 0) > BACKUPS.fileBytes) throw damaged('a file of it is too large')
  const chunks: Buffer[] = []
  for await (const chunk of entry as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}
