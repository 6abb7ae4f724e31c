// Blocks answer like files for the same records, and only the session that feeds a log writes it.
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AttemptState, Desired, encodeRecord, LogSource, recordSize } from '@berth/shared/wire'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { missing } from '../../../../test/fixtures/platform/components.ts'
import { openEngine } from '../../../../test/fixtures/platform/engines.ts'
import { uuidv7 } from '../../identity/uuid.ts'
import { type OpenDatabase, openPostgres } from '../engine/database.ts'
import { findAttempt, insertAttempt } from './attempts.ts'
import { BlockWriter, LogBlocks } from './log-blocks.ts'
import { LogFiles } from './log-files.ts'
import { LogGone, type LogPosition, type RecordQuery, type StoredRecord } from './log-index.ts'
import { dayOfAttempt, lowestId } from './log-partitions.ts'

const DAY = 86_400_000
const NOW = Date.UTC(2026, 5, 1, 12)
const START: LogPosition = { records: 0, bytes: 0, lines: 0 }

interface Line {
  text: string
  step?: number
  source?: LogSource
}

function region(lines: Line[]): Buffer {
  const parts = lines.map(({ text, step = 0, source = LogSource.PTY }, i) => {
    const data = Buffer.from(text)
    const args = [1_000_000 + i, source, step] as const
    const target = Buffer.alloc(recordSize(...args, data.length, i % 7 === 3, 0, 0))
    encodeRecord(target, 0, ...args, data, 0, data.length, i % 7 === 3, 0, 0)
    return target
  })
  return Buffer.concat(parts)
}

function openBlocks({ db, copyOut }: OpenDatabase): LogBlocks {
  if (!copyOut) throw new Error('not PostgreSQL')
  return new LogBlocks(db, copyOut)
}

const collect = async (pieces: AsyncIterable<Buffer>): Promise<string> => {
  const all: Buffer[] = []
  for await (const piece of pieces) all.push(piece)
  return Buffer.concat(all).toString('latin1')
}
const list = async (records: AsyncIterable<StoredRecord>): Promise<unknown[]> => {
  const all: unknown[] = []
  for await (const { data, ...rest } of records) all.push([rest, data.toString('latin1')])
  return all
}

describe.skipIf(missing('postgres'))('log blocks', () => {
  let opened: OpenDatabase
  let blocks: LogBlocks
  let dir: string
  let counter = 0
  beforeAll(async () => {
    opened = await openEngine('postgres')
    // what an attempt belongs to is not the subject
    await sql`alter table attempts disable trigger all`.execute(opened.db)
    blocks = openBlocks(opened)
    dir = mkdtempSync(join(tmpdir(), 'berth-blocks-'))
  })
  afterAll(async () => {
    await opened.db.destroy()
    rmSync(dir, { recursive: true, force: true })
  })

  async function attempt(over: { id?: string; logExpiredAt?: number } = {}): Promise<string> {
    const { id = uuidv7(NOW), logExpiredAt = null } = over
    counter += 1
    await insertAttempt(opened.db, {
      id,
      taskId: counter,
      number: 1,
      agentId: 'agent',
      environmentId: 1,
      fence: counter,
      state: AttemptState.SUCCEEDED,
      desired: Desired.FORGOTTEN,
      variablesRevision: 0,
      createdAt: NOW,
      logSessionId: 's',
      logExpiredAt,
    })
    return id
  }
  const step = (
    attemptId: string,
    from: LogPosition,
    to: LogPosition,
    writer: BlockWriter,
    sessionId = 's',
  ) => ({ attemptId, sessionId, from, to, gap: false, blocks: writer.take() })
  const positionOf = async (id: string): Promise<LogPosition> => {
    const row = await findAttempt(opened.db, id)
    return { records: row?.ackedLogSeq ?? 0, bytes: row?.logBytes ?? 0, lines: row?.logLines ?? 0 }
  }

  test('every question has the answer of the files', async () => {
    const id = await attempt()
    const files = new LogFiles(dir)
    const writer = new BlockWriter(false)
    let at = START
    let seed = 1
    const random = (n: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
      return seed % n
    }
    for (let commit = 0; commit < 40; commit++) {
      const from = at
      for (let chunk = 0; chunk <= random(3); chunk++) {
        const lines = Array.from({ length: 1 + random(40) }, (): Line => {
          const text = randomBytes(random(commit % 10 === 0 ? 6_000 : 60)).toString('base64')
          return {
            text: ['', `${text}\n`, text, `${text}\n${text}\n`, `❄${text}\r\n`][random(5)] ?? '',
            step: random(3),
            source: random(2) ? LogSource.STDOUT : LogSource.STDERR,
          }
        })
        const records = region(lines)
        const next = files.append(id, at, records)
        expect(writer.append(at, records)).toEqual(next)
        at = next
      }
      expect(await blocks.write([step(id, from, at, writer)])).toEqual([
        { attemptId: id, isAtEnd: false },
      ])
    }
    expect(await positionOf(id)).toEqual(at)
    expect(at.bytes).toBeGreaterThan(300_000) // more than one fetch
    expect(await blocks.hash(id, at.bytes)).toBe(await files.hash(id, at.bytes))
    expect(await blocks.isWhole(id, at)).toBe(true)
    expect(await blocks.isWhole(id, { ...at, records: at.records + 1 })).toBe(false)
    const seqs = [1, 2, at.records, ...Array.from({ length: 30 }, () => 1 + random(at.records))]
    expect(await blocks.linesOf(id, seqs)).toEqual(await files.linesOf(id, seqs))
    for (let n = 0; n < 12; n++) {
      const from = random(at.bytes)
      const to = from + random(at.bytes - from + 1)
      expect(await collect(blocks.read(id, from, to))).toBe(await collect(files.read(id, from, to)))
      const line = random(at.lines + 3)
      const first = await files.findLine(id, line, at.records)
      expect(await blocks.findLine(id, line, at.records)).toBe(first)
      const query: RecordQuery = {
        from: n % 3 === 0 ? 0 : Math.min(first, at.records),
        to: at.records,
        bytes: at.bytes,
        ...(n % 2 ? { fromLine: line, untilLine: line + random(300) } : {}),
        ...(n % 4 > 1 ? { steps: new Set([random(3)]) } : {}),
      }
      expect(await list(blocks.records(id, query))).toEqual(await list(files.records(id, query)))
      expect(await collect(blocks.runs(id, query))).toBe(await collect(files.runs(id, query)))
    }
    files.close()
  })

  test('a writer whose log was taken over is refused, and so is one at an older position', async () => {
    const [id, other] = [await attempt(), await attempt()]
    const [stale, fresh, beside] = [
      new BlockWriter(false),
      new BlockWriter(false),
      new BlockWriter(false),
    ]
    const a = stale.append(START, region([{ text: 'stale\n' }]))
    const b = fresh.append(START, region([{ text: 'fresh\n' }, { text: 'more\n' }]))
    const c = beside.append(START, region([{ text: 'beside\n' }]))
    await sql`update attempts set log_session_id = 'next' where id = ${id}`.execute(opened.db)
    const batch = [step(id, START, a, stale), step(other, START, c, beside)]
    expect(await blocks.write(batch)).toEqual([{ attemptId: other, isAtEnd: false }])
    expect(await positionOf(id)).toEqual(START)
    expect(await blocks.isWhole(id, { records: 1, bytes: 1 })).toBe(false)
    // another replica's pool, the right session
    const elsewhere = openPostgres(urlOfOpened(), () => {})
    const theirs = openBlocks(elsewhere)
    expect(await theirs.write([step(id, START, b, fresh, 'next')])).toHaveLength(1)
    await elsewhere.db.destroy()
    const again = new BlockWriter(false)
    const to = again.append(START, region([{ text: 'again\n' }]))
    expect(await blocks.write([step(id, START, to, again, 'next')])).toEqual([])
    expect(await collect(blocks.read(id, 0, b.bytes))).toBe('fresh\nmore\n')
    await sql`update attempts set released_at = 1 where id = ${id}`.execute(opened.db)
    const late = fresh.append(b, region([{ text: 'late\n' }]))
    expect(await blocks.write([step(id, b, late, fresh, 'next')])).toEqual([])
  })

  const urlOfOpened = (): string => url
  let url = ''
  beforeAll(async () => {
    const { rows } = await sql<{ name: string }>`select current_database() as name`.execute(
      opened.db,
    )
    const folder = process.env.BERTH_TEST_POSTGRES ?? ''
    url = `postgres://berth@localhost/${rows[0]?.name}?host=${encodeURIComponent(folder)}`
  })

  test('what lies beyond the row is cut off, also within a block; missing blocks are noticed', async () => {
    const id = await attempt()
    const writer = new BlockWriter(false)
    const kept = writer.append(START, region([{ text: 'kept\n' }, { text: 'half' }]))
    const end = writer.append(kept, region([{ text: ' lost\n' }]))
    await blocks.write([step(id, START, end, writer)])
    const resume = (at: LogPosition) =>
      opened.db.transaction().execute((tx) => blocks.resume(tx, id, at))
    const resumed = await resume(kept)
    if (!resumed) throw new Error('the kept part is missing')
    await sql`update attempts set acked_log_seq = ${kept.records}, log_bytes = ${kept.bytes} where id = ${id}`.execute(
      opened.db,
    )
    const after = resumed.append(kept, region([{ text: ' again\n' }]))
    expect(after.lines).toBe(2)
    expect(await blocks.write([step(id, kept, after, resumed)])).toHaveLength(1)
    expect(await collect(blocks.read(id, 0, after.bytes))).toBe('kept\nhalf again\n')
    expect(await resume({ ...after, records: after.records + 1 })).toBeUndefined()
    await blocks.remove(opened.db, id)
    expect(await resume(after)).toBeUndefined()
    await expect(collect(blocks.read(id, 0, after.bytes))).rejects.toThrow(LogGone)
    const query = { from: 0, to: after.records, bytes: after.bytes }
    await expect(list(blocks.records(id, query))).rejects.toThrow(LogGone)
    await expect(blocks.linesOf(id, [1])).rejects.toThrow(LogGone)
  })

  test('days are made ahead, on demand and by several replicas at once; expired ones are dropped whole', async () => {
    const days = async (): Promise<string[]> => {
      const { rows } = await sql<{ name: string }>`select relname as name from pg_class
        where relispartition and relkind = 'r' and relname like 'log_blocks_%' order by 1`.execute(
        opened.db,
      )
      return rows.map(({ name }) => name)
    }
    const later = NOW + 10 * DAY
    await Promise.all(
      Array.from({ length: 8 }, () => openBlocks(opened).partitions.makeAhead(later)),
    )
    expect(await days()).toEqual(
      expect.arrayContaining(['log_blocks_20260611', 'log_blocks_20260612']),
    )
    const old = NOW - 100 * DAY
    const [expired, alive] = [
      await attempt({ id: uuidv7(old), logExpiredAt: 1 }),
      await attempt({ id: uuidv7(old + DAY) }),
    ]
    expect(dayOfAttempt(expired).name).toBe('log_blocks_20260221')
    expect([expired > lowestId(old - (old % DAY)), expired < lowestId(old + DAY)]).toEqual([
      true,
      true,
    ])
    const writer = new BlockWriter(false)
    const end = writer.append(START, region([{ text: 'x\n' }]))
    // another replica dropped the day that this one believes to know
    await blocks.partitions.makeFor([expired, alive])
    await sql`drop table log_blocks_20260222`.execute(opened.db)
    expect(await blocks.write([step(alive, START, end, writer)])).toHaveLength(1)
    expect(await blocks.partitions.dropBefore(NOW - 90 * DAY)).toEqual(['log_blocks_20260221'])
    expect(await days()).toContain('log_blocks_20260222')
    await sql`update attempts set log_expired_at = 1 where id = ${alive}`.execute(opened.db)
    expect(await blocks.partitions.dropBefore(NOW - 90 * DAY)).toEqual(['log_blocks_20260222'])
    expect(await blocks.isWhole(alive, end)).toBe(false)
  })
})
