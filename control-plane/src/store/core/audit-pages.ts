// Reads pages of the audit log. A page walks one key that ends in the id, newest first: of a subject, a verb or an actor
// if the filter names one, otherwise of the organization. What the key does not hold is checked on each row, so such a
// page ends after a fixed number of rows of its key, full or not, and says where the next one continues.
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { AuditRow } from './audit.ts'

export interface AuditFilter {
  actorType?: string | undefined
  actorId?: string | undefined
  /** Exact, or a prefix when it ends with a dot. */
  verb?: string | undefined
  subjectType?: string | undefined
  subjectId?: string | undefined
  since?: number | undefined
  until?: number | undefined
  beforeId?: number | undefined
  /** Rows of a page. */
  limit: number
}

export interface AuditPage {
  rows: AuditRow[]
  /** The next page begins below this id; undefined: this is the last one. */
  next: number | undefined
}

/** Rows of a key that a page reads first; they fill most pages. */
const WALKED_FIRST = 100
/** Rows of a key that a page reads at most. */
const WALKED = 1_000
/** Ids rise with time, but not to the millisecond: clocks are adjusted, and transactions wait for each other. */
const SPARE_MS = 10 * 60_000

type Column = 'organizationId' | 'actorType' | 'actorId' | 'subjectType' | 'subjectId' | 'verb'
type Named = Partial<Record<Column, string | number>>

/** Parts of a walk are merged by id. */
interface Part {
  /** What each of its rows has in the key. */
  key: Named
  /** What remains to be checked on each row. */
  rest: SqlBool[]
}
type SqlBool = RawBuilder<boolean>

/** An expression has no key, so the walk stays in the order of its own. */
const allOf = (named: Named): SqlBool[] =>
  Object.entries(named).map(([name, value]) =>
    typeof value === 'number'
      ? sql<boolean>`${sql.ref(name)} + 0 = ${value}`
      : sql<boolean>`${sql.ref(name)} || '' = ${value}`,
  )

/** Lists the verbs of an area, such as `project.`, one step in the key for each. */
async function listVerbs(db: Db, organizationId: number, area: string): Promise<string[]> {
  const end = `${area.slice(0, -1)}/` // the character after the dot
  const { rows } = await sql<{ verb: string }>`with recursive area(verb) as (
    select (select min(verb) from audit
      where organization_id = ${organizationId} and verb >= ${area} and verb < ${end})
    union all
    select (select min(audit.verb) from audit
      where organization_id = ${organizationId} and audit.verb > area.verb and audit.verb < ${end})
    from area where area.verb is not null
  ) select verb from area where verb is not null`.execute(db)
  return rows.map(({ verb }) => verb)
}

async function planWalk(
  db: Db,
  organizationId: number | undefined,
  { actorType, actorId, subjectType, subjectId, verb }: AuditFilter,
): Promise<Part[]> {
  const named: Named = Object.fromEntries(
    Object.entries({ actorType, actorId, subjectType, subjectId, organizationId }).filter(
      ([, value]) => value !== undefined,
    ),
  )
  const isArea = verb?.endsWith('.')
  if (verb !== undefined && !isArea) named.verb = verb
  if (subjectType !== undefined && subjectId !== undefined)
    return split(named, ['subjectType', 'subjectId'])
  if (organizationId === undefined) return split(named, [])
  if (verb !== undefined) {
    const verbs = isArea ? await listVerbs(db, organizationId, verb) : [verb]
    return verbs.flatMap((one) => split({ ...named, verb: one }, ['organizationId', 'verb']))
  }
  const isWhole = actorType !== undefined && actorId !== undefined
  return split(named, isWhole ? ['organizationId', 'actorType', 'actorId'] : ['organizationId'])
}

function split(named: Named, columns: readonly Column[]): Part[] {
  const isKey = ([name]: [string, unknown]): boolean => columns.some((one) => one === name)
  const entries = Object.entries(named)
  const key = Object.fromEntries(entries.filter(isKey))
  return [{ key, rest: allOf(Object.fromEntries(entries.filter((one) => !isKey(one)))) }]
}

/** Ids between which the page is: a time becomes an id, and each row's own time decides. */
interface Bounds {
  after: number | undefined
  before: number | undefined
}

async function boundsOf(db: Db, { since, until, beforeId }: AuditFilter): Promise<Bounds> {
  const ids = db.selectFrom('audit').select('id').limit(1)
  const last = ids.orderBy('at', 'desc')
  const first = ids.orderBy('at')
  const [after, end] = await Promise.all([
    since === undefined ? undefined : last.where('at', '<', since - SPARE_MS).executeTakeFirst(),
    until === undefined ? undefined : first.where('at', '>=', until + SPARE_MS).executeTakeFirst(),
  ])
  const ends = [beforeId, end?.id].filter((id) => id !== undefined)
  return { after: after?.id, before: ends.length > 0 ? Math.min(...ends) : undefined }
}

function walk(db: Db, { key }: Part, { after, before }: Bounds) {
  let query = db.selectFrom('audit').select('id').orderBy('id', 'desc')
  for (const [name, value] of Object.entries(key)) {
    query = query.where(name as Column, '=', value as never)
  }
  if (after !== undefined) query = query.where('id', '>', after)
  return before === undefined ? query : query.where('id', '<', before)
}

/** Finds the id at which a walk of so many rows ends; undefined if it reaches its end before. */
async function findFloor(
  db: Db,
  parts: Part[],
  bounds: Bounds,
  walked: number,
): Promise<number | undefined> {
  const floors = await Promise.all(
    parts.map((part) => walk(db, part, bounds).offset(walked).limit(1).executeTakeFirst()),
  )
  const ids = floors.flatMap((row) => row?.id ?? [])
  return ids.length > 0 ? Math.max(...ids) : undefined
}

interface Wanted extends Bounds, Pick<AuditFilter, 'since' | 'until' | 'limit'> {}

/** Reads a page of merged walks, newest first. */
async function readPage(
  db: Db,
  parts: Part[],
  wanted: Wanted,
  walked = WALKED_FIRST,
): Promise<AuditPage> {
  if (parts.length === 0) return { rows: [], next: undefined }
  const { limit } = wanted
  const isChecked = parts.some(({ rest }) => rest.length > 0)
  const floor = isChecked ? await findFloor(db, parts, wanted, walked) : undefined
  const rows = await readAbove(db, parts, { ...wanted, after: floor ?? wanted.after })
  if (rows.length > limit) return { rows: rows.slice(0, limit), next: rows[limit - 1]?.id }
  if (floor === undefined) return { rows, next: undefined }
  return walked < WALKED ? readPage(db, parts, wanted, WALKED) : { rows, next: floor + 1 }
}

/** One row more than the page has, if there is one. */
function readAbove(db: Db, parts: Part[], { since, until, limit, ...bounds }: Wanted) {
  const ids = parts
    .map((part) => {
      let query = walk(db, part, bounds)
      for (const check of part.rest) query = query.where(check)
      if (since !== undefined) query = query.where('at', '>=', since)
      if (until !== undefined) query = query.where('at', '<', until)
      return db.selectFrom(query.limit(limit + 1).as('part')).select('id')
    })
    .reduce((all, part) => all.unionAll(part))
  return db
    .selectFrom('audit')
    .selectAll()
    .where('id', 'in', ids)
    .orderBy('id', 'desc')
    .limit(limit + 1)
    .execute()
}

/** Newest first. Without an organization, lists the whole installation. */
export async function listAudit(
  db: Db,
  organizationId: number | undefined,
  filter: AuditFilter,
): Promise<AuditPage> {
  const parts = await planWalk(db, organizationId, filter)
  const { since, until, limit } = filter
  return readPage(db, parts, { ...(await boundsOf(db, filter)), since, until, limit })
}

/** `environments of`: all of a project, also removed ones. */
export interface AuditSubject {
  type: 'project' | 'environment' | 'environments of'
  id: number
}

interface SubjectFilter {
  subjects: readonly AuditSubject[]
  verbs: readonly string[]
  /** A name that the details hold somewhere, in quotes. */
  text?: string | undefined
  beforeId?: number | undefined
  limit: number
}

/** What happened to some subjects, newest first. */
export function listSubjectAudit(
  db: Db,
  organizationId: number,
  { subjects, verbs, text, beforeId, limit }: SubjectFilter,
): Promise<AuditPage> {
  const rest: SqlBool[] = []
  if (text !== undefined) {
    const escaped = JSON.stringify(text).replaceAll(/[\\%_]/g, '\\$&')
    rest.push(sql<boolean>`details like ${`%${escaped}%`} escape '\\'`)
  }
  const parts = subjects.flatMap(({ type, id }): Part[] =>
    type === 'environments of'
      ? verbs.map((verb) => ({ key: { organizationId, verb }, rest: [isOfProject(id), ...rest] }))
      : [
          {
            key: { subjectType: type, subjectId: String(id) },
            rest: [sql<boolean>`verb in (${sql.join(verbs)})`, ...rest],
          },
        ],
  )
  return readPage(db, parts, { after: undefined, before: beforeId, limit })
}

const isOfProject = (projectId: number): SqlBool => sql<boolean>`subject_type || '' = 'environment'
  and exists (select 1 from environments where environments.project_id = ${projectId}
    and environments.id = case when audit.subject_type = 'environment' then cast(audit.subject_id as integer) end)`
