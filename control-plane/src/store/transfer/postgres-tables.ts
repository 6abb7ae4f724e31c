// Tables of PostgreSQL. A source is one transaction with the isolation level repeatable read, so it sees one moment. A
// target is one transaction too: tables, rows and checks appear together or not at all.
import pg from 'pg'
import { BACKUPS } from '../../limits/installation.ts'
import { ENTRY_BYTES } from '../deployments/log-index.ts'
import { blockValues, INSERT_BLOCK, packBlock, unpack } from '../deployments/log-packing.ts'
import { partitionStatement } from '../deployments/log-partitions.ts'
import { planMigrations } from '../engine/migrations.ts'
import { USE } from '../engine/postgres-link.ts'
import type { Row } from './rows.ts'
import {
  type Counters,
  type LogLength,
  type LogPart,
  type Table,
  type TableSource,
  type TableTarget,
  TransferError,
} from './tables.ts'

const { escapeIdentifier: quote } = pg

const INT8 = 20
/** A statement of PostgreSQL has at most 65,535 parameters. */
const PARAMETERS = 60_000

async function connect(url: string): Promise<pg.Client> {
  const types = new pg.TypeOverrides()
  types.setTypeParser(INT8, (text) => BigInt(text))
  const client = new pg.Client({ connectionString: url, types, keepAlive: true })
  client.on('error', () => {}) // the query in progress fails by itself
  await client.connect()
  // a table takes as long as it takes
  await client.query('set statement_timeout = 0')
  await client.query('set idle_in_transaction_session_timeout = 0')
  return client
}

async function listTables(client: pg.Client): Promise<Table[]> {
  const { rows } = await client.query(`
    select c.relname as name, a.attname as column,
      coalesce(array_position(i.indkey::smallint[], a.attnum), -1) as place
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    left join pg_index i on i.indrelid = c.oid and i.indisprimary
    where c.relkind = 'r' and not c.relispartition and c.relnamespace = current_schema()::regnamespace
    order by c.relname collate "C", a.attnum`)
  const found = rows as { name: string; column: string; place: number }[]
  const names = [...new Set(found.map((r) => r.name))]
  return names.map((name) => {
    const own = found.filter((r) => r.name === name)
    const columns = own.map((r) => r.column)
    const key = own.filter((r) => r.place >= 0).toSorted((a, b) => a.place - b.place)
    return { name, columns, key: key.length > 0 ? key.map((r) => r.column) : columns }
  })
}

/** The sequence behind each column that numbers the rows of a table. */
async function listSequences(client: pg.Client): Promise<{ name: string; sequence: string }[]> {
  const { rows } = await client.query(`
    select c.relname as name, pg_get_serial_sequence(quote_ident(c.relname), a.attname) as sequence
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attidentity <> ''
    where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace`)
  return rows
}

async function listCounters(client: pg.Client): Promise<Counters> {
  const counters: Counters = {}
  for (const { name, sequence } of await listSequences(client)) {
    const { rows } = await client.query('select pg_sequence_last_value($1::regclass) as n', [
      sequence,
    ])
    const last = Number(rows[0]?.n ?? 0)
    if (last > 0) counters[name] = last
  }
  return counters
}

/** Blocks of logs read together. */
const FETCHED = 16

/** Undefined if the log is not in blocks, or not to this length. */
async function openLog(
  client: pg.Client,
  { attemptId, bytes, records }: LogLength,
  part: LogPart,
): Promise<AsyncIterable<Buffer> | undefined> {
  const { rows: tables } = await client.query(
    "select to_regclass('log_blocks') is not null as made",
  )
  if (tables[0]?.made !== true) return undefined
  const { rows } = await client.query(
    `select 1 from log_blocks where attempt_id = $1 and seq < $2 and seq + records >= $2
     and start + bytes >= $3`,
    [attemptId, records, bytes],
  )
  if (rows.length === 0) return undefined
  const [column, length] =
    part === 'log' ? (['data', bytes] as const) : (['entries', records * ENTRY_BYTES] as const)
  return readBlocks(client, attemptId, column, length)
}

async function* readBlocks(
  client: pg.Client,
  attemptId: string,
  column: 'data' | 'entries',
  length: number,
): AsyncGenerator<Buffer> {
  const size = column === 'data' ? 'bytes' : `records * ${ENTRY_BYTES}`
  let left = length
  for (let seq = -1; left > 0; ) {
    const { rows } = await client.query<{ seq: number; bytes: number; content: Buffer }>(
      `select seq, ${size} as bytes, ${column} as content from log_blocks where attempt_id = $1 and seq > $2
       order by seq limit ${FETCHED}`,
      [attemptId, seq],
    )
    if (rows.length === 0) throw new TransferError(`A part of the log ${attemptId} is missing.`)
    for (const row of rows) {
      const piece = unpack(row.content, row.bytes).subarray(0, left)
      left -= piece.length
      seq = row.seq
      if (piece.length > 0) yield piece
    }
  }
}

async function* readRows(client: pg.Client, table: Table): AsyncGenerator<Row[]> {
  const { rows } = await client.query(
    `select a.attname as name from pg_attribute a join pg_class c on c.oid = a.attrelid
     where c.relname = $1 and c.relnamespace = current_schema()::regnamespace and a.attcollation <> 0`,
    [table.name],
  )
  const texts = new Set(rows.map((r) => r.name as string))
  // by the bytes of the text, as SQLite orders it, with any locale of this database
  const order = table.key.map((c) => `${quote(c)}${texts.has(c) ? ' collate "C"' : ''} nulls first`)
  const columns = table.columns.map(quote).join(', ')
  yield* readCursor<Row>(
    client,
    `select ${columns} from ${quote(table.name)} order by ${order.join(', ')}`,
  )
}

/** Each row is the array of its values. */
async function* readCursor<T extends readonly unknown[]>(
  client: pg.Client,
  query: string,
): AsyncGenerator<T[]> {
  await client.query(`declare berth_rows no scroll cursor for ${query}`)
  for (;;) {
    const fetch: pg.QueryArrayConfig = {
      text: `fetch ${BACKUPS.rows} from berth_rows`,
      rowMode: 'array',
    }
    const { rows } = await client.query<T>(fetch)
    if (rows.length > 0) yield rows
    if (rows.length < BACKUPS.rows) break
  }
  await client.query('close berth_rows')
}

export async function openPostgresSource(url: string): Promise<TableSource> {
  const client = await connect(url)
  try {
    await client.query('begin isolation level repeatable read read only')
    const { rows } = await client.query('select name from migrations order by name collate "C"')
    return {
      engine: 'postgres',
      migrations: rows.map((r) => r.name as string),
      tables: await listTables(client),
      counters: await listCounters(client),
      async bytes() {
        const found = await client.query(`select pg_database_size(current_database())
          + (select coalesce(sum(log_bytes + 24 * acked_log_seq), 0) from attempts)::bigint as n`)
        return Number(found.rows[0].n)
      },
      rows: (table) => readRows(client, table),
      async *logs() {
        const query = `select id, log_bytes, acked_log_seq from attempts where acked_log_seq > 0
          order by id collate "C"`
        for await (const batch of readCursor<[string, bigint, bigint]>(client, query)) {
          yield batch.map(
            ([attemptId, bytes, records]): LogLength => ({
              attemptId,
              bytes: Number(bytes),
              records: Number(records),
            }),
          )
        }
      },
      openLog: (log, part) => openLog(client, log, part),
      close: () => client.end(),
    }
  } catch (error) {
    await client.end().catch(() => undefined)
    throw error
  }
}

interface Reference {
  table: string
  name: string
  definition: string
}

async function setAside(client: pg.Client): Promise<void> {
  const { rows } = await client.query('select current_schema() as name')
  const name = String(rows[0].name)
  const aside = `berth_undone_${Math.floor(Date.now() / 1_000)}`
  await client.query('begin')
  await client.query(`alter schema ${quote(name)} rename to ${quote(aside)}`)
  await client.query(`create schema ${quote(name)}`)
  const blocks = await client.query(
    `select c.relname as table from pg_class c where c.relnamespace = $1::regnamespace
     and (c.relname = 'log_blocks' or c.oid in
       (select inhrelid from pg_inherits where inhparent = to_regclass($2)))`,
    [quote(aside), `${quote(aside)}.log_blocks`],
  )
  for (const { table } of blocks.rows as { table: string }[]) {
    await client.query(`alter table ${quote(aside)}.${quote(table)} set schema ${quote(name)}`)
  }
  await client.query('commit')
}

/**
 * Gives the schema another name and makes an empty one, so that an earlier state can be restored by `work`. Nothing is
 * deleted. The blocks of logs stay: they belong to the rows that come back. Returns false, and does nothing, while a
 * control plane uses the database; none can start meanwhile.
 */
export async function whileSetAside(url: string, work: () => Promise<unknown>): Promise<boolean> {
  const client = await connect(url)
  try {
    if (!(await takeAlone(client))) return false
    if ((await listTables(client)).length > 0) await setAside(client)
    await work()
    return true
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** Until the connection ends, no control plane can start. False: one uses the database. */
async function takeAlone(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query('select pg_try_advisory_lock($1) as alone', [USE])
  return rows[0]?.alone === true
}

/** Refuses a database that has tables, or that a control plane uses. `isHeld`: whileSetAside keeps them out. */
export async function createPostgresTarget(
  url: string,
  migrations: readonly string[],
  { isHeld = false } = {},
): Promise<TableTarget> {
  const client = await connect(url)
  try {
    if (!isHeld && !(await takeAlone(client))) {
      throw new TransferError(
        'A control plane uses this PostgreSQL database. Stop all of them first, and keep them from starting.',
      )
    }
    await client.query('begin')
    if ((await listTables(client)).length > 0) {
      throw new TransferError(
        'The PostgreSQL database has tables already. Name an empty one (`createdb berth`); nothing is ever overwritten.',
      )
    }
    for (const statement of planMigrations('postgres', migrations)) await client.query(statement)
    const tables = await listTables(client)
    const references = await dropReferences(client)
    for (const { name } of tables) await client.query(`delete from ${quote(name)}`)
    return {
      tables,
      load: (table, rows) => insertRows(client, table, rows),
      async loadLog(attemptId, blocks) {
        await client.query(partitionStatement(attemptId))
        for await (const block of blocks) {
          await client.query(INSERT_BLOCK, blockValues(attemptId, await packBlock(block)))
        }
      },
      async finish(counters) {
        for (const { table, name, definition } of references) {
          await client.query(
            `alter table ${quote(table)} add constraint ${quote(name)} ${definition}`,
          )
        }
        for (const { name, sequence } of await listSequences(client)) {
          const last = counters[name] ?? 0
          if (last > 0) await client.query('select setval($1::regclass, $2)', [sequence, last])
        }
      },
      readCounters: () => listCounters(client),
      rows: (table) => readRows(client, table),
      async commit() {
        await endLeases(client, tables)
        await client.query('commit')
        await client.end()
      },
      async abort() {
        await client.end().catch(() => undefined) // the server rolls back
      },
    }
  } catch (error) {
    await client.end().catch(() => undefined)
    throw error
  }
}

/** The control planes that it was copied from do not live here, so the first one to start begins a new era. */
async function endLeases(client: pg.Client, tables: readonly Table[]): Promise<void> {
  for (const { name, columns } of tables) {
    if (!columns.includes('lease_until')) continue
    await client.query(`update ${quote(name)} set lease_until = 0 where lease_until > 0`)
  }
}

/** Rows arrive by table, so references between tables are added again, and thereby checked, at the end. */
async function dropReferences(client: pg.Client): Promise<Reference[]> {
  const { rows } = await client.query(`
    select c.relname as table, k.conname as name, pg_get_constraintdef(k.oid) as definition
    from pg_constraint k join pg_class c on c.oid = k.conrelid
    where k.contype = 'f' and k.connamespace = current_schema()::regnamespace
    order by c.relname, k.conname`)
  for (const { table, name } of rows as Reference[]) {
    await client.query(`alter table ${quote(table)} drop constraint ${quote(name)}`)
  }
  return rows
}

async function insertRows(
  client: pg.Client,
  { name, columns }: Table,
  rows: readonly Row[],
): Promise<void> {
  const most = Math.max(1, Math.floor(PARAMETERS / columns.length))
  for (let from = 0; from < rows.length; from += most) {
    const part = rows.slice(from, from + most)
    let n = 0
    const places = part.map(() => `(${columns.map(() => `$${++n}`).join(', ')})`)
    try {
      await client.query(
        `insert into ${quote(name)} (${columns.map(quote).join(', ')}) values ${places.join(', ')}`,
        part.flat(),
      )
    } catch (error) {
      if (!(error instanceof pg.DatabaseError)) throw error
      // its details would show values
      throw new TransferError(`PostgreSQL refuses rows of the table ${name}: ${error.message}.`)
    }
  }
}
