// The copy of a static root, which the proxy serves: Caddy follows links, so it never gets a folder that an environment can
// write. A child with the environment's rights reads (static-reading.ts); here, as root, its bytes become regular files in
// a folder of root's. Invariants: nothing outside the target is written, whatever the child says; a copy is whole and on
// the disk when this returns, or the target is to be thrown away.
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { STATIC } from '@berth/shared'
import { runProgram, SYSTEM_PATH } from '../machine/process/programs.ts'
import { decodeHeader, isStaticPath, type StaticHeader } from './static-frames.ts'
import type { ReadRequest } from './static-reading.ts'

export interface CopyRequest extends ReadRequest {
  /** Does not exist yet; the folder above it does. */
  target: string
  signal: AbortSignal
  /** Arguments of Node that start this agent; the ones of this process unless told. */
  program?: readonly string[]
}

export interface CopyResult {
  files: number
  bytes: number
  /** Links, devices, hidden and unreadable files. */
  skipped: number
}

/** What is wrong with the folder itself: a sentence without its subject. */
export class StaticRefused extends Error {
  override readonly name = 'StaticRefused'
}

/** Takes the child's bytes as they come. */
class Writer {
  readonly #target: string
  #pending = Buffer.alloc(0)
  #file: { fd: number; left: number } | undefined
  readonly #folders = new Set<string>()
  readonly result: CopyResult = { files: 0, bytes: 0, skipped: 0 }
  isOver = false

  constructor(target: string) {
    this.#target = target
    this.#folder(target)
  }

  take(chunk: Buffer): void {
    let rest = this.#pending.length > 0 ? Buffer.concat([this.#pending, chunk]) : chunk
    while (rest.length > 0) {
      if (this.#file) {
        rest = this.#fill(this.#file, rest)
        continue
      }
      if (this.isOver) throw new Error('the reader went on after its end')
      const found = decodeHeader(rest)
      if (!found) break
      rest = rest.subarray(found.bytes)
      this.#note(found.header)
    }
    this.#pending = Buffer.from(rest)
  }

  close(): void {
    if (this.#file) closeSync(this.#file.fd)
    this.#file = undefined
  }

  #fill(file: { fd: number; left: number }, bytes: Buffer): Buffer {
    const count = Math.min(file.left, bytes.length)
    for (let at = 0; at < count; ) at += writeSync(file.fd, bytes, at, count - at)
    file.left -= count
    if (file.left === 0) this.close()
    return bytes.subarray(count)
  }

  #note(header: StaticHeader): void {
    if (header.kind === 'fail') throw new StaticRefused(String(header.message).slice(0, 200))
    if (header.kind === 'end') {
      this.isOver = true
      this.result.skipped = Number(header.skipped)
      return
    }
    const { path, size } = header
    const isSize = Number.isSafeInteger(size) && size >= 0
    if (header.kind !== 'file' || !isStaticPath(path) || !isSize) {
      throw new Error('the reader said something unknown')
    }
    this.result.files += 1
    this.result.bytes += size
    if (this.result.files > STATIC.files || this.result.bytes > STATIC.bytes) {
      throw new Error('the reader sent more than it may')
    }
    const file = join(this.#target, path)
    this.#folder(dirname(file))
    const fd = openSync(file, 'wx', 0o644)
    this.#file = { fd, left: size }
    if (size === 0) this.close()
  }

  #folder(folder: string): void {
    if (this.#folders.has(folder)) return
    this.#folders.add(folder)
    mkdirSync(folder, { recursive: true, mode: 0o755 })
  }
}

const ownProgram = (): string[] => [...process.execArgv, process.argv[1] as string]

function startReader(copy: CopyRequest): ChildProcess {
  const { account, base, root, signal, program = ownProgram() } = copy
  const request = JSON.stringify({ account, base, root } satisfies ReadRequest)
  return spawn(process.execPath, [...program, 'read-static', request], {
    cwd: '/',
    env: { PATH: SYSTEM_PATH, LANG: 'C.UTF-8' },
    stdio: ['ignore', 'pipe', 'pipe'],
    signal: AbortSignal.any([signal, AbortSignal.timeout(STATIC.copyMs)]),
    killSignal: 'SIGKILL',
  })
}

/** Rejects with StaticRefused for what its repository can change, and with the signal's own reason. */
export async function copyStaticRoot(request: CopyRequest): Promise<CopyResult> {
  const writer = new Writer(request.target)
  const child = startReader(request)
  const ended = new Promise<string>((resolve, reject) => {
    let said = ''
    child.stderr?.setEncoding('utf8')
    child.stderr?.on('data', (text: string) => {
      if (said.length < 4_096) said += text
    })
    child.once('error', reject)
    child.once('close', (code, signal) => {
      const why = said.trim().split('\n').at(-1) ?? ''
      resolve(code === 0 ? '' : why || `it ended with ${signal ?? code}`)
    })
  })
  ended.catch(() => undefined) // read below
  try {
    for await (const chunk of child.stdout ?? []) writer.take(chunk as Buffer)
    const trouble = await ended
    if (trouble || !writer.isOver) throw new Error(trouble || 'the reader ended too early')
  } finally {
    writer.close()
    child.kill('SIGKILL')
  }
  const synced = await runProgram(['sync', '-f', request.target], { timeoutMs: STATIC.copyMs })
  if (synced.code !== 0) throw new Error(`the copy is not on the disk: ${synced.stderr.trim()}`)
  return writer.result
}
