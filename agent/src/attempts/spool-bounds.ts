// Limits the size of the logs that wait on this disk. When the control plane is away for long, the middle of the oldest
// log is evicted first and reads as a GAP; its beginning and end stay. Acknowledged records do not count, because their
// segments are deleted as soon as the acknowledgement arrives.
import { LOGS } from '@berth/shared'
import type { Clock } from '../clock.ts'
import type { Journal } from '../journal/journal.ts'
import { describeError, type Log } from '../log.ts'
import type { Spools } from './spools.ts'

interface WaitingLog {
  attemptId: string
  bytes: number
  /** Since the attempt was created. */
  ageMs: number
}

/** Oldest first: logs that are too old, or exceed the total limit. */
export function decideEvictions(
  logs: readonly WaitingLog[],
  limits: { bytes: number; ageMs: number },
): string[] {
  let total = logs.reduce((sum, log) => sum + log.bytes, 0)
  const evicted: string[] = []
  for (const log of [...logs].sort((a, b) => b.ageMs - a.ageMs)) {
    if (log.ageMs <= limits.ageMs && total <= limits.bytes) continue
    total -= log.bytes
    evicted.push(log.attemptId)
  }
  return evicted
}

/** The first 48 bits of a UUIDv7 are the milliseconds since the epoch. */
const madeAt = (attemptId: string): number =>
  Number.parseInt(attemptId.replaceAll('-', '').slice(0, 12), 16)

interface BoundsContext {
  journal: Journal
  spools: Spools
  clock: Clock
  log: Log
}

export function keepSpoolBounds(
  c: BoundsContext,
  limits = { bytes: LOGS.spoolBytes as number, ageMs: LOGS.spoolMs as number },
): void {
  const logs: WaitingLog[] = []
  for (const { id } of c.journal.attempts.list()) {
    const reader = c.spools.find(id)
    if (!reader) continue
    logs.push({ attemptId: id, bytes: reader.bytes, ageMs: c.clock.now() - madeAt(id) })
  }
  for (const attemptId of decideEvictions(logs, limits)) {
    try {
      const reader = c.spools.find(attemptId)
      // whole segments strictly between the first and the newest record
      const freed = reader?.evictThrough(reader.lastSeq - 1, reader.firstSeq) ?? 0
      if (freed > 0) c.log.warn({ attemptId, freed }, 'a log waited too long and lost its middle')
    } catch (error) {
      c.log.error({ attemptId, ...describeError(error) }, 'a log could not be shortened')
    }
  }
}
