// Copies a static root for the proxy. Caddy follows links, so it never gets a folder that an environment can write: a
// child with the environment's rights reads (static-reading.ts), and root writes its bytes as regular files to a folder
// of root's. Invariants: nothing outside the target is written, even if the child misbehaves; the copy is complete and
// durable when this returns, or the caller must delete the target.
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { STATIC } from '../limits/files.ts'
import { runProgram, SYSTEM_PATH } from '../machine/process/programs.ts'
import { decodeHeader, isStaticPath, type StaticHeader } from './static-frames.ts'
import type { ReadRequest } from './static-reading.ts'

interface CopyRequest extends ReadRequest {
  /** Does not exist yet; its parent does. */
  target: string
  signal: AbortSignal
  /** Node's arguments that start this agent; by default those of this process. */
  program?: readonly string[]
}

interface CopyResult {
  files: number
  bytes: number
  /** Links, devices, hidden and unreadable files. */
  skipped: number
}

/** What is wrong with the folder itself, as a sentence without its subject. */
export class StaticRefused extends Error {
  override readonly name = 'StaticRefused'
}

/** Writes the child's bytes as they arrive. */
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

/** Rejects with StaticRefused for problems that the repository can fix, or with the signal's reason. */
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
  ended.catch(() => undefined) // awaited below
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
