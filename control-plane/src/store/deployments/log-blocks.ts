// Logs as blocks in PostgreSQL. A block is written by the same statement as the position of its attempt, and only if
// that position is where the writer believes it is and no other session feeds the log: a reader on any replica never
// sees a position without its bytes, and a replica that lost an agent cannot write. Their content is packed.
import { createHash } from 'node:crypto'
import { CompiledQuery, type Kysely, type RawBuilder, sql } from 'kysely'
import type { CopyOut } from '../engine/copy-out.ts'
import { isDeadlock } from '../engine/database.ts'
import type { Db } from '../engine/db.ts'
import { codeOf } from '../engine/faults.ts'
import type { Schema } from '../schema.ts'
import {
  ENTRY_BYTES,
  indexRegion,
  isPast,
  isWanted,
  LogGone,
  type LogPosition,
  lineAt,
  mostEntryBytes,
  NEWLINE,
  offsetAt,
  type RecordQuery,
  recordAt,
  type StoredRecord,
} from './log-index.ts'
import { blockValues, INSERT_BLOCK, type PackedBlock, packBlock, unpack } from './log-packing.ts'
import { LogPartitions } from './log-partitions.ts'

import {
  BLOCK_BYTES,
  type Block,
  type LogReads,
  type LogStep,
  type LogWriter,
} from './log-store.ts'

/** A reader holds two fetches: each has these many packed bytes, and one block. */
const FETCH_BYTES = 256 * 1_024
const FETCH_BLOCKS = 64
const MOST_RECORDS = 0x7fff_ffff
const TRIES = 5

export interface Moved {
  attemptId: string
  /** Its last record is stored, and nothing says so yet. */
  isAtEnd: boolean
}

/** Everything of a block but its content. */
interface Head {
  seq: number
  records: number
  start: number
  bytes: number
  line: number
}
type Column = 'data' | 'entries'
type Stored<C extends Column> = Head & Record<C, Buffer>

const HEAD = sql.raw('seq, records, start, bytes, line')
const NO_PARTITION = '23514'

/** Used within one call only; an index may be twelve times as large as its chunk. */
const scratch = { data: Buffer.alloc(0), entries: Buffer.alloc(0) }

/** Collects the records of one stream until they are written. Bounded by what an agent may have in flight. */
export class BlockWriter implements LogWriter {
  #blocks: Block[] = []
  #unfinished: boolean

  constructor(unfinished: boolean) {
    this.#unfinished = unfinished
  }

  append(at: LogPosition, region: Buffer): LogPosition {
    if (scratch.data.length < region.length) scratch.data = Buffer.allocUnsafe(region.length)
    if (scratch.entries.length < mostEntryBytes(region)) {
      scratch.entries = Buffer.allocUnsafe(mostEntryBytes(region))
    }
    const { data, entries } = scratch
    const added = indexRegion(region, at, this.#unfinished, data, entries)
    this.#unfinished = added.unfinished
    if (added.entryBytes > 0) {
      this.#blocks.push({
        seq: at.records,
        records: added.end.records - at.records,
        start: at.bytes,
        line: lineAt(entries, 0),
        entries: Buffer.from(entries.subarray(0, added.entryBytes)),
        data: Buffer.from(data.subarray(0, added.dataBytes)),
      })
    }
    return added.end
  }

  take(): Block[] {
    const taken = joinBlocks(this.#blocks)
    this.#blocks = []
    return taken
  }
}

/** Joins neighbours up to the size of a block. */
function joinBlocks(parts: readonly Block[]): Block[] {
  const joined: Block[] = []
  let group: Block[] = []
  let bytes = 0
  const close = (): void => {
    const [first] = group
    if (!first) return
    joined.push({
      ...first,
      records: group.reduce((sum, { records }) => sum + records, 0),
      entries: Buffer.concat(group.map(({ entries }) => entries)),
      data: Buffer.concat(group.map(({ data }) => data)),
    })
    group = []
    bytes = 0
  }
  for (const part of parts) {
    group.push(part)
    bytes += part.entries.length + part.data.length
    if (bytes >= BLOCK_BYTES) close()
  }
  close()
  return joined
}

export class LogBlocks implements LogReads {
  readonly kind = 'blocks'
  readonly partitions: LogPartitions
  readonly #db: Kysely<Schema>
  readonly #copyOut: CopyOut

  constructor(db: Kysely<Schema>, copyOut: CopyOut) {
    this.#db = db
    this.#copyOut = copyOut
    this.partitions = new LogPartitions(db)
  }

  // ------------------------------------------------------------------------------------------------ writing

  /**
   * Makes blocks and positions durable together. Returns the attempts whose log moved; another session, or a release,
   * took over the rest, of which nothing was written.
   */
  async write(steps: readonly LogStep[]): Promise<Moved[]> {
    await this.partitions.makeFor(steps.map(({ attemptId }) => attemptId))
    const ordered = steps.toSorted((a, b) => (a.attemptId < b.attemptId ? -1 : 1))
    const blocks = await Promise.all(
      ordered.flatMap(({ attemptId: id, blocks: own }) =>
        own.map(async (block) => ({ id, ...(await packBlock(block)) })),
      ),
    )
    for (let left = TRIES; ; left--) {
      try {
        return await this.#writeOnce(ordered, blocks)
      } catch (error) {
        const isGone = codeOf(error) === NO_PARTITION
        if (left <= 1 || !(isGone || isDeadlock(error))) throw error
        if (!isGone) continue
        this.partitions.forget()
        await this.partitions.makeFor(ordered.map(({ attemptId }) => attemptId))
      }
    }
  }

  async #writeOnce(
    steps: readonly LogStep[],
    blocks: readonly (PackedBlock & { id: string })[],
  ): Promise<Moved[]> {
    const moves = <K extends number | string>(pick: (step: LogStep) => K) =>
      sql.val(steps.map(pick))
    const column = <K extends number | string>(pick: (block: (typeof blocks)[number]) => K) =>
      sql.val(blocks.map(pick))
    // one buffer for all blocks: the text is the same for any number of them, and bytes travel as bytes
    const content = Buffer.concat(blocks.flatMap(({ entries, data }) => [entries, data]))
    const { rows } = await sql<Moved>`
      with moved as (
        update attempts a set acked_log_seq = s.records, log_bytes = s.bytes, log_lines = s.lines, log_gap = s.gap
        from unnest(${moves((s) => s.attemptId)}::text[], ${moves((s) => s.sessionId)}::text[],
          ${moves((s) => s.from.records)}::int[], ${moves((s) => s.to.records)}::int[],
          ${moves((s) => s.to.bytes)}::bigint[], ${moves((s) => s.to.lines)}::int[],
          ${moves((s) => (s.gap ? 1 : 0))}::int[])
          as s(id, session_id, expected, records, bytes, lines, gap)
        where a.id = s.id and a.log_session_id = s.session_id and a.acked_log_seq = s.expected
          and a.released_at is null and a.log_expired_at is null
        returning a.id as attempt_id, (a.final_log_seq is not null and a.log_complete_at is null
          and a.acked_log_seq >= a.final_log_seq) as is_at_end),
      b as (
        select *, (sum(entry_size + data_size) over (order by n) - entry_size - data_size)::int as place
        from unnest(${column((b) => b.id)}::text[], ${column((b) => b.seq)}::int[],
          ${column((b) => b.records)}::int[], ${column((b) => b.start)}::bigint[],
          ${column((b) => b.bytes)}::int[], ${column((b) => b.line)}::bigint[],
          ${column((b) => b.entries.length)}::int[], ${column((b) => b.data.length)}::int[])
          with ordinality as b(id, seq, records, start, bytes, line, entry_size, data_size, n)),
      written as (
        insert into log_blocks (attempt_id, seq, records, start, bytes, line, entries, data)
        select b.id::uuid, b.seq, b.records, b.start, b.bytes, b.line,
          substr(c.content, b.place + 1, b.entry_size),
          substr(c.content, b.place + 1 + b.entry_size, b.data_size)
        from (select ${content}::bytea as content) c, b
        where b.id in (select attempt_id from moved))
      select attempt_id, is_at_end from moved`.execute(this.#db)
    return rows
  }

  /**
   * Within a transaction that holds the row of the attempt: cuts off what lies beyond its position, as after the rows
   * were restored alone. Returns undefined if blocks of this position are missing.
   */
  async resume(db: Db, attemptId: string, at: LogPosition): Promise<BlockWriter | undefined> {
    const last = await this.#lastHead(db, attemptId)
    const end = last ? last.seq + last.records : 0
    if (end > at.records) await cutBlocks(db, attemptId, at)
    const kept = end > at.records ? await this.#lastHead(db, attemptId) : last
    const isSame = kept
      ? kept.seq + kept.records === at.records && kept.start + kept.bytes === at.bytes
      : at.records === 0
    return isSame ? new BlockWriter(await isUnfinished(db, attemptId)) : undefined
  }

  async remove(db: Db, attemptId: string): Promise<void> {
    await sql`delete from log_blocks where attempt_id = ${attemptId}::uuid`.execute(db)
  }

  /** Of a log that is complete elsewhere, such as in files. Its partition must exist. */
  async insert(db: Db, attemptId: string, block: Block): Promise<void> {
    const values = blockValues(attemptId, await packBlock(block))
    await db.executeQuery(CompiledQuery.raw(INSERT_BLOCK, values))
  }

  // ------------------------------------------------------------------------------------------------ reading

  async *read(attemptId: string, from: number, to: number): AsyncGenerator<Buffer> {
    if (to <= from) return
    const first = from === 0 ? 0 : await this.#seqOfByte(attemptId, from)
    yield* this.#bytesFrom(attemptId, first, from, to)
  }

  async *records(attemptId: string, query: RecordQuery): AsyncGenerator<StoredRecord> {
    for await (const block of this.#blocks(attemptId, query, ['entries', 'data'])) {
      const { entries, data, start } = block
      if (isPast(entries, query)) return
      const [begin, end] = partOf(block, query)
      for (let n = begin; n < end; n++) {
        if (!isWanted(entries, n, query)) continue
        const [from, to] = extent(block, n)
        yield recordAt(entries, n, data.subarray(from - start, to - start))
      }
    }
  }

  async *runs(attemptId: string, query: RecordQuery): AsyncGenerator<Buffer> {
    let run: { seq: number; from: number; to: number } | undefined
    for await (const block of this.#blocks(attemptId, query, ['entries'])) {
      const { entries, seq } = block
      if (isPast(entries, query)) break
      const [begin, end] = partOf(block, query)
      for (let n = begin; n < end; n++) {
        if (!isWanted(entries, n, query)) continue
        const [from, to] = extent(block, n)
        if (run && run.to === from) {
          run.to = to
          continue
        }
        if (run) yield* this.#bytesFrom(attemptId, run.seq, run.from, run.to)
        run = { seq, from, to }
      }
    }
    if (run) yield* this.#bytesFrom(attemptId, run.seq, run.from, run.to)
  }

  async findLine(attemptId: string, line: number, records: number): Promise<number> {
    const head = await this.#lastWhere(attemptId, records, (found) => found.line < line)
    if (!head) return 0
    for await (const block of this.#fetch(attemptId, head.seq, head.seq + 1, ['entries'])) {
      let [low, high] = [0, block.records]
      while (low < high) {
        const middle = (low + high) >>> 1
        if (lineAt(block.entries, middle) < line) low = middle + 1
        else high = middle
      }
      return Math.min(head.seq + low, records)
    }
    throw new LogGone('a block of a log is not there')
  }

  async linesOf(attemptId: string, seqs: readonly number[]): Promise<number[]> {
    if (seqs.length === 0) return []
    const { rows } = await sql<Packed>`select seq, records, entries from log_blocks
      where attempt_id = ${attemptId}::uuid and seq in (select
        (select max(seq) from log_blocks where attempt_id = ${attemptId}::uuid and seq < s.n)
        from unnest(${sql.val([...seqs])}::int[]) s(n))`.execute(this.#db)
    const blocks = rows.map(({ seq, records, entries }) => ({
      from: seq,
      to: seq + records,
      entries: unpack(entries, records * ENTRY_BYTES),
    }))
    return seqs.map((seq) => {
      const block = blocks.find(({ from, to }) => from < seq && seq <= to)
      if (!block) throw new LogGone('a block of a log is not there')
      return lineAt(block.entries, seq - 1 - block.from)
    })
  }

  async isWhole(attemptId: string, at: Omit<LogPosition, 'lines'>): Promise<boolean> {
    if (at.records === 0) return true
    const head = await this.#headAt(attemptId, at.records - 1)
    return (
      head !== undefined &&
      head.seq + head.records >= at.records &&
      head.start + head.bytes >= at.bytes
    )
  }

  async hash(attemptId: string, bytes: number): Promise<string> {
    const hash = createHash('sha256')
    for await (const piece of this.read(attemptId, 0, bytes)) hash.update(piece)
    return hash.digest('hex')
  }

  /** Nothing is open between two calls. */
  close(): void {}

  /** Bytes [from, to), the first of them in the block that begins with record `seq`. */
  async *#bytesFrom(
    attemptId: string,
    seq: number,
    from: number,
    to: number,
  ): AsyncGenerator<Buffer> {
    let at = from
    for await (const { start, data } of this.#fetch(attemptId, seq, undefined, ['data'])) {
      if (start > at) break
      const piece = data.subarray(at - start, to - start)
      at += piece.length
      if (piece.length > 0) yield piece
      if (at >= to) return
    }
    throw new LogGone('a block of a log is not there')
  }

  /** The blocks that hold the records of a query. */
  async *#blocks<C extends Column>(
    attemptId: string,
    { from, to }: RecordQuery,
    columns: readonly C[],
  ): AsyncGenerator<Stored<C>> {
    if (to <= from) return
    const first = from === 0 ? 0 : (await this.#headAt(attemptId, from))?.seq
    let at = first ?? 0
    for await (const block of this.#fetch(attemptId, at, to, columns)) {
      if (block.seq !== at) break
      at = block.seq + block.records
      yield block
      if (at >= to) return
    }
    throw new LogGone('a block of a log is not there')
  }

  /** Blocks from record `seq` up to record `before`, a bounded number of bytes at a time; the next are on their way. */
  async *#fetch<C extends Column>(
    attemptId: string,
    seq: number,
    before: number | undefined,
    columns: readonly C[],
  ): AsyncGenerator<Stored<C>> {
    const load = (next: number): Promise<Stored<C>[]> =>
      before !== undefined && next >= before
        ? Promise.resolve([])
        : this.#load(attemptId, next, before ?? MOST_RECORDS, columns)
    for (let rows = await load(seq); rows.length > 0; ) {
      const last = rows.at(-1) as Stored<C>
      const next = load(last.seq + last.records)
      next.catch(() => {}) // reported when it is awaited, unless the reader leaves
      // unpacked one by one: packed, they are a fraction of it
      for (const row of rows) yield unpackBlock(row, columns)
      rows = await next
    }
  }

  async #load<C extends Column>(
    attemptId: string,
    seq: number,
    before: number,
    columns: readonly C[],
  ): Promise<Stored<C>[]> {
    const size = columns.map((column) => `octet_length(${column})`).join(' + ')
    const rows =
      await this.#copyOut(`select seq, records, start, bytes, line, ${columns.join(', ')} from (
      select *, sum(${size}) over (order by seq) - (${size}) as earlier from (
        select * from log_blocks where attempt_id = '${checkId(attemptId)}' and seq >= ${Number(seq)}
          and seq < ${Number(before)} order by seq limit ${FETCH_BLOCKS}) f) b
      where earlier < ${FETCH_BYTES} order by seq`)
    return rows.map(([first, records, start, bytes, line, ...content]) => {
      const head = {
        seq: first?.readInt32BE(0),
        records: records?.readInt32BE(0),
        start: Number(start?.readBigInt64BE(0)),
        bytes: bytes?.readInt32BE(0),
        line: Number(line?.readBigInt64BE(0)),
      }
      const named = columns.map((column, n) => [column, content[n]])
      return { ...head, ...Object.fromEntries(named) } as Stored<C>
    })
  }

  /** The block that holds a record, if the log has it. */
  async #headAt(attemptId: string, record: number): Promise<Head | undefined> {
    const { rows } = await sql<Head>`select ${HEAD} from log_blocks
      where attempt_id = ${attemptId}::uuid and seq <= ${record}
      order by seq desc limit 1`.execute(this.#db)
    return rows[0]
  }

  async #lastHead(db: Db, attemptId: string): Promise<Head | undefined> {
    const { rows } = await sql<Head>`select ${HEAD} from log_blocks
      where attempt_id = ${attemptId}::uuid order by seq desc limit 1`.execute(db)
    return rows[0]
  }

  async #seqOfByte(attemptId: string, byte: number): Promise<number> {
    const last = await this.#lastHead(this.#db, attemptId)
    const records = last ? last.seq + last.records : 0
    return (await this.#lastWhere(attemptId, records, (head) => head.start <= byte))?.seq ?? 0
  }

  /** Binary search for the last block that fulfils what the first blocks fulfil. Each look is one row by its key. */
  async #lastWhere(
    attemptId: string,
    records: number,
    isBefore: (head: Head) => boolean,
  ): Promise<Head | undefined> {
    let found: Head | undefined
    for (let low = 0, high = records; low < high; ) {
      const middle = (low + high) >>> 1
      const head = await this.#headAt(attemptId, middle)
      if (!head) throw new LogGone('a block of a log is not there')
      if (isBefore(head)) {
        found = head
        low = Math.max(middle + 1, head.seq + head.records)
      } else high = head.seq
    }
    return found
  }
}

const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** Before it becomes part of a statement. */
function checkId(attemptId: string): string {
  if (!ID.test(attemptId)) throw new Error(`not the id of an attempt: ${attemptId.slice(0, 50)}`)
  return attemptId
}

/** The indexes in a block of the records that a query covers. */
const partOf = ({ seq, records }: Head, query: RecordQuery): [number, number] => [
  Math.max(0, query.from - seq),
  Math.min(records, query.to - seq),
]

/** The bytes of a record of a block, as offsets in the log. */
const extent = (block: Stored<'entries'>, n: number): [number, number] => [
  offsetAt(block.entries, n),
  n + 1 < block.records ? offsetAt(block.entries, n + 1) : block.start + block.bytes,
]

function unpackBlock<C extends Column>(block: Stored<C>, columns: readonly C[]): Stored<C> {
  const length = { entries: block.records * ENTRY_BYTES, data: block.bytes }
  const unpacked = { ...block }
  for (const column of columns) {
    const packed: Buffer = block[column]
    Object.assign(unpacked, { [column]: unpack(packed, length[column]) })
  }
  return unpacked
}

interface Packed extends Head {
  entries: Buffer
  data: Buffer
}

async function lastBlock(
  db: Db,
  attemptId: string,
  condition: RawBuilder<unknown>,
): Promise<Stored<Column> | undefined> {
  const { rows } = await sql<Packed>`select ${HEAD}, entries, data from log_blocks
    where attempt_id = ${attemptId}::uuid and ${condition} order by seq desc limit 1`.execute(db)
  return rows[0] && unpackBlock(rows[0], ['entries', 'data'])
}

/** Deletes what lies beyond a position; a block of an imported log may reach over it. */
async function cutBlocks(db: Db, attemptId: string, at: LogPosition): Promise<void> {
  const last = await lastBlock(db, attemptId, sql`seq < ${at.records}`)
  const isOver = last && last.seq + last.records > at.records && last.start <= at.bytes
  const from = isOver ? last.seq : at.records
  await sql`delete from log_blocks where attempt_id = ${attemptId}::uuid and seq >= ${from}`.execute(
    db,
  )
  if (!isOver) return
  const { seq, start, line, entries, data } = last
  const records = at.records - seq
  const kept = await packBlock({
    seq,
    records,
    start,
    line,
    entries: entries.subarray(0, records * ENTRY_BYTES),
    data: data.subarray(0, at.bytes - start),
  })
  await db.executeQuery(CompiledQuery.raw(INSERT_BLOCK, blockValues(attemptId, kept)))
}

async function isUnfinished(db: Db, attemptId: string): Promise<boolean> {
  const last = await lastBlock(db, attemptId, sql`bytes > 0`)
  return last !== undefined && last.data.at(-1) !== NEWLINE
}
