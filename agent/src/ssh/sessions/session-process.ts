// One session, in a process of its own that outlives the daemon: waits for its forced command and performs the verb. It
// ends at the end of input, when its reader is gone, when idle, at its time limit, or on SIGTERM from the daemon.
// Invariant: everything it started ends with this process; its result file says why it ended.
import { chmodSync, chownSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { SSH_SESSIONS } from '../../limits/ssh.ts'
import { replaceFile } from '../../machine/atomic-files.ts'
import type { AgentSettings } from '../../settings.ts'
import { inputEnded, NOT_AVAILABLE, Refusal } from '../commands/commands.ts'
import { startVerb } from '../commands/perform.ts'
import type { Work } from '../commands/work.ts'
import type { SessionResult } from './book.ts'
import { readSize } from './decide.ts'
import { createFrameReader, type Ending, encodeFrame, FRAME, type Frame } from './frames.ts'
import { type Output, outputTo } from './output.ts'
import { type Job, READY } from './session-start.ts'
import { canPass, passOut } from './splice.ts'

/** Why a session ends; the first reason counts. */
interface End {
  reason: string
  ending: Ending
}

const ended = (reason: string, message: string): End => ({
  reason,
  ending: { code: NOT_AVAILABLE, message },
})

/** The forced command's connection; all others are rejected. */
function awaitRelay(
  job: Job,
): Promise<{ socket: Socket; listen: (on: (f: Frame) => void) => void }> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => {
      server.close()
      reject(new Error('nobody came'))
    }, SSH_SESSIONS.connectMs)
    const server = createServer((socket) => {
      const early: Frame[] = []
      let on: ((frame: Frame) => void) | undefined
      const read = createFrameReader((frame) => (on ? on(frame) : early.push(frame)))
      const greet = (): void => {
        const first = early.shift()
        if (!first) return
        const word = first.kind === FRAME.hello ? JSON.parse(first.payload.toString()).word : ''
        if (word !== job.word) return void socket.destroy()
        clearTimeout(late)
        server.close()
        resolve({
          socket,
          listen(next) {
            on = next
            for (const frame of early.splice(0)) next(frame)
          },
        })
      }
      let isGreeted = false
      socket.on('error', () => socket.destroy())
      socket.on('data', (chunk: Buffer) => {
        try {
          read(chunk)
          if (isGreeted || early.length === 0) return
          isGreeted = true
          greet()
        } catch {
          socket.destroy()
        }
      })
    })
    rmSync(job.socket, { force: true })
    server.listen(job.socket, () => {
      if (process.getuid?.() === 0) chownSync(job.socket, 0, job.gid)
      chmodSync(job.socket, 0o660)
      writeSync(1, READY)
    })
    server.once('error', reject)
  })
}

/** Ended when nothing happens: a user may have left them. */
const IDLE: ReadonlySet<string> = new Set(['shell', 'server', 'forward', 'copy'])

class Session {
  readonly #job: Job
  readonly #socket: Socket
  readonly #ended = Promise.withResolvers<End>()
  #bytes = 0
  #timers: NodeJS.Timeout[] = []
  #touched = performance.now()
  readonly #stop = new AbortController()
  /** Set while waiting for `go` from the other side. */
  #go: (() => void) | undefined
  /** Inside unframed bytes; after a break there, no frame can be sent. */
  #isInside = false

  constructor(job: Job, socket: Socket) {
    this.#job = job
    this.#socket = socket
    const until = Math.max(0, job.untilMs - Date.now())
    const over = ended('until', 'The time granted for this session is over. Connect again.')
    this.#timers.push(setTimeout(() => this.end(over), until))
    socket.on('close', () => this.end(ended('disconnected', 'The connection is gone.')))
    process.once('SIGTERM', () =>
      this.end({ reason: 'ended', ending: { code: 77, message: 'Your access was ended.' } }),
    )
    process.on('SIGHUP', () => undefined)
    if (IDLE.has(job.verb.verb)) this.#watchIdle()
  }

  #watchIdle(): void {
    const look = (): void => {
      if (performance.now() - this.#touched < SSH_SESSIONS.idleMs) return
      this.end(ended('idle', 'Nothing happened for 30 minutes.'))
    }
    this.#timers.push(setInterval(look, SSH_SESSIONS.answerMs))
  }

  end(end: End): void {
    this.#ended.resolve(end)
  }

  async openOutput(): Promise<Output> {
    const output = outputTo(this.#socket, (bytes) => {
      this.#touched = performance.now()
      this.#bytes += bytes
    })
    const isFiles = this.#job.verb.verb === 'artifacts' || this.#job.verb.verb === 'artifact'
    if (!isFiles || !this.#job.passing || !(await canPass())) return output
    return { ...output, pass: (fd, part) => this.#pass(fd, part) }
  }

  async #pass(fd: number, part: { offset: number; length: number }): Promise<boolean> {
    const socket = this.#socket
    const { length } = part
    if (socket.destroyed) return false
    const ready = new Promise<void>((resolve) => {
      this.#go = resolve
      socket.once('close', resolve)
    })
    // flushed; from here on this process writes nothing until the copy is over
    await new Promise<void>((resolve) => {
      socket.write(encodeFrame(FRAME.raw, JSON.stringify({ length })), () => resolve())
    })
    this.#isInside = true
    await ready
    const isWhole =
      !socket.destroyed && (await passOut(fd, socket, part, this.#stop.signal).catch(() => false))
    if (!isWhole) {
      this.end(ended('disconnected', 'The connection is gone.')) // the first reason counts
      socket.destroy()
      return false
    }
    socket.resume() // Node does not read a stream further after it was given to a child
    this.#bytes += length
    this.#isInside = false
    return true
  }

  take(work: Work, { kind, payload }: Frame): void {
    this.#touched = performance.now()
    if (kind === FRAME.go) this.#go?.()
    else if (kind === FRAME.data) {
      if (work.input(Buffer.from(payload))) return
      this.#socket.pause()
      work.whenReady(() => this.#socket.resume())
    } else if (kind === FRAME.end) {
      if (work.endInput()) return
      this.end({ reason: 'input_ended', ending: inputEnded(this.#job.verb) })
    } else if (kind === FRAME.size) {
      const size = readSize(JSON.parse(payload.toString('utf8')))
      if (size) work.resize(size)
    }
  }

  async run(settings: AgentSettings, listen: (on: (frame: Frame) => void) => void): Promise<void> {
    let work: Work | undefined
    try {
      work = await startVerb(settings, this.#job, await this.openOutput())
      const started = work
      listen((frame) => this.take(started, frame))
      work.done.then(
        (ending) => this.end({ reason: 'done', ending }),
        (error: unknown) => this.end(failure(error)),
      )
    } catch (error) {
      this.end(failure(error))
    }
    const { reason, ending } = await this.#ended.promise
    for (const timer of this.#timers) clearTimeout(timer)
    this.#stop.abort()
    if (reason !== 'done') await work?.end()
    await this.#leave(reason, ending)
  }

  async #leave(reason: string, ending: Ending): Promise<void> {
    const exitCode = reason === 'done' ? ending.code : null
    const result: SessionResult = { reason, bytesSent: this.#bytes, exitCode }
    if (this.#isInside) this.#socket.destroy()
    const isHeard = !this.#socket.destroyed
    const sent = new Promise<void>((resolve) => {
      if (!isHeard) return resolve()
      this.#socket.end(encodeFrame(FRAME.exit, JSON.stringify(ending)), () => resolve())
      setTimeout(resolve, SSH_SESSIONS.killMs).unref()
    })
    replaceFile(this.#job.result, JSON.stringify(result)) // after the exit, because the daemon waits for this file
    await sent
  }
}

function failure(error: unknown): End {
  if (error instanceof Refusal) {
    const { code, message } = error
    return {
      reason: code === NOT_AVAILABLE ? 'not_available' : 'refused',
      ending: { code, message },
    }
  }
  process.stderr.write(`${(error as Error).stack}\n`)
  return { reason: 'failed', ending: { code: 70, message: 'It failed; the agent’s log says why.' } }
}

export async function runSshWork(settings: AgentSettings): Promise<number> {
  const job = JSON.parse(readFileSync(0, 'utf8')) as Job
  try {
    const { socket, listen } = await awaitRelay(job)
    await new Session(job, socket).run(settings, listen)
  } catch (error) {
    process.stderr.write(`${job.id}: ${(error as Error).message}\n`)
    const result: SessionResult = { reason: 'never_connected', bytesSent: 0, exitCode: null }
    replaceFile(job.result, JSON.stringify(result))
  }
  return 0
}
