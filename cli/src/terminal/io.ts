// The outside world of a command: streams, environment, clock, interruption. Commands get it as an argument, so that
// tests can replace it. Nothing else in the client reads `process`.
import { spawn } from 'node:child_process'
import { setTimeout as wait } from 'node:timers/promises'
import { isatty } from 'node:tty'
import { CliError, EXIT, interrupted, usage } from './exit.ts'

export interface Sink {
  readonly isTTY: boolean
  readonly columns: number
  readonly rows: number
  /** The reader closed the pipe (`| head`); further writes are discarded. */
  readonly closed: boolean
  write(data: string | Uint8Array): Promise<void>
}

export interface Io {
  stdout: Sink
  stderr: Sink
  stdin: {
    readonly isTTY: boolean
    /** Reads to the end. */
    read(maxBytes: number): Promise<string>
    /** One line, without its ending; null: end of input. For terminals. */
    readLine(maxBytes: number): Promise<string | null>
    /** The same without echo. */
    readSecret(maxBytes: number): Promise<string | null>
  }
  env: Readonly<Record<string, string | undefined>>
  cwd: string
  platform: NodeJS.Platform
  /** Starts a program and ignores its outcome, even if it does not exist. */
  launch(words: readonly string[]): void
  /** Runs `clean` when the client ends in any way it can notice; the returned function unregisters it. */
  atExit(clean: () => void): () => void
  now(): number
  /** Ends early, with an error, when the user presses Ctrl-C. */
  sleep(ms: number): Promise<void>
  interrupted: AbortSignal
}

export async function sleepUnlessInterrupted(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await wait(ms, undefined, { signal })
  } catch {
    throw interrupted()
  }
}

function openSink(stream: NodeJS.WriteStream, name: string): Sink {
  let closed = false
  stream.on('error', () => {
    closed = true // the callback of write() reports it to the writer
  })
  return {
    isTTY: stream.isTTY === true,
    get columns() {
      return stream.columns || 80
    },
    get rows() {
      return stream.rows || 24
    },
    get closed() {
      return closed
    },
    write(data) {
      if (closed) return Promise.resolve()
      return new Promise((resolve, reject) => {
        stream.write(data, (error) => {
          const code = (error as NodeJS.ErrnoException | null | undefined)?.code
          if (!error) return resolve()
          closed = true
          if (code === 'EPIPE' || code === 'EIO') return resolve()
          reject(new CliError(EXIT.error, `cannot write to ${name} (${code})`, undefined, error))
        })
      })
    },
  }
}

async function readStdin(maxBytes: number, signal: AbortSignal): Promise<string> {
  const stop = () => process.stdin.destroy()
  signal.addEventListener('abort', stop, { once: true })
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (bytes > maxBytes) throw usage(`the input is larger than ${maxBytes} bytes`)
      chunks.push(chunk)
    }
  } catch (error) {
    throw signal.aborted ? interrupted() : error
  } finally {
    signal.removeEventListener('abort', stop)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** Leaves stdin open, because another question may follow. */
function readStdinLine(maxBytes: number, signal: AbortSignal): Promise<string | null> {
  const { stdin } = process
  let text = ''
  return new Promise((resolve, reject) => {
    const settle = (act: () => void) => {
      stdin.off('data', take).off('end', end).off('error', end).pause()
      signal.removeEventListener('abort', stop)
      act()
    }
    const stop = () => settle(() => reject(interrupted()))
    const end = () => settle(() => resolve(text === '' ? null : text))
    const take = (chunk: Buffer) => {
      text += chunk.toString('utf8')
      const at = text.indexOf('\n')
      if (at >= 0) return settle(() => resolve(text.slice(0, at).replace(/\r$/, '')))
      if (text.length > maxBytes) {
        settle(() => reject(usage(`the input is larger than ${maxBytes} bytes`)))
      }
    }
    if (signal.aborted) return stop()
    signal.addEventListener('abort', stop, { once: true })
    stdin.on('data', take).on('end', end).on('error', end).resume()
  })
}

/** No echo: the terminal sends every key and shows none. */
function readStdinSecret(maxBytes: number, signal: AbortSignal): Promise<string | null> {
  const { stdin } = process
  let text = ''
  return new Promise((resolve, reject) => {
    const settle = (act: () => void) => {
      stdin.off('data', take).off('end', end).off('error', end).pause()
      if (stdin.isTTY) stdin.setRawMode(false)
      signal.removeEventListener('abort', stop)
      process.stderr.write('\n')
      act()
    }
    const stop = () => settle(() => reject(interrupted()))
    const end = () => settle(() => resolve(text === '' ? null : text))
    const take = (chunk: Buffer) => {
      for (const char of chunk.toString('utf8')) {
        if (char === '\u0003') return stop()
        if (char === '\u0004' && text === '') return end()
        if (char === '\r' || char === '\n') return settle(() => resolve(text))
        if (char === '\u007f' || char === '\b') text = [...text].slice(0, -1).join('')
        else if (char === '\u0015') text = ''
        else text += char
      }
      if (text.length > maxBytes) {
        settle(() => reject(usage(`the input is larger than ${maxBytes} bytes`)))
      }
    }
    if (signal.aborted) return reject(interrupted())
    signal.addEventListener('abort', stop, { once: true })
    if (stdin.isTTY) stdin.setRawMode(true)
    stdin.on('data', take).on('end', end).on('error', end).resume()
  })
}

/** Cleans up whether the client exits normally or by a signal. */
function cleanAtExit(): Io['atExit'] {
  const wishes = new Set<() => void>()
  process.on('exit', () => {
    for (const clean of wishes) clean()
  })
  for (const [signal, number] of [['SIGTERM', 15] as const, ['SIGHUP', 1] as const]) {
    process.on(signal, () => process.exit(128 + number))
  }
  return (clean) => {
    wishes.add(clean)
    return () => wishes.delete(clean)
  }
}

function launch([program = '', ...args]: readonly string[]): void {
  const child = spawn(program, args, { stdio: 'ignore', detached: true })
  child.on('error', () => {})
  child.unref()
}

export function processIo(): Io {
  const interrupt = new AbortController()
  process.on('SIGINT', () => {
    // the second one exits immediately
    if (interrupt.signal.aborted) process.exit(EXIT.interrupted)
    interrupt.abort()
  })
  return {
    stdout: openSink(process.stdout, 'stdout'),
    stderr: openSink(process.stderr, 'stderr'),
    stdin: {
      isTTY: isatty(0),
      read: (maxBytes) => readStdin(maxBytes, interrupt.signal),
      readLine: (maxBytes) => readStdinLine(maxBytes, interrupt.signal),
      readSecret: (maxBytes) => readStdinSecret(maxBytes, interrupt.signal),
    },
    env: process.env,
    cwd: process.cwd(),
    platform: process.platform,
    launch,
    atExit: cleanAtExit(),
    now: Date.now,
    sleep: (ms) => sleepUnlessInterrupted(ms, interrupt.signal),
    interrupted: interrupt.signal,
  }
}
