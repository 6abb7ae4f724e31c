// Writes the output of one attempt to the spool: masks, splits into lines, folds, each source separately. Everything
// that reaches the disk or an event message passes the masker here. Invariant: what `write` took is in the segment file
// after the next `tick` (except unfinished lines and the beginning of a secret value), and a step leaves nothing
// buffered at its end. Has no timers (the runner calls `tick` every LOGS.tickMs) and no processes.
import { LOGS } from '@berth/shared'
import { LogSource, NO_STEP } from '@berth/shared/wire'
import { Masker, type MaskStream } from '../machine/masking/mask.ts'
import type { MaskedValue } from '../machine/masking/secret-patterns.ts'
import type { SpoolEnd } from '../spool/tail.ts'
import type { SpoolWriter } from '../spool/writer.ts'
import { LineSplitter } from './line-splitter.ts'

interface Channel {
  mask: MaskStream
  splitter: LineSplitter
}

interface OutputParts {
  spool: SpoolWriter
  /** Milliseconds of a monotonic clock. */
  now: () => number
  /** Microseconds since the epoch. */
  nowUs: () => number
}

export class Output {
  readonly #spool: SpoolWriter
  readonly #now: () => number
  readonly #nowUs: () => number
  readonly #channels = new Map<LogSource, Channel>()
  #values: readonly MaskedValue[] = []
  #masker = new Masker([])
  #step = NO_STEP
  /** When the current bytes were read. */
  #timeUs = 0
  #syncedAt: number
  #syncedBytes = 0
  #bytes = 0
  #isSyncing = false
  #syncError: unknown

  constructor({ spool, now, nowUs }: OutputParts) {
    this.#spool = spool
    this.#now = now
    this.#nowUs = nowUs
    this.#syncedAt = now()
  }

  /** Number of the newest record. */
  get lastSeq(): number {
    return this.#spool.lastSeq
  }

  /** Masks these values from here on; called before the first step runs. */
  setValues(values: readonly MaskedValue[]): void {
    this.endStep()
    this.#channels.clear()
    this.#values = values
    this.#masker = new Masker(values)
    if (this.#masker.leftOut > 0) {
      const forms = this.#masker.leftOut
      this.say(`Very long values: ${forms} of their encoded forms are not masked in this log.`)
    }
  }

  /** Masks these values too from here on. */
  addValues(values: readonly MaskedValue[]): void {
    if (values.length > 0) this.setValues([...this.#values, ...values])
  }

  /** From here on records belong to this step of the plan. */
  setStep(index: number): void {
    this.#step = index
  }

  /** Takes output of a process; the caller may reuse the chunk afterwards. */
  write(source: LogSource, chunk: Buffer): void {
    this.#timeUs = this.#nowUs()
    const channel = this.#channelOf(source)
    channel.splitter.push(channel.mask.push(chunk), this.#now())
  }

  /** Writes lines of Berth itself. */
  say(text: string): void {
    this.#timeUs = this.#nowUs()
    const lines = this.maskText(text).trimEnd()
    const { splitter } = this.#channelOf(LogSource.SYSTEM)
    splitter.push(Buffer.from(`${lines}\n`), this.#now())
  }

  /** Masks the message of an event. */
  maskText(text: string): string {
    return this.#masker.maskText(text)
  }

  /** The step produces no more output: flushes unfinished lines and held beginnings of values. */
  endStep(): void {
    this.#timeUs = this.#nowUs()
    for (const { mask, splitter } of this.#channels.values()) {
      splitter.push(mask.end(), this.#now())
      splitter.end()
    }
  }

  /**
   * Periodic work: emits unfinished lines after a silence, writes the block to the file and syncs the file to the disk.
   */
  tick(): void {
    if (this.#syncError !== undefined) throw this.#syncError
    const now = this.#now()
    this.#timeUs = this.#nowUs()
    for (const { splitter } of this.#channels.values()) splitter.tick(now)
    this.#spool.flush()
    if (now - this.#syncedAt >= LOGS.spoolSyncMs) this.#startSync(now)
  }

  /** Writes everything to the disk; no output may follow. */
  finish(): SpoolEnd {
    this.endStep()
    return this.#spool.finish()
  }

  #channelOf(source: LogSource): Channel {
    const known = this.#channels.get(source)
    if (known !== undefined) return known
    const splitter = new LineSplitter(
      source === LogSource.PTY,
      (data, start, end, replacesPrevious) => {
        this.#bytes += end - start
        this.#spool.append(this.#timeUs, source, this.#step, data, start, end, replacesPrevious)
      },
    )
    const channel = { mask: this.#masker.source(), splitter }
    this.#channels.set(source, channel)
    return channel
  }

  /** Runs off the main thread, one at a time, so that a slow disk does not block the process that writes. */
  #startSync(now: number): void {
    this.#syncedAt = now
    if (this.#isSyncing || this.#syncedBytes === this.#bytes) return
    this.#syncedBytes = this.#bytes
    this.#isSyncing = true
    this.#spool
      .sync()
      .catch((error: unknown) => {
        this.#syncError = error
      })
      .finally(() => {
        this.#isSyncing = false
      })
  }
}
