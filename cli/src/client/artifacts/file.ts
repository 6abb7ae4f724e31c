// One downloaded file on this machine. Its name comes from a server, so it is refused when it leads outside the chosen
// folder; no link below that folder is followed. The file is written beside its target and renamed when length and
// SHA-256 match, so no reader sees an empty or short file. Another process may write it (`follow`); its bytes are then
// read back.
import { createHash, type Hash } from 'node:crypto'
import {
  closeSync,
  fdatasync,
  fsync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  readSync,
  renameSync,
  writeSync,
} from 'node:fs'
import { sep } from 'node:path'
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises'
import type { Artifact } from '@berth/shared/api'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'
import { forgetPart, makePart, removePart, sweepParts } from './parts.ts'

const failed = (message: string, hint?: string): CliError => new CliError(EXIT.error, message, hint)

/** Names that some operating system treats as a device or interprets otherwise. */
const DEVICE = /^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?$/i

function isFit(name: string): boolean {
  if (name === '' || name === '.' || name === '..') return false
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  if (/[\u0000-\u001f\u007f-\u009f\\:]|[. ]$/.test(name)) return false
  return !DEVICE.test(name)
}

/** The elements of a name below the folder; refuses any other name. */
export function splitName(path: string): string[] {
  const names = path.split('/')
  if (path !== '' && path.length <= 4_096 && names.every(isFit)) return names
  throw failed(`the name ${JSON.stringify(cleanText(path))} is not one for a file here`)
}

export interface TargetOptions {
  force: boolean
  /** Folders already checked for earlier files. */
  entered?: Set<string>
}

/** Every folder on the path exists or is created, and is a real folder; links are refused. */
function enter(dir: string, folders: readonly string[], entered: Set<string>): string {
  const last = [dir, ...folders].join(sep)
  if (entered.has(last)) return last
  mkdirSync(dir, { recursive: true })
  let at = dir
  for (const name of folders) {
    at += sep + name
    const found = lstatSync(at, { throwIfNoEntry: false })
    if (!found) mkdirSync(at)
    else if (!found.isDirectory()) throw failed(`${at} is not a folder`)
  }
  entered.add(last)
  sweepParts(last, Date.now())
  return last
}

interface Target {
  folder: string
  path: string
}

/** `dir` is absolute. */
export function chooseTarget(dir: string, artifact: Artifact, o: TargetOptions): Target {
  const names = splitName(artifact.path)
  const folder = enter(dir, names.slice(0, -1), o.entered ?? new Set())
  const path = folder + sep + names.at(-1)
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (found?.isDirectory()) throw failed(`${path} is a folder`)
  if (found && !o.force) throw failed(`${path} exists already`, 'add --force to replace it')
  return { folder, path }
}

/** An incoming file; ends with `finish` or `drop`. */
export class PartialFile {
  readonly #target: Target
  readonly #artifact: Artifact
  readonly #temporary: string
  readonly #fd: number
  #isShared = false
  #hash: Hash | undefined
  /** Digest of a file that came in one piece; faster than an incremental hash. */
  #digest: string | undefined
  #isOpen = true
  #isVerified = false
  /** Bytes whose flush has at least begun, so that a large file is not flushed only at its end. */
  #flushed = 0
  #flushing: Promise<void> | undefined
  bytes = 0

  constructor(target: Target, artifact: Artifact, part = makePart(target.folder)) {
    this.#target = target
    this.#artifact = artifact
    this.#temporary = part.path
    this.#fd = part.fd
  }

  /** A descriptor for another process that appends until it exits. */
  share(): number {
    this.#isShared = true
    return this.#fd
  }

  /** Drops bytes that another process wrote and `follow` did not read. */
  trim(): void {
    if (this.#isShared) ftruncateSync(this.#fd, this.bytes)
    this.#isShared = false
  }

  write(chunk: Uint8Array): void {
    this.#requireWithinSize(chunk)
    for (let at = 0; at < chunk.length; ) at += writeSync(this.#fd, chunk, at, chunk.length - at)
    this.#take(chunk)
  }

  /**
   * Reads what another process appends, until `written` settles. If that process does not end although everything
   * arrived, this returns; the caller ends the process, and `trim` drops what it wrote since.
   */
  async follow(written: Promise<void>): Promise<void> {
    let isOver = false
    const over = written.then(
      () => undefined,
      (error: unknown) => ({ error }),
    )
    void over.then(() => {
      isOver = true
    })
    const buffer = Buffer.allocUnsafeSlow(CLIENT.followBytes)
    for (;;) {
      const isLast = isOver
      const chunk = buffer.subarray(0, readSync(this.#fd, buffer, 0, buffer.length, this.bytes))
      this.#requireWithinSize(chunk)
      this.#take(chunk)
      const isWhole = this.bytes === this.#artifact.size_bytes
      if (chunk.length === buffer.length) await turn()
      else if (isWhole && !isLast) {
        await Promise.race([over, delay(CLIENT.sshEndMs, undefined, { ref: false })])
        if (!isOver) return
      } else if (!isLast) await Promise.race([over, delay(CLIENT.followMs)])
      else if (chunk.length === 0) break
    }
    if (this.bytes < this.#artifact.size_bytes) this.#tryDisk()
    const failure = await over
    if (failure) throw failure.error
  }

  /** Throws when the disk is full, which the other process may not have reported. */
  #tryDisk(): void {
    writeSync(this.#fd, Buffer.alloc(CLIENT.followBytes))
    ftruncateSync(this.#fd, this.bytes)
  }

  #requireWithinSize(chunk: Uint8Array): void {
    if (this.bytes + chunk.length <= this.#artifact.size_bytes) return
    throw failed(`${this.#artifact.path}: more came than the file has`)
  }

  #take(chunk: Uint8Array): void {
    this.#isVerified = false
    const isWhole = this.bytes === 0 && chunk.length === this.#artifact.size_bytes
    if (isWhole) this.#digest = createHash('sha256').update(chunk).digest('hex')
    else this.#hash = (this.#hash ?? createHash('sha256')).update(chunk)
    this.bytes += chunk.length
    if (this.bytes - this.#flushed >= CLIENT.flushBytes && !this.#flushing) this.#flush()
  }

  #flush(): void {
    this.#flushed = this.bytes
    this.#flushing = new Promise((resolve) => {
      // a failure here recurs at the end and is reported there
      fdatasync(this.#fd, () => {
        this.#flushing = undefined
        resolve()
      })
    })
  }

  /** The sender starts over. */
  restart(): void {
    ftruncateSync(this.#fd, 0)
    this.#hash = undefined
    this.#digest = undefined
    this.bytes = 0
    this.#flushed = 0
  }

  /** Throws unless the file is complete and matches the record. No write may follow. */
  verify(): void {
    const { path, size_bytes: size, sha256 } = this.#artifact
    if (this.bytes !== size) throw failed(`${path}: ${this.bytes} of ${size} bytes came`)
    const digest = this.#digest ?? (this.#hash ?? createHash('sha256')).digest('hex')
    if (digest !== sha256) {
      throw failed(`${path}: what came is not the file that was collected (its SHA-256 differs)`)
    }
    this.#isVerified = true
  }

  /** Moves a verified file to its target, synced to disk. */
  async finish(): Promise<string> {
    try {
      if (!this.#isVerified) throw new Error('it was not verified')
      await this.#flushing
      await new Promise<void>((resolve, reject) => {
        fsync(this.#fd, (error) => (error ? reject(error) : resolve()))
      })
      this.#close()
      renameSync(this.#temporary, this.#target.path)
      forgetPart(this.#temporary)
      return this.#target.path
    } catch (error) {
      await this.drop()
      throw error
    }
  }

  /** Removes the partial file. */
  async drop(): Promise<void> {
    await this.#flushing
    this.#close()
    removePart(this.#temporary)
  }

  #close(): void {
    if (this.#isOpen) closeSync(this.#fd)
    this.#isOpen = false
  }
}
