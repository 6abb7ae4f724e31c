// The partitions of log_blocks, one per day. Ids of attempts are ordered by their creation (UUIDv7), so a range of ids
// is a day: a log is in one partition, and its id alone finds it. Days are created ahead, and on demand before a write.
import { type Kysely, sql } from 'kysely'
import type { Schema } from '../schema.ts'

const DAY_MS = 86_400_000
const LOCK = 7_443_062 // arbitrary, the same for every replica
/** Dropping waits this long for readers, and new readers wait behind it; the next sweep tries again. */
const DROP_WAIT_MS = 1_000
const NAME = /^log_blocks_\d{8,10}$/

interface Day {
  /** Milliseconds of its begin. */
  at: number
  name: string
}

const hexOf = (ms: number): string => ms.toString(16).padStart(12, '0')
/** The lowest id of an attempt that was made at this time or later. */
export const lowestId = (ms: number): string =>
  `${hexOf(ms).slice(0, 8)}-${hexOf(ms).slice(8)}-0000-0000-000000000000`

function dayAt(ms: number): Day {
  const at = ms - (ms % DAY_MS)
  const [date = ''] = new Date(at).toISOString().split('T')
  return { at, name: `log_blocks_${date.replaceAll(/\D/g, '')}` }
}

/** One statement, so it is atomic without a transaction of its own. */
const makeStatement = ({ at, name }: Day): string => `do $$ begin
    perform pg_advisory_xact_lock(${LOCK});
    if to_regclass('${name}') is null then
      create table ${name} (like log_blocks including all);
      alter table log_blocks attach partition ${name}
        for values from ('${lowestId(at)}') to ('${lowestId(at + DAY_MS)}');
    end if;
  end $$`

/** Makes the partition of an attempt, if it is missing. */
export const partitionStatement = (attemptId: string): string =>
  makeStatement(dayOfAttempt(attemptId))

export const dayOfAttempt = (attemptId: string): Day =>
  dayAt(Number.parseInt(attemptId.slice(0, 8) + attemptId.slice(9, 13), 16))

export class LogPartitions {
  readonly #db: Kysely<Schema>
  readonly #known = new Set<string>()

  constructor(db: Kysely<Schema>) {
    this.#db = db
  }

  async makeFor(attemptIds: Iterable<string>): Promise<void> {
    for (const id of attemptIds) await this.#make(dayOfAttempt(id))
  }

  /** Today and tomorrow, so that the first write of a day finds its partition. */
  async makeAhead(now: number): Promise<void> {
    await this.#make(dayAt(now))
    await this.#make(dayAt(now + DAY_MS))
  }

  /** A write found no partition: another replica dropped one. */
  forget(): void {
    this.#known.clear()
  }

  /** Attaching blocks neither readers nor writers; a replica that makes the same one waits and finds it. */
  async #make(day: Day): Promise<void> {
    if (this.#known.has(day.name)) return
    await sql.raw(makeStatement(day)).execute(this.#db)
    this.#known.add(day.name)
  }

  /** Drops the days before this time whose logs have all expired; returns their names. */
  async dropBefore(before: number): Promise<string[]> {
    const dropped: string[] = []
    for (const { name, at } of await this.#list()) {
      if (at + DAY_MS > before || (await this.#hasLogs(at))) continue
      await sql
        .raw(`do $$ begin
          perform set_config('lock_timeout', '${DROP_WAIT_MS}', true);
          perform pg_advisory_xact_lock(${LOCK});
          drop table if exists ${name};
        end $$`)
        .execute(this.#db)
      this.#known.delete(name)
      dropped.push(name)
    }
    return dropped
  }

  async #list(): Promise<Day[]> {
    const { rows } = await sql<{ name: string }>`select c.relname as name from pg_inherits i
      join pg_class c on c.oid = i.inhrelid where i.inhparent = to_regclass('log_blocks')
      order by c.relname`.execute(this.#db)
    return rows
      .filter(({ name }) => NAME.test(name))
      .map(({ name }) => {
        const [, year, month, day] = /(\d+)(\d\d)(\d\d)$/.exec(name) ?? []
        return { name, at: Date.UTC(Number(year), Number(month) - 1, Number(day)) }
      })
  }

  /** Whether an attempt of that day has a log that has not expired. */
  async #hasLogs(at: number): Promise<boolean> {
    const found = await this.#db
      .selectFrom('attempts')
      .select('id')
      .where('id', '>=', lowestId(at))
      .where('id', '<', lowestId(at + DAY_MS))
      .where('logExpiredAt', 'is', null)
      .limit(1)
      .executeTakeFirst()
    return found !== undefined
  }
}
