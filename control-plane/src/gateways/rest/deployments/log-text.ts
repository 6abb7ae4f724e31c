// Formats records as text for programs: JSON lines, and bytes without escape sequences.
import { stripEscapes } from '@berth/shared'
import type { LogLine } from '@berth/shared/api'
import { LogSource } from '@berth/shared/wire'
import type { AttemptStep } from '../../../store/deployments/attempts.ts'
import type { StoredRecord } from '../../../store/deployments/log-index.ts'

/** Works on one record; latin1 preserves every byte that is not part of an escape sequence. */
export const stripAnsi = (data: Buffer): Buffer =>
  Buffer.from(stripEscapes(data.toString('latin1')), 'latin1')

const SOURCES = new Map<number, LogLine['s']>([
  [LogSource.STDOUT, 'out'],
  [LogSource.STDERR, 'err'],
  [LogSource.PTY, 'pty'],
  [LogSource.SYSTEM, 'system'],
  [LogSource.GAP, 'gap'],
])

/** One JSON document per record. Two records may split a character, so bytes are decoded as one stream. */
export async function* writeNdjson(
  records: AsyncIterable<StoredRecord>,
  steps: AttemptStep[],
): AsyncGenerator<string> {
  const byIndex = new Map(steps.map((s) => [s.stepIndex, s]))
  const decoder = new TextDecoder()
  for await (const record of records) {
    const step = record.step === undefined ? undefined : byIndex.get(record.step)
    const line: LogLine = {
      n: record.line,
      t: new Date(record.timeUs / 1_000).toISOString(),
      s: SOURCES.get(record.source) ?? 'out',
      phase: step?.phase ?? null,
      step: step?.stepId ?? null,
      text: decoder.decode(record.data, { stream: true }),
    }
    yield `${JSON.stringify(line)}\n`
  }
}
