// What sshd starts for our accounts, for any request of the client (ForceCommand). Runs as the relay account: reads the
// certificate that sshd has verified, verifies it again, parses the request into data, asks the agent and then only
// relays bytes. Invariants: $SSH_USER_AUTH has exactly one publickey line; no part of the request reaches a shell; this
// process, and with it the session, ends with the connection.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { connect, type OnReadOpts, type Socket } from 'node:net'
import { SSH_ACCOUNTS, type SshAccount } from '@berth/shared'
import { parsePublicKey, verifyCertificate } from '@berth/shared/ssh'
import { SSH_SESSIONS } from '../../limits/ssh.ts'
import { IDS_FOLLOW, NOT_RUNNING, parseVerb, Refusal } from '../commands/commands.ts'
import {
  type Admission,
  createFrameReader,
  type Elsewhere,
  type Ending,
  encodeFrame,
  FRAME,
  type Frame,
  type Hello,
  openFrames,
  type TerminalSize,
  writeFrames,
} from './frames.ts'
import { passIn } from './splice.ts'

const isAccount = (text: string | undefined): text is SshAccount =>
  SSH_ACCOUNTS.includes(text as SshAccount)

function readCertificateBlob(): Buffer {
  let text: string
  try {
    text = readFileSync(process.env.SSH_USER_AUTH ?? '', 'utf8')
  } catch {
    throw new Refusal('sshd did not say how you logged in.')
  }
  const lines = text.trim().split('\n')
  const [method, , blob = ''] = lines[0]?.split(' ') ?? []
  if (lines.length !== 1 || method !== 'publickey')
    throw new Refusal('You must log in by one certificate and nothing else.')
  return Buffer.from(blob, 'base64')
}

function verify(blob: Buffer, authoritiesFile: string): void {
  const lines = readFileSync(authoritiesFile, 'utf8').split('\n').filter(Boolean)
  const nowSeconds = Math.floor(Date.now() / 1_000)
  try {
    verifyCertificate(blob, lines.map(parsePublicKey), { kind: 'user', nowSeconds })
  } catch (error) {
    throw new Refusal(`Your certificate was refused: ${(error as Error).message}.`)
  }
}

function terminalSize(): TerminalSize | null {
  if (!process.stdin.isTTY || !process.stdout.isTTY) return null
  return { columns: process.stdout.columns || 80, rows: process.stdout.rows || 24 }
}

function open(path: string, onread?: OnReadOpts): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path, ...(onread ? { onread } : {}) })
    socket.once('connect', () => resolve(socket))
    socket.once('error', () =>
      reject(new Refusal('The Berth agent of this server is not running.', NOT_RUNNING)),
    )
  })
}

type Listen = (on: (frame: Frame) => void) => void

/** Asks the agent for admission; returns the connection of the session. */
async function admit(path: string, hello: Hello): Promise<{ socket: Socket; listen: Listen }> {
  const socket = await open(path)
  const late = AbortSignal.timeout(SSH_SESSIONS.answerMs)
  const lost = Promise.withResolvers<never>()
  const gone = (): void =>
    lost.reject(new Refusal('The Berth agent of this server did not answer.', NOT_RUNNING))
  late.addEventListener('abort', gone)
  socket.on('error', gone).on('close', gone)
  const { first, listen } = openFrames(socket, () => socket.destroy())
  socket.write(encodeFrame(FRAME.hello, JSON.stringify(hello)))
  const { kind, payload } = await Promise.race([first, lost.promise])
  lost.promise.catch(() => undefined)
  late.removeEventListener('abort', gone)
  const said = JSON.parse(payload.toString('utf8'))
  if (kind !== FRAME.hello) {
    const { code, message } = said as Ending
    throw new Refusal(message ?? '', code)
  }
  const admission = said as Admission
  if ('here' in admission) return { socket, listen }
  socket.destroy()
  return enter(admission)
}

/** Reads into one buffer, so that a pause is immediate: no byte is read while another program reads the socket. */
async function enter({
  socket: path,
  word,
}: Elsewhere): Promise<{ socket: Socket; listen: Listen }> {
  let on: ((frame: Frame) => void) | undefined
  const early: Frame[] = []
  const read = createFrameReader((frame) => {
    // the buffer is reused before the payload is written
    const own = { kind: frame.kind, payload: Buffer.from(frame.payload) }
    if (on) on(own)
    else early.push(own)
  })
  const buffer = Buffer.allocUnsafe(SSH_SESSIONS.frameBytes)
  const socket = await open(path, {
    buffer,
    callback: (count) => {
      read(buffer.subarray(0, count))
      return true
    },
  })
  socket.write(encodeFrame(FRAME.hello, JSON.stringify({ word })))
  const listen: Listen = (take) => {
    on = take
    for (const frame of early.splice(0)) take(frame)
  }
  return { socket, listen }
}

let isRaw = false

/** Passes every byte unchanged, both ways. Node's own raw mode would add a return before each line feed. */
function makeRaw(): void {
  isRaw = true
  const stdio: ['inherit', 'ignore', 'ignore'] = ['inherit', 'ignore', 'ignore']
  const done = spawnSync('/usr/bin/stty', ['raw', '-echo'], { stdio })
  if (done.status !== 0) process.stdin.setRawMode(true)
}

/** Sends the user's input; reads no faster than the session accepts it. */
function sendInput(socket: Socket): void {
  process.stdin.on('data', (chunk: Buffer) => {
    if (writeFrames(socket, FRAME.data, chunk)) return
    process.stdin.pause()
    socket.once('drain', () => process.stdin.resume())
  })
  process.stdin.on('end', () => socket.write(encodeFrame(FRAME.end, '')))
  process.stdin.on('error', () => socket.destroy())
  process.stdin.resume() // reading ids paused it
  if (!process.stdin.isTTY) return
  makeRaw()
  process.stdout.on('resize', () => {
    const size = terminalSize()
    if (size) socket.write(encodeFrame(FRAME.size, JSON.stringify(size)))
  })
}

function relay({ socket, listen }: { socket: Socket; listen: Listen }): Promise<Ending> {
  return new Promise((resolve) => {
    const lost = { code: NOT_RUNNING, message: 'The session was cut.' }
    // our parent was sshd's process of this connection; without it, our output has no reader
    setInterval(() => {
      if (process.ppid !== parent) process.exit(1)
    }, SSH_SESSIONS.pollMs)
    const parent = process.ppid
    const pass = (to: NodeJS.WriteStream, bytes: Buffer): void => {
      if (to.write(bytes)) return
      socket.pause()
      to.once('drain', () => {
        if (!isPassing) socket.resume()
      })
    }
    let isPassing = false
    /** Flushes earlier output, then lets only the copying program read until it is done. */
    const passOn = (length: number): void => {
      isPassing = true
      socket.pause()
      process.stdout.write('', () => {
        socket.write(encodeFrame(FRAME.go, ''), async () => {
          if (!(await passIn(socket, length))) return resolve(lost)
          isPassing = false
          socket.resume()
        })
      })
    }
    const take = ({ kind, payload }: Frame): void => {
      if (kind === FRAME.data) pass(process.stdout, payload)
      else if (kind === FRAME.errors) pass(process.stderr, payload)
      else if (kind === FRAME.raw) passOn(JSON.parse(payload.toString('utf8')).length)
      else if (kind === FRAME.exit) resolve(JSON.parse(payload.toString('utf8')) as Ending)
    }
    for (const to of [process.stdout, process.stderr]) {
      to.on('error', () => process.exit(1)) // EPIPE: the reader is gone
    }
    listen(take)
    socket.on('error', () => resolve(lost)).on('close', () => resolve(lost))
    sendInput(socket)
  })
}

/** Exits after all output was written. */
function leave({ code, message }: Ending): void {
  const lineEnd = isRaw ? '\r\n' : '\n' // in raw mode the terminal adds no return
  const text = message ? `berth: ${message}${lineEnd}` : ''
  process.stdout.write('', () => process.stderr.write(text, () => process.exit(code)))
}

/** Reads ids that the client sends after its request, on one line; it may connect before it knows them. */
async function readIds(): Promise<string> {
  const late = AbortSignal.timeout(SSH_SESSIONS.idsMs)
  let line = ''
  const incomplete = (): Refusal => new Refusal('The request is not complete.')
  await new Promise<void>((resolve, reject) => {
    const take = (chunk: Buffer): void => {
      line += chunk.toString('latin1')
      if (!line.includes('\n') && line.length <= SSH_SESSIONS.requestBytes) return
      process.stdin.off('data', take).off('end', gone).pause()
      resolve()
    }
    const gone = (): void => reject(incomplete())
    late.addEventListener('abort', gone)
    process.stdin.on('data', take).on('end', gone)
  })
  if (!line.endsWith('\n')) throw incomplete()
  return line.slice(0, -1)
}

async function main([account, socketPath, authorities]: string[]): Promise<Ending> {
  if (!isAccount(account) || !socketPath || !authorities)
    throw new Refusal('This command is started by sshd alone.')
  const blob = readCertificateBlob()
  verify(blob, authorities)
  const asked = process.env.SSH_ORIGINAL_COMMAND ?? ''
  const request = asked === IDS_FOLLOW ? `artifacts ${await readIds()}` : asked
  parseVerb(request)
  const session = await admit(socketPath, {
    certificate: blob.toString('base64'),
    request,
    account,
    pid: process.pid,
    terminal: terminalSize(),
    staying: true,
    passing: true,
  })
  return relay(session)
}

main(process.argv.slice(2)).then(leave, (error: unknown) =>
  leave(
    error instanceof Refusal
      ? { code: error.code, message: error.message }
      : { code: 70, message: `Something failed: ${(error as Error).message}` },
  ),
)
