// Who changed which variables and when, read from the audit log. It holds keys and never values.
import type { VariableLevel } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { levelsOf } from '../../domain/environments/variable-levels.ts'
import type { AuditRow } from '../../store/core/audit.ts'
import { type AuditSubject, listSubjectAudit } from '../../store/core/audit-pages.ts'
import { loadEnvironment, loadProject } from '../core/access.ts'

export interface VariableChangeView {
  id: number
  at: number
  by: { type: string; name: string | null }
  level: VariableLevel
  environment: { id: number; identifier: string | null } | null
  set: string[]
  unset: string[]
  forksOn: string[]
  forksOff: string[]
}

interface Page {
  /** Only changes of this key. */
  key?: string | undefined
  beforeId?: number | undefined
  limit: number
}

export interface VariableHistory {
  changes: VariableChangeView[]
  /** The next page begins below this id; undefined: this is the last one. */
  next: number | undefined
}

const VERBS = ['variables.change', 'environment.create']

/** Of an environment and of the levels that reach it, newest first. */
export async function listEnvironmentHistory(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  page: Page,
): Promise<VariableHistory> {
  const environment = await loadEnvironment(ctx.db, caller, environmentId, 'read')
  const { id, projectId, organizationId, type } = environment
  const subjects: AuditSubject[] = [
    { type: 'environment', id },
    { type: 'project', id: projectId },
  ]
  const levels = levelsOf(type)
  return read(ctx, organizationId, subjects, page, ({ level }) => levels.includes(level))
}

/** Of a project's levels and of its environments, also of removed ones; newest first. */
export async function listProjectHistory(
  ctx: Context,
  caller: Caller,
  projectId: number,
  level: VariableLevel | undefined,
  page: Page,
): Promise<VariableHistory> {
  const project = await loadProject(ctx.db, caller, projectId, 'read')
  const levels: AuditSubject[] = level === 'environment' ? [] : [{ type: 'project', id: projectId }]
  const isOfLevel = level !== undefined && level !== 'environment'
  const environments: AuditSubject[] = isOfLevel ? [] : [{ type: 'environments of', id: projectId }]
  return read(
    ctx,
    project.organizationId,
    [...levels, ...environments],
    page,
    (one) => level === undefined || one.level === level,
  )
}

/** Reads on while rows are about something else, but only so far: then the page is short, and the next one continues. */
async function read(
  ctx: Context,
  organizationId: number,
  subjects: readonly AuditSubject[],
  { key, beforeId, limit }: Page,
  isWanted: (one: VariableChangeView) => boolean,
): Promise<VariableHistory> {
  const changes: VariableChangeView[] = []
  let from = beforeId
  for (let batch = 0; batch < BATCHES; batch++) {
    const filter = { subjects, verbs: VERBS, text: key, beforeId: from, limit: BATCH }
    const { rows, next } = await listSubjectAudit(ctx.db, organizationId, filter)
    for (const one of rows.map(viewOf)) {
      const keys = [...one.set, ...one.unset, ...one.forksOn, ...one.forksOff]
      const isNamed = keys.length > 0 && (key === undefined || keys.includes(key))
      if (!isNamed || !isWanted(one)) continue
      if (changes.length === limit) return { changes, next: changes.at(-1)?.id }
      changes.push(one)
    }
    from = next
    if (from === undefined) break
  }
  return { changes, next: from }
}

const BATCH = 200
const BATCHES = 5

const texts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((one): one is string => typeof one === 'string') : []

function viewOf(row: AuditRow): VariableChangeView {
  const details = JSON.parse(row.details) as Record<string, unknown>
  const isProject = row.subjectType === 'project'
  return {
    id: row.id,
    at: row.at,
    by: { type: row.actorType, name: row.actorName },
    level: isProject ? (details.level as VariableLevel) : 'environment',
    environment: isProject ? null : { id: Number(row.subjectId), identifier: row.subjectName },
    set: texts(row.verb === 'environment.create' ? details.keys : details.set),
    unset: texts(details.unset),
    forksOn: texts(details.forks_on),
    forksOff: texts(details.forks_off),
  }
}
