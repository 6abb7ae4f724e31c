// Sends the attempts' logs up the log stream: from the position the control plane names, within the byte budgets, and
// only what is synced to this disk. Reads ahead at most one chunk per attempt. Deletes a spool segment and saves a
// cursor only for acknowledged records.
import { existsSync, type FSWatcher, watch } from 'node:fs'
import { DAEMON, LOGS, SESSION } from '@berth/shared'
import { AttemptState, encodeChunk, encodeLogOpen, type LogDown } from '@berth/shared/wire'
import { durationMs } from '@bufbuild/protobuf/wkt'
import { readReport } from '../../attempts/records.ts'
import type { Spools } from '../../attempts/spools.ts'
import type { Clock } from '../../clock.ts'
import type { AttemptRow } from '../../journal/attempt-table.ts'
import type { Journal } from '../../journal/journal.ts'
import { describeError, type Log } from '../../log.ts'
import type { SpoolReader } from '../../spool/reader.ts'
import {
  chooseFlow,
  type Flow,
  isWatched,
  type LogPolicy,
  openFlow,
  recordAck,
  recordSent,
  resumeFlow,
} from './window.ts'

interface LogSenderOptions {
  journal: Journal
  spools: Spools
  clock: Clock
  log: Log
  policy: LogPolicy
  sessionId: string
  /** False: the stream is full, call again after `resume`. */
  write: (bytes: Buffer) => boolean
  fail: (message: string) => void
}

interface Line {
  flow: Flow
  fence: bigint
  reader: SpoolReader
  /** Size of the spool when the last small chunk was taken; the growth since then shows when a chunk is full. */
  drainedAt: number
  /** Counts how often the control plane moved the position; chunks in flight before a move are void. */
  moves: number
  /** Set once the attempt has ended; no record follows this one. */
  finalSeq: number | undefined
  /** Notices new bytes immediately while a user watches the log. */
  watcher: FSWatcher | undefined
  savedSeq: number
}

/** Chunks written before other work gets its turn. */
const BURST = 8

export class LogSender {
  readonly #o: LogSenderOptions
  readonly #lines = new Map<string, Line>()
  readonly #poll: NodeJS.Timeout
  /** Intervals that the control plane asked for, for all ('') or for an attempt that may have no log yet. */
  readonly #paces = new Map<string, number>()
  #timer: NodeJS.Timeout | undefined
  #turn: NodeJS.Immediate | undefined
  #idle: (() => void)[] = []
  #resumed = false
  #blocked = false
  #pumping = false
  #closed = false
  #sweptAt = 0

  constructor(options: LogSenderOptions) {
    this.#o = options
    this.#refresh()
    const cursors = [...this.#lines].map(([attemptId, { reader }]) => ({
      attemptId,
      firstSeq: reader.firstSeq,
      lastSeq: reader.lastSeq,
    }))
    options.write(encodeLogOpen(options.sessionId, cursors))
    this.#poll = setInterval(() => this.#tick(), DAEMON.pollMs)
  }

  receive(message: LogDown): void {
    const { msg } = message
    switch (msg.case) {
      case 'resume':
        for (const { attemptId, ackedSeq } of msg.value.from)
          this.#resume(attemptId, Number(ackedSeq))
        this.#resumed = true
        break
      case 'ack':
        this.#change(msg.value.attemptId, (flow) => recordAck(flow, Number(msg.value.ackedSeq)))
        break
      case 'pace':
        this.#pace(msg.value.attemptId, msg.value.flushInterval)
        break
      case 'stop':
        this.#o.log.info({ attemptId: msg.value.attemptId }, 'the control plane stopped this log')
        this.#change(msg.value.attemptId, (flow) => ({
          ...flow,
          stopped: true,
          flying: [],
          flyingBytes: 0,
        }))
        break
    }
    this.notice()
  }

  /** Output may have been written. */
  notice(): void {
    this.#turn ??= setImmediate(() => {
      this.#turn = undefined
      this.#pump().catch((error: unknown) => this.#broken(error))
    })
  }

  /** An attempt began, ended or was forgotten. */
  attemptChanged(): void {
    this.#run(() => this.#refresh())
    this.notice()
  }

  /** The stream takes bytes again. */
  resume(): void {
    this.#blocked = false
    this.notice()
  }

  /** Resolves when everything in the spools was sent and acknowledged. */
  drained(): Promise<void> {
    return new Promise((resolve) => {
      this.#idle.push(resolve)
      for (const line of this.#lines.values()) line.flow = { ...line.flow, waiting: 'chunk' }
      this.notice()
    })
  }

  /** Without `save` it behaves as if the process had died. */
  close(save = true): void {
    clearInterval(this.#poll)
    clearTimeout(this.#timer)
    clearImmediate(this.#turn)
    if (save) this.#run(() => this.#sweep())
    this.#closed = true
    for (const line of this.#lines.values()) line.watcher?.close()
    this.#lines.clear()
  }

  #run(act: () => void): void {
    try {
      act()
    } catch (error) {
      this.#broken(error)
    }
  }

  #broken(error: unknown): void {
    if (this.#closed) return
    this.#o.log.error(describeError(error), 'a log could not be sent')
    this.#o.fail(`a log could not be sent: ${(error as Error).message}`)
  }

  #tick(): void {
    this.#run(() => {
      this.#refresh()
      this.#suspect()
      if (this.#o.clock.mono() - this.#sweptAt >= DAEMON.sweepMs) this.#sweep()
    })
    this.notice()
  }

  /** Creates a line for each attempt with a log; the journal lists the attempts. */
  #refresh(): void {
    const { journal, spools } = this.#o
    const rows = new Map(journal.attempts.list().map((row) => [row.id, row]))
    for (const [id, line] of this.#lines) {
      if (rows.has(id)) continue
      this.#paces.delete(id)
      line.watcher?.close()
      this.#lines.delete(id)
    }
    for (const row of rows.values()) {
      if (row.state < AttemptState.STARTING) continue
      const ended = row.state >= AttemptState.SUCCEEDED
      const line = this.#lines.get(row.id)
      if (line) {
        if (ended && line.finalSeq === undefined) this.#end(line, row)
        continue
      }
      const reader = spools.find(row.id)
      if (!reader) continue
      const acked = Number(journal.attempts.logCursor(row.id))
      const flow = openFlow(row.id, acked, this.#paceOf(row.id))
      const { fence } = row
      const none = { drainedAt: 0, moves: 0, finalSeq: undefined }
      const opened: Line = { ...none, flow, fence, reader, watcher: undefined, savedSeq: acked }
      reader.seek(acked)
      this.#lines.set(row.id, opened)
      if (ended) this.#end(opened, row)
      this.#watch(opened)
    }
  }

  /** The attempt is over: records that its spool lacks before the last one will never come. */
  #end(line: Line, row: AttemptRow): void {
    line.finalSeq = Number(readReport(row).finalLogSeq)
    line.reader.end(line.finalSeq)
  }

  #resume(attemptId: string, from: number): void {
    const line = this.#lines.get(attemptId)
    if (!line) return
    line.flow = { ...resumeFlow(line.flow, from), waiting: 'something' }
    this.#move(line)
  }

  #change(attemptId: string, change: (flow: Flow) => Flow): void {
    const line = this.#lines.get(attemptId)
    if (!line) return
    const before = line.flow.sent
    line.flow = change(line.flow)
    if (line.flow.sent === before) return
    line.flow = { ...line.flow, waiting: 'something' }
    this.#move(line)
  }

  #move(line: Line): void {
    line.moves++
    line.reader.seek(line.flow.sent)
  }

  #pace(attemptId: string, interval: Parameters<typeof durationMs>[0] | undefined): void {
    const ms = interval ? durationMs(interval) : LOGS.idleFlushMs
    if (!attemptId) this.#paces.clear()
    if (this.#paces.size > SESSION.helloAttempts) return
    this.#paces.set(attemptId, Math.min(Math.max(ms, DAEMON.intervalMinMs), LOGS.idleFlushMs))
    for (const line of this.#lines.values()) {
      line.flow = { ...line.flow, flushMs: this.#paceOf(line.flow.attemptId) }
      this.#watch(line)
    }
  }

  #paceOf(attemptId: string): number {
    return this.#paces.get(attemptId) ?? this.#paces.get('') ?? LOGS.idleFlushMs
  }

  /** Watches the folder of a watched log that may still grow; other logs are not worth the wake-ups. */
  #watch(line: Line): void {
    const wanted = isWatched(line.flow) && line.finalSeq === undefined
    if (!wanted) {
      line.watcher?.close()
      line.watcher = undefined
      return
    }
    const folder = this.#o.spools.folder(line.flow.attemptId)
    if (line.watcher || !existsSync(folder)) return
    try {
      const watcher = watch(folder, { persistent: false }, () => {
        if (line.flow.waiting === 'nothing') line.flow = { ...line.flow, waiting: 'something' }
        this.notice()
      })
      watcher.on('error', () => watcher.close())
      line.watcher = watcher
    } catch {
      // no inotify watch available: polling finds it, only later
    }
  }

  /** Takes some chunks, makes sure that they are on the disk, then writes them. One round at a time. */
  async #pump(): Promise<void> {
    if (!this.#resumed || this.#blocked || this.#pumping) return
    this.#pumping = true
    try {
      for (;;) {
        const batch = this.#takeBatch()
        if (batch.length === 0) break
        await this.#sync(batch.map(({ line }) => line))
        if (this.#closed) return
        for (const { line, bytes, moves } of batch) {
          if (line.moves === moves && !this.#o.write(bytes)) this.#blocked = true
        }
        if (this.#blocked) break
      }
    } finally {
      this.#pumping = false
    }
    this.#reportIdle()
  }

  /** What was read is on the disk afterwards; failures on the log of a forgotten attempt are ignored. */
  async #sync(lines: Line[]): Promise<void> {
    const unique = [...new Set(lines)]
    const results = await Promise.allSettled(unique.map((line) => line.reader.syncRead()))
    for (const [i, result] of results.entries()) {
      const line = unique[i]
      if (result.status !== 'rejected' || !line) continue
      if (this.#lines.get(line.flow.attemptId) === line) throw result.reason
      line.moves++
    }
  }

  #takeBatch(): { line: Line; bytes: Buffer; moves: number }[] {
    const { clock, policy } = this.#o
    const batch = []
    while (batch.length < BURST) {
      const now = clock.mono()
      const flows = [...this.#lines.values()].map((line) => line.flow)
      const choice = chooseFlow(flows, policy, now)
      if ('waitUntil' in choice) {
        if (batch.length === 0) this.#sleepUntil(choice.waitUntil)
        break
      }
      const line = this.#lines.get(choice.send.attemptId)
      const bytes = line && this.#take(line, now)
      if (bytes) batch.push({ line, bytes, moves: line.moves })
    }
    return batch
  }

  /** The next chunk of one log, already counted as in flight; undefined when nothing waits after all. */
  #take(line: Line, now: number): Buffer | undefined {
    const { chunkBytes } = this.#o.policy
    const read = line.reader.read(chunkBytes)
    const isFull = read?.isFull ?? false
    const waiting = isFull ? 'chunk' : 'nothing'
    if (!isFull) line.drainedAt = line.finalSeq === undefined ? line.reader.bytes : 0
    if (!read) {
      line.flow = { ...line.flow, waiting }
      return undefined
    }
    const { firstSeq, lastSeq, records, crc32c } = read
    const bytes = encodeChunk(line.flow.attemptId, line.fence, firstSeq, records, crc32c)
    line.flow = { ...recordSent(line.flow, lastSeq, bytes.length, now), waiting }
    return bytes
  }

  /** Marks every log that has not been sent to its end as possibly waiting. */
  #suspect(): void {
    const { chunkBytes } = this.#o.policy
    for (const line of this.#lines.values()) {
      const { flow, finalSeq, reader } = line
      if (flow.stopped || flow.waiting === 'chunk') continue
      const isOver = finalSeq !== undefined && flow.sent >= finalSeq
      // the end of a log does not wait for more records
      const much =
        !isOver &&
        (finalSeq !== undefined ||
          (flow.waiting === 'something' && reader.bytes - line.drainedAt >= chunkBytes))
      line.flow = { ...flow, waiting: isOver ? 'nothing' : much ? 'chunk' : 'something' }
    }
  }

  #sleepUntil(at: number): void {
    clearTimeout(this.#timer)
    if (at === Number.POSITIVE_INFINITY) return
    const wait = Math.max(1, Math.ceil(at - this.#o.clock.mono()))
    this.#timer = setTimeout(() => this.notice(), wait)
  }

  #reportIdle(): void {
    const busy = [...this.#lines.values()].some(
      ({ flow }) => !flow.stopped && (flow.waiting !== 'nothing' || flow.flying.length > 0),
    )
    if (!busy) for (const resolve of this.#idle.splice(0)) resolve()
  }

  /** Deletes acknowledged segments and saves the cursors. */
  #sweep(): void {
    this.#sweptAt = this.#o.clock.mono()
    const { journal } = this.#o
    const moved = [...this.#lines.values()].filter((line) => line.flow.acked > line.savedSeq)
    if (moved.length === 0) return
    journal.transact(() => {
      for (const { flow } of moved)
        journal.attempts.saveLogCursor(flow.attemptId, BigInt(flow.acked))
    })
    for (const line of moved) {
      line.savedSeq = line.flow.acked
      line.reader.dropThrough(line.flow.acked)
    }
  }
}
