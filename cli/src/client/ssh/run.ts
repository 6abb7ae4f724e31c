// The system's ssh as a child process: its input, its termination, and the meaning of its exit. The forced command says
// why it refused in one sentence on stderr (`berth: …`) and by its exit code; ssh's own 255 means that there was no
// connection, or that it broke.
import { type ChildProcess, spawn } from 'node:child_process'
import { Readable, type Writable } from 'node:stream'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT } from '../../terminal/exit.ts'
import type { Io } from '../../terminal/io.ts'
import { cleanText } from '../../terminal/text.ts'
import { ApiFailure } from '../problem.ts'
import type { SshEndpoint } from './ssh.ts'

export interface SshEnd {
  /** null: ended by a signal. */
  code: number | null
  /** The end of what was written to stderr. */
  stderr: string
}

export interface SshSession {
  /** Empty if ssh writes to a descriptor. */
  stdout: Readable
  /** What the server reads. */
  input: Writable
  /** Sends to the server; only the answer shows whether it was read. */
  send(text: string): void
  ended: Promise<SshEnd>
  /** Closes the server's input, which ends its side; ssh itself is ended shortly afterwards at the latest. */
  close(): Promise<SshEnd>
}

/** ssh lost its connection, or never had one. */
export const NO_CONNECTION = 255

/** Exit code of the forced command when it refuses. */
export const SSH_REFUSED = 77
export const SSH_NOT_AVAILABLE = 44
export const SSH_NO_AGENT = 69

/** No session was possible from here; another way may lead to the same data. */
class Unreachable extends CliError {}

function missingSsh(error: Error): CliError {
  const { code } = error as NodeJS.ErrnoException
  if (code !== 'ENOENT') return new Unreachable(EXIT.error, `ssh cannot be started (${code})`)
  return new Unreachable(EXIT.error, 'ssh is not installed here', 'install the OpenSSH client')
}

/** Why there is no way to the server by SSH; undefined: another failure. */
export function whyUnreachable(error: unknown): string | undefined {
  const isOff = error instanceof ApiFailure && error.code === 'ssh_unavailable'
  return error instanceof Unreachable || isOff ? (error as Error).message : undefined
}

/** Resolves with the end, once both outputs are read. */
function endOf(child: ChildProcess, stderr: () => string): Promise<SshEnd> {
  return new Promise((resolve, reject) => {
    child.once('error', (error) => reject(missingSsh(error)))
    child.once('close', (code) => resolve({ code, stderr: stderr() }))
  })
}

export interface SessionOptions {
  /** Receives stderr as it arrives. */
  onError?: (chunk: string) => void
  /** A descriptor for the output; otherwise the client reads it. */
  into?: number | undefined
}

/** Reads to the end. `resume` does nothing on a stream whose reader began and stopped. */
function drain(stream: Readable): void {
  const take = (): void => {
    while (stream.read() !== null);
  }
  stream.on('readable', take)
  take()
}

/**
 * Without a terminal. In its own process group, because Ctrl-C must reach the client, which ends the session in order.
 */
export function openSession(
  io: Io,
  argv: readonly string[],
  { onError = () => {}, into }: SessionOptions = {},
): SshSession {
  const child = spawn('ssh', argv, {
    stdio: ['pipe', into ?? 'pipe', 'pipe'],
    env: io.env,
    detached: io.platform !== 'win32',
  })
  const release = io.atExit(() => child.kill())
  let text = ''
  const ended = endOf(child, () => text).finally(release)
  ended.catch(() => {}) // reported to the caller that awaits it
  const { stdin, stderr } = child
  const stdout = child.stdout ?? Readable.from([])
  if (!stdin || !stderr) throw new CliError(EXIT.error, 'ssh cannot be started')
  stderr.setEncoding('utf8').on('data', (chunk: string) => {
    text = (text + chunk).slice(-CLIENT.sshErrorBytes)
    onError(chunk)
  })
  stdin.on('error', () => {}) // the session's end gives the reason
  return {
    stdout,
    input: stdin,
    send: (text) => void stdin.write(text),
    ended,
    async close() {
      stdin.end()
      const timer = setTimeout(() => child.kill(), CLIENT.sshEndMs)
      drain(stdout)
      try {
        return await ended
      } finally {
        clearTimeout(timer)
      }
    },
  }
}

/** Uses the client's own streams: for a shell, or a command whose output belongs to the caller. */
export async function runAttached(io: Io, argv: readonly string[]): Promise<number | null> {
  const child = spawn('ssh', argv, { stdio: 'inherit', env: io.env })
  const release = io.atExit(() => child.kill())
  const stop = () => void child.kill()
  io.interrupted.addEventListener('abort', stop, { once: true })
  try {
    return (await endOf(child, () => '')).code
  } finally {
    io.interrupted.removeEventListener('abort', stop)
    release()
  }
}

type LostReason = 'unreachable' | 'foreign' | 'denied' | 'lost'

const UNREACHABLE: readonly (readonly [RegExp, string])[] = [
  [/timed out/i, 'timeout'],
  [/refused/i, 'connection refused'],
  [/no route to host/i, 'no route to the host'],
  [/network is unreachable/i, 'the network cannot be reached'],
  [/could not resolve/i, 'the host name is not known'],
]

/** Why ssh ended with 255. */
export function whyLost(stderr: string): { reason: LostReason; text: string } {
  if (/host key verification failed|host certificate|certificate invalid/i.test(stderr)) {
    return { reason: 'foreign', text: 'its host certificate is not the one of this server' }
  }
  if (/permission denied/i.test(stderr)) {
    return { reason: 'denied', text: 'it does not accept the certificate' }
  }
  const known = UNREACHABLE.find(([pattern]) => pattern.test(stderr))
  if (known) return { reason: 'unreachable', text: known[1] }
  const last = stderr.trim().split('\n').at(-1) ?? ''
  return { reason: 'lost', text: cleanText(last.trim()) || 'the connection was closed' }
}

/** The forced command's own sentence. */
function sentenceOf(stderr: string): string | undefined {
  const line = stderr.split('\n').findLast((one) => one.startsWith('berth:'))
  return line === undefined ? undefined : cleanText(line.slice('berth:'.length)).trim()
}

/** An unsuccessful end, as this client's own error. */
export function explainEnd({ code, stderr }: SshEnd, { reply, place }: SshEndpoint): CliError {
  const { name } = place.server
  const said = sentenceOf(stderr)
  switch (code) {
    case SSH_REFUSED: {
      const isOld = said?.startsWith('Unknown request')
      const hint = isOld ? `its agent is too old: berth server upgrade ${name}` : undefined
      return new CliError(EXIT.refused, said ?? `${name} refused this session`, hint)
    }
    case SSH_NOT_AVAILABLE:
      return new CliError(EXIT.error, said ?? `${name} does not have this`)
    case SSH_NO_AGENT:
      return new CliError(
        EXIT.error,
        said ?? `the agent of ${name} is not running`,
        `berth server show ${name} tells since when`,
      )
    case NO_CONNECTION: {
      const { reason, text } = whyLost(stderr)
      const port = `${name}:${reply.port}`
      if (reason === 'unreachable') {
        return new Unreachable(EXIT.error, `${port} is not reachable from here (${text})`)
      }
      if (reason === 'lost') return new Unreachable(EXIT.error, `${port}: ${text}`)
      return new CliError(
        EXIT.error,
        `${port} was not entered: ${text}`,
        reason === 'foreign'
          ? `does ${reply.host} lead to ${name}? berth server show ${name}`
          : `its agent may not have the newest keys yet: berth server show ${name}`,
      )
    }
    default:
      return new CliError(EXIT.error, said ?? `ssh ended with ${code ?? 'a signal'}`)
  }
}
