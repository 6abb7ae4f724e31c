// Reads the records of one stored log as messages of a bounded size. A character may span two records, so each source
// is decoded as one stream; a reader that starts in the middle also reads the previous record to complete it.

import type { LogLine } from '@berth/shared/api'
import { LogSource } from '@berth/shared/wire'
import type { Context } from '../../context.ts'
import { LIVE } from '../../limits/browser.ts'
import type { AttemptStep } from '../../store/deployments/attempts.ts'
import type { StoredRecord } from '../../store/deployments/log-index.ts'
import type { LogView } from './logs.ts'

export interface LiveLine extends LogLine {
  /** Replaces the previous record of the same source, as progress bars do. */
  replaces?: true
}

const SOURCES = new Map<number, LogLine['s']>([
  [LogSource.STDOUT, 'out'],
  [LogSource.STDERR, 'err'],
  [LogSource.PTY, 'pty'],
  [LogSource.SYSTEM, 'system'],
  [LogSource.GAP, 'gap'],
])

export class LogReader {
  readonly attemptId: string
  readonly #ctx: Context
  readonly #decoders = new Map<number, InstanceType<typeof TextDecoder>>()
  #isPrimed = false

  constructor(ctx: Context, attemptId: string) {
    this.#ctx = ctx
    this.attemptId = attemptId
  }

  /** Reads from a record to the last acknowledged one; each message has the number of records up to its end. */
  async *read(
    { attempt, steps }: LogView,
    from: number,
  ): AsyncGenerator<{ lines: LiveLine[]; records: number }> {
    if (!attempt || from >= attempt.ackedLogSeq) return
    const byIndex = new Map(steps.map((step) => [step.stepIndex, step]))
    let records = this.#isPrimed ? from : Math.max(0, from - 1)
    this.#isPrimed = true
    let lines: LiveLine[] = []
    let bytes = 0
    const query = { from: records, to: attempt.ackedLogSeq, bytes: attempt.logBytes }
    for await (const record of this.#ctx.logs.records(attempt.id, query)) {
      const line = this.#toLine(record, byIndex)
      records += 1
      if (records <= from) continue
      lines.push(line)
      bytes += record.data.length
      if (lines.length < LIVE.logLines && bytes < LIVE.logBytes) continue
      yield { lines, records }
      lines = []
      bytes = 0
    }
    if (lines.length > 0) yield { lines, records }
  }

  #toLine(record: StoredRecord, steps: Map<number, AttemptStep>): LiveLine {
    const step = record.step === undefined ? undefined : steps.get(record.step)
    const decoder = this.#decoders.get(record.source) ?? new TextDecoder()
    this.#decoders.set(record.source, decoder)
    return {
      n: record.line,
      t: new Date(record.timeUs / 1_000).toISOString(),
      s: SOURCES.get(record.source) ?? 'out',
      phase: step?.phase ?? null,
      step: step?.stepId ?? null,
      text: decoder.decode(record.data, { stream: true }),
      ...(record.replacesPrevious ? { replaces: true as const } : {}),
    }
  }
}
