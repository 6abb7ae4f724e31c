// The daemon's side of sessions: reads the forced command's request on the socket, decides it, adds a row for the
// session and starts the process that does the work. That process outlives the daemon; a new daemon finds it by its
// row. Invariants: no process without a row; a row ends only when its process is gone; a revoked session ends within
// seconds (first the work, then sshd's process of the connection).
import { randomBytes } from 'node:crypto'
import { chmodSync, chownSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { SshPublicKey } from '@berth/shared/ssh'
import type { Clock } from '../../clock.ts'
import type { Journal } from '../../journal/journal.ts'
import type { ProcessKey, SshSessionRow } from '../../journal/ssh-sessions.ts'
import { SSH_SESSIONS } from '../../limits/ssh.ts'
import { describeError, type Log } from '../../log.ts'
import {
  findFamily,
  isSameProcess,
  readOwner,
  readProcess,
} from '../../machine/process/processes.ts'
import { signalProcess } from '../../machine/process/signals.ts'
import { findAccount } from '../../machine/users/users.ts'
import type { AgentSettings } from '../../settings.ts'
import { describeVerb, NOT_RUNNING, Refusal, sessionEnd } from '../commands/commands.ts'
import { relayAccount, sshPaths } from '../paths.ts'
import { SessionBook, type SessionResult } from './book.ts'
import { type Decision, decideSession, readHello } from './decide.ts'
import { type Ending, encodeFrame, FRAME, type Hello, openFrames } from './frames.ts'
import { isShort, type ShortSession, serveShort } from './inline-session.ts'
import { type Job, SESSION_MARKER, startWork } from './session-start.ts'

interface SessionServerOptions {
  settings: AgentSettings
  program: readonly string[]
  serverId: number
  journal: Journal
  clock: Clock
  log: Log
  bootId: string
}

interface SessionServerTrust {
  authorities: readonly SshPublicKey[]
  revoked: ReadonlySet<string>
}

export class SshSessionServer {
  readonly #o: SessionServerOptions
  readonly #book: SessionBook
  readonly #results: string
  #trust: SessionServerTrust = { authorities: [], revoked: new Set() }
  #probe: SshPublicKey | undefined
  #server: Server | undefined
  #timer: NodeJS.Timeout | undefined
  #gid = 0
  readonly #uids = new Map<string, number>()
  /** Inline sessions, which have no process of their own, by session. */
  readonly #short = new Map<string, ShortSession>()

  constructor(options: SessionServerOptions) {
    this.#o = options
    this.#book = new SessionBook(options.journal, options.clock)
    this.#results = sshPaths(options.settings).sessions
    this.#settle() // sessions that ended while no daemon ran
  }

  async open(gid: number): Promise<void> {
    this.close() // from an earlier attempt
    this.#uids.clear()
    this.#gid = gid
    const { settings } = this.#o
    const { sessions, socket } = sshPaths(settings)
    mkdirSync(sessions, { recursive: true, mode: 0o710 })
    chownSync(sessions, 0, gid)
    chmodSync(sessions, 0o710)
    rmSync(socket, { force: true })
    const server = createServer((connection) => void this.#serve(connection))
    server.maxConnections = SSH_SESSIONS.perServer * 2
    this.#server = server
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(socket, () => resolve())
    })
    chownSync(socket, 0, gid)
    chmodSync(socket, 0o660)
    this.#timer = setInterval(() => this.#settle(), SSH_SESSIONS.pollMs)
    this.#timer.unref()
  }

  close(): void {
    clearInterval(this.#timer)
    this.#server?.close()
    this.#server = undefined
  }

  get sessions(): SshSessionRow[] {
    return this.#book.list()
  }

  /** Sets whom to trust and whom to refuse from now on. Ends sessions that are refused now. */
  async trust(trust: SessionServerTrust): Promise<void> {
    this.#trust = trust
    const ending = this.#book.list().filter(({ serial }) => trust.revoked.has(serial))
    await Promise.all(ending.map((row) => this.end(row, 'revoked')))
  }

  async endAll(reason: string): Promise<void> {
    await Promise.all(this.#book.list().map((row) => this.end(row, reason)))
  }

  /** For the agent's own login: while `use` runs, this authority may request `probe` and nothing else. */
  async probing<T>(authority: SshPublicKey, use: () => Promise<T>): Promise<T> {
    this.#probe = authority
    try {
      return await use()
    } finally {
      this.#probe = undefined
    }
  }

  async #serve(connection: Socket): Promise<void> {
    connection.on('error', () => connection.destroy())
    connection.setTimeout(SSH_SESSIONS.answerMs, () => connection.destroy())
    const answer = (kind: number, said: object): void => {
      connection.end(encodeFrame(kind, JSON.stringify(said)))
    }
    try {
      const { first, listen } = readFirst(connection)
      const hello = readHello(await first)
      const decision = decideSession(hello, this.#facts())
      if (decision.kind === 'probe') return answer(FRAME.exit, { code: 0 } satisfies Ending)
      const { settings } = this.#o
      const { grant, verb } = decision
      const hasSpace = hello.staying && this.#short.size < SSH_SESSIONS.shortAtOnce
      if (hasSpace && isShort(settings, grant.environment, verb)) {
        const row = await this.#enter(hello, decision)
        if (this.#trust.revoked.has(row.serial)) {
          this.#book.end(row.id, { reason: 'revoked', bytesSent: 0, exitCode: null })
          throw new Refusal('This certificate was revoked.')
        }
        connection.setTimeout(0)
        connection.write(encodeFrame(FRAME.hello, JSON.stringify({ here: true })))
        return await this.#serveHere(connection, listen, row, verb)
      }
      answer(FRAME.hello, await this.#admit(hello, decision))
    } catch (error) {
      if (error instanceof Refusal) {
        const { code, message } = error
        return answer(FRAME.exit, { code, message } satisfies Ending)
      }
      this.#o.log.warn(describeError(error), 'an SSH session could not be started')
      const message = 'The session could not be started; the agent’s log says why.'
      answer(FRAME.exit, { code: NOT_RUNNING, message } satisfies Ending)
    }
  }

  #facts() {
    const { settings, serverId, clock } = this.#o
    return {
      ...this.#trust,
      probe: this.#probe,
      serverId,
      sessions: this.#book.list(),
      allowsServerShell: allowsServerShell(settings),
      nowSeconds: Math.floor(clock.now() / 1_000),
    }
  }

  async #enter(
    hello: Hello,
    { grant, verb, certificate, account }: Extract<Decision, { kind: 'session' }>,
  ): Promise<SshSessionRow> {
    const { settings, clock, bootId, log } = this.#o
    const relay = findRelay(hello.pid, await this.#uidOf(relayAccount(settings, account)))
    const now = clock.now()
    const row = {
      id: randomBytes(8).toString('hex'),
      bootId,
      serial: String(certificate.serial),
      keyId: certificate.keyId,
      userId: grant.user,
      environmentId: grant.environment,
      verb: describeVerb(verb),
      account,
      relay,
      work: null,
      startedAt: now,
      until: sessionEnd(grant, verb, Math.floor(now / 1_000)),
      ending: '',
      endedAt: null,
      endReason: '',
      bytesSent: 0,
      exitCode: null,
    }
    this.#book.enter(row)
    log.info({ session: row.id, keyId: row.keyId, verb: row.verb }, 'SSH session started')
    return row
  }

  /** Cached: the agent makes the accounts, and opens the session server again afterwards. */
  async #uidOf(name: string): Promise<number | undefined> {
    const uid = this.#uids.get(name) ?? (await findAccount(name))?.uid
    if (uid !== undefined) this.#uids.set(name, uid)
    return uid
  }

  async #serveHere(
    connection: Socket,
    listen: ReturnType<typeof openFrames>['listen'],
    { id, environmentId, until }: SshSessionRow,
    verb: Parameters<typeof serveShort>[2]['verb'],
  ): Promise<void> {
    const { settings, log, journal } = this.#o
    const options = {
      settings,
      environmentId: environmentId ?? 0,
      verb,
      untilMs: until * 1_000,
      log,
    }
    const session = serveShort(connection, listen, options)
    this.#short.set(id, session)
    try {
      const result = await session.done
      if (journal.isOpen) this.#book.end(id, result)
    } finally {
      this.#short.delete(id)
      log.info({ session: id }, 'SSH session ended')
    }
  }

  async #admit(hello: Hello, decision: Extract<Decision, { kind: 'session' }>) {
    const { grant, verb } = decision
    const { id, until } = await this.#enter(hello, decision)
    const job: Job = {
      id,
      word: randomBytes(24).toString('base64url'),
      socket: join(this.#results, `${id}.sock`),
      result: join(this.#results, `${id}.json`),
      gid: this.#gid,
      verb,
      environmentId: grant.environment,
      untilMs: until * 1_000,
      passing: hello.passing === true,
      terminal: hello.terminal,
    }
    try {
      const work = await startWork(this.#o, job, () => this.#settle())
      this.#book.change(id, { work })
      // may have been revoked while it started
      const row = this.#book.list().find((one) => one.id === id)
      if (row && this.#trust.revoked.has(row.serial)) {
        await this.end(row, 'revoked')
        throw new Refusal('This certificate was revoked.')
      }
    } catch (error) {
      this.#book.end(id, { reason: 'not_started', bytesSent: 0, exitCode: null })
      throw error
    }
    return { socket: job.socket, word: job.word }
  }

  /** Ends the rows of processes that are gone. */
  #settle(): void {
    if (!this.#o.journal.isOpen) return
    for (const row of this.#book.list()) {
      const isOfThisBoot = row.bootId === this.#o.bootId
      const isStarting =
        row.work === null && (this.#server !== undefined || this.#short.has(row.id))
      if (isOfThisBoot && (isStarting || isAlive(row.work))) continue
      this.#book.end(row.id, readResult(join(this.#results, `${row.id}.json`)))
      for (const suffix of ['sock', 'json']) {
        rmSync(join(this.#results, `${row.id}.${suffix}`), { force: true })
      }
      this.#o.log.info({ session: row.id, reason: row.ending }, 'SSH session ended')
    }
  }

  /** First the work, then sshd's process of the connection: SIGTERM, a short wait, SIGKILL. */
  async end(row: SshSessionRow, reason: string): Promise<void> {
    if (row.bootId !== this.#o.bootId) return
    this.#book.change(row.id, { ending: reason })
    const short = this.#short.get(row.id)
    short?.end('ended', { code: 77, message: 'Your access was ended.' })
    await short?.done
    if (row.work && !(await signalAndWait(row.work, 'SIGTERM'))) {
      const family = findFamily(row.work.pid, `${SESSION_MARKER}=${row.id}`)
      for (const { pid } of family) signalProcess(pid, 'SIGKILL')
      await signalAndWait(row.work, 'SIGKILL')
    }
    if (row.relay && isAlive(row.relay) && !(await signalAndWait(row.relay, 'SIGTERM'))) {
      await signalAndWait(row.relay, 'SIGKILL')
    }
    this.#settle()
  }
}

const isAlive = (key: ProcessKey | null): boolean =>
  key !== null && isSameProcess(key.pid, key.startTicks)

/** True when the process is gone. */
async function signalAndWait(key: ProcessKey, signal: NodeJS.Signals): Promise<boolean> {
  const deadline = performance.now() + SSH_SESSIONS.killMs
  if (isAlive(key)) signalProcess(key.pid, signal)
  while (isAlive(key)) {
    if (performance.now() > deadline) return false
    await delay(20)
  }
  return true
}

/** sshd's process above the forced command, possibly with a shell in between; all run under the relay account. */
function findRelay(pid: number, uid: number | undefined): ProcessKey {
  let at = readProcess(pid)
  for (let steps = 0; at && uid !== undefined && steps < 3; steps += 1) {
    if (readOwner(at.pid) !== uid) break
    at = readProcess(at.parent)
    if (at?.name.startsWith('sshd') && readOwner(at.pid) === uid)
      return { pid: at.pid, startTicks: at.startTicks }
  }
  throw new Refusal('The request does not come from a login by SSH.')
}

function readResult(file: string): SessionResult {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as SessionResult
  } catch {
    return { reason: 'lost', bytesSent: 0, exitCode: null }
  }
}

/** Reads a line that can only be written on the server itself. */
function allowsServerShell(settings: AgentSettings): boolean {
  try {
    const rules = JSON.parse(readFileSync(sshPaths(settings).localRules, 'utf8'))
    return (rules as { allow_server_shell?: unknown }).allow_server_shell === true
  } catch {
    return false
  }
}

function readFirst(connection: Socket): {
  first: Promise<Buffer>
  listen: ReturnType<typeof openFrames>['listen']
} {
  const incomplete = Promise.withResolvers<never>()
  const fail = (): void => incomplete.reject(new Refusal('The request is not complete.'))
  incomplete.promise.catch(() => undefined)
  connection.once('close', fail)
  const { first, listen } = openFrames(connection, () => {
    fail()
    connection.destroy()
  })
  const hello = first.then(({ kind, payload }) => {
    if (kind !== FRAME.hello) throw new Refusal('The request is not complete.')
    return payload
  })
  return { first: Promise.race([hello, incomplete.promise]), listen }
}
