// Windows of rate limits that several control planes share, only on PostgreSQL. One statement adds and answers, so that
// a limit is exact; the caller names the time and the length of a window.
import { sql } from 'kysely'
import type { Db } from '../engine/db.ts'

export interface StoredWindow {
  name: string
  key: string
  since: number
  count: number
}

/**
 * Adds `count` to each window, or begins it at `since`; returns the windows as they are then. Keys come once each. A
 * window that began after `begunUntil` is of a clock that was ahead, and is over too.
 */
export async function addCounts(
  db: Db,
  added: readonly StoredWindow[],
  { endedBefore, begunUntil }: { endedBefore: number; begunUntil: number },
): Promise<StoredWindow[]> {
  const isOver = sql`(rate_limits.since <= ${endedBefore} or rate_limits.since > ${begunUntil})`
  const column = <K extends keyof StoredWindow>(name: K) => added.map((one) => one[name])
  // sorted rows: two control planes lock them in one order
  const { rows } = await sql<StoredWindow>`
    insert into rate_limits (name, key, since, count)
    select * from unnest(${column('name')}::text[], ${column('key')}::text[],
      ${column('since')}::bigint[], ${column('count')}::int[]) as added(name, key, since, count)
    order by name, key
    on conflict (name, key) do update set
      count = case when ${isOver} then greatest(0, excluded.count)
        else greatest(0, rate_limits.count + excluded.count) end,
      since = case when ${isOver} then excluded.since
        else rate_limits.since end
    returning name, key, since, count`.execute(db)
  return rows
}

/** Deletes windows that ended before, and the oldest above the bound. Rows that others count in are left. */
export async function deleteOldWindows(db: Db, before: number, most: number): Promise<void> {
  await sql`
    delete from rate_limits where (name, key) in (
      select name, key from rate_limits where since < ${before} or since <= (
        select since from rate_limits order by since desc offset ${most} limit 1)
      for update skip locked)`.execute(db)
}
