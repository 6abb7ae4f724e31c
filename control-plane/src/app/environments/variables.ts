// Custom variables of an environment: callers can read keys but only write values. What an environment gets also comes
// from the levels of its project (app/projects/variables.ts).
import { AppError, invalidFields } from '@berth/shared'
import {
  type ProjectLevel,
  VARIABLES_HINT,
  type VariableLevel,
  type VariablesPatch,
  type VariablesPatched,
} from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import {
  bytesOf,
  changedKeys,
  effectiveVariables,
  type Fingerprinted,
} from '../../domain/environments/variable-levels.ts'
import {
  checkChange,
  checkNew,
  checkValues,
  limitProblems,
  sizesOf,
  type Values,
} from '../../domain/environments/variables.ts'
import type { Db } from '../../store/engine/db.ts'
import {
  type Environment,
  lockEnvironment,
  updateEnvironment,
} from '../../store/environments/environments.ts'
import {
  deleteVariables,
  insertVariableChanges,
  listChangedAmong,
  listVariables,
  type SealedVariable,
  upsertVariables,
} from '../../store/environments/variables.ts'
import { listUserNames } from '../../store/people/people.ts'
import { listProjectVariables } from '../../store/projects/variables.ts'
import { loadEnvironment, requireUnprotected } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change, emitEnvironment } from '../core/transaction.ts'
import { generateValues, inEnvironment, sealVariables } from './sealed-variables.ts'
import { variablesChanged } from './views.ts'

export interface VariableView {
  key: string
  level: VariableLevel
  shadows: ProjectLevel[]
  updatedAt: number
  updatedBy: number
  updatedByName: string
  changedSinceDeployment: boolean
}

/** The environment's own variables and those of its project's levels. */
async function listSources(db: Db, { id, projectId }: Pick<Environment, 'id' | 'projectId'>) {
  const own = (await listVariables(db, id)).map((row) => ({
    ...row,
    level: 'environment' as const,
    forks: true,
  }))
  const levels = await listProjectVariables(db, projectId)
  return [...own, ...levels.map((row) => ({ ...row, revision: 0 }))]
}

/** One for each key that the environment gets. */
export async function listEnvironmentVariables(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  level?: VariableLevel,
): Promise<VariableView[]> {
  const environment = await loadEnvironment(ctx.db, caller, environmentId, 'read')
  const all = effectiveVariables(await listSources(ctx.db, environment), environment)
  const shown = [...all.values()].filter(({ row }) => level === undefined || row.level === level)
  const names = await listUserNames(ctx.db, [...new Set(shown.map(({ row }) => row.updatedBy))])
  const deployed = environment.deployedVariablesRevision ?? 0
  const keys = shown.map(({ row }) => row.key)
  const changed = await listChangedAmong(ctx.db, environmentId, deployed, keys)
  return shown.map(({ row, shadows }) => ({
    key: row.key,
    level: row.level,
    shadows,
    updatedAt: row.updatedAt,
    updatedBy: row.updatedBy,
    updatedByName: names.get(row.updatedBy) ?? '',
    changedSinceDeployment: row.revision > deployed || changed.has(row.key),
  }))
}

/** Checks a request before anything is encrypted, and makes its random values. */
export function readChange(asked: VariablesPatch): Values {
  const given = checkValues(asked.set ?? {}, 'set')
  const made = checkValues(generateValues(asked.generate), 'generate')
  const values = new Map([...given.values, ...made.values])
  const problems = [...given.problems, ...made.problems, ...checkChange(asked)]
  // a body can hold a hundred thousand keys
  if (problems.length === 0) problems.push(...limitProblems(sizesOf(values), 'set'))
  if (problems.length > 0) throw invalidFields(problems)
  return values
}

/** What a change does to the rows of one environment or level. */
export interface Changed {
  set: SealedVariable[]
  unset: string[]
  unchanged: string[]
  missing: string[]
  /** The lengths of all values afterwards. */
  after: Map<string, number>
}

/** Compares a request with the rows that exist. */
export function compareChange(
  existing: readonly { key: string; fingerprint: string | null; bytes: number }[],
  sealed: readonly SealedVariable[],
  asked: VariablesPatch,
): Changed {
  const before = new Map(existing.map((row) => [row.key, row]))
  const taken = checkNew(asked.generate ?? {}, before)
  if (taken.length > 0) throw invalidFields(taken)
  const isSame = (v: SealedVariable) => before.get(v.key)?.fingerprint === v.fingerprint
  const set = sealed.filter((v) => !isSame(v))
  const wanted = [...new Set(asked.unset ?? [])]
  const unset = wanted.filter((key) => before.has(key))
  const after = new Map(existing.map((row) => [row.key, row.bytes]))
  for (const key of unset) after.delete(key)
  for (const v of set) after.set(v.key, v.bytes)
  return {
    set,
    unset,
    unchanged: sealed.filter(isSame).map((v) => v.key),
    missing: wanted.filter((key) => !before.has(key)),
    after,
  }
}

/** All or nothing. Allowed while a deployment runs, and applies to the next one. */
export async function changeVariables(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  asked: VariablesPatch,
): Promise<VariablesPatched> {
  await loadEnvironment(ctx.db, caller, environmentId, 'variables:write')
  const values = readChange(asked)
  return change(ctx, (c) => applyChange(ctx, c, caller, environmentId, values, asked))
}

async function applyChange(
  ctx: Context,
  c: Change,
  caller: Caller,
  environmentId: number,
  values: Values,
  asked: VariablesPatch,
): Promise<VariablesPatched> {
  const environment = await lockEnvironment(c.db, environmentId)
  if (!environment) throw new AppError('not_found', 'It was just removed.')
  await requireUnprotected(c.db, caller, environment)
  if (environment.removingAt !== null) {
    throw new AppError('environment_removing', `${environment.identifier} is being removed.`)
  }
  const sealed = await sealVariables(ctx, c, inEnvironment(environment), values)
  const made = compareChange(await listVariables(c.db, environmentId), sealed, asked)
  const tooMuch = limitProblems(made.after, 'set')
  if (tooMuch.length === 0) tooMuch.push(...(await mergedProblems(c.db, environment, made, 'set')))
  if (tooMuch.length > 0) throw invalidFields(tooMuch)
  const keys = { set: made.set.map((v) => v.key), unset: made.unset }
  const touched = [...new Set([...keys.set, ...keys.unset])]
  const revision = environment.variablesRevision + (touched.length > 0 ? 1 : 0)
  if (touched.length > 0) {
    await deleteVariables(c.db, environmentId, made.unset)
    const by = { userId: caller.userId, now: c.now, revision }
    await upsertVariables(c.db, environmentId, made.set, by)
    await recordChanged(c, environment, touched, keys)
  }
  const { organizationId } = environment
  const subject: [string, number] = ['environment', environmentId]
  await auditCaller(c, caller, organizationId, 'variables.change', subject, keys)
  const flag = variablesChanged({ ...environment, variablesRevision: revision })
  return {
    ...keys,
    unchanged: made.unchanged,
    missing: made.missing,
    keys: [...made.after.keys()].toSorted(),
    variables_changed: flag,
    hint: flag ? VARIABLES_HINT : null,
  }
}

/** Raises the revision of an environment whose values changed: it is flagged until the next deployment. */
export async function recordChanged(
  c: Change,
  environment: Environment,
  touched: readonly string[],
  keys: { set: string[]; unset: string[] },
): Promise<void> {
  const revision = environment.variablesRevision + 1
  await insertVariableChanges(c.db, environment.id, revision, touched)
  await updateEnvironment(c.db, environment.id, { variablesRevision: revision, updatedAt: c.now })
  emitEnvironment(c, environment, 'environment.updated', { variables: keys })
}

/** From now on the environment gets only what forks may have. */
export async function recordFork(c: Change, id: number): Promise<void> {
  const environment = await lockEnvironment(c.db, id)
  if (!environment || environment.fromFork) return
  await updateEnvironment(c.db, id, { fromFork: 1 })
  const sources = await listSources(c.db, environment)
  const before = effectiveVariables(sources, environment)
  const after = effectiveVariables(sources, { ...environment, fromFork: true })
  const keys = changedKeys(before, after)
  if (keys.length === 0) return
  const [set, unset] = [true, false].map((is) => keys.filter((key) => after.has(key) === is))
  await recordChanged(c, environment, keys, { set: set ?? [], unset: unset ?? [] })
}

/** Own variables and those of the levels together have the same limits as own ones alone. */
export async function mergedProblems(
  db: Db,
  environment: Pick<Environment, 'projectId' | 'type' | 'fromFork' | 'identifier'>,
  { after }: Pick<Changed, 'after'>,
  field: string,
) {
  const own = [...after].map(
    ([key, bytes]): Fingerprinted => ({
      key,
      bytes,
      level: 'environment',
      forks: true,
      fingerprint: null,
    }),
  )
  const rows = [...own, ...(await listProjectVariables(db, environment.projectId))]
  const where = ` in ${environment.identifier} with those of its project`
  return limitProblems(bytesOf(effectiveVariables(rows, environment)), field, where)
}
