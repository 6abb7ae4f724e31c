// Custom variables of a project's levels, which reach all its environments, all previews or all manual ones. Callers can
// read keys but only write values. A change counts in each environment that gets another value by it, so it is refused
// if one of them is protected by another user.
import { AppError, invalidFields } from '@berth/shared'
import {
  PROJECT_LEVELS,
  type ProjectLevel,
  type ProjectVariablesPatch,
  type ProjectVariablesPatched,
  VARIABLES_HINT,
  type VariableLevel,
} from '@berth/shared/api'
import type { Context } from '../../context.ts'
import { type Caller, mayChangeProtected } from '../../domain/core/access.ts'
import {
  bytesOf,
  changedKeys,
  effectiveVariables,
  type Fingerprinted,
  levelsOf,
} from '../../domain/environments/variable-levels.ts'
import { checkForks, limitProblems, type Values } from '../../domain/environments/variables.ts'
import {
  type Environment,
  listEnvironments,
  lockEnvironment,
} from '../../store/environments/environments.ts'
import { listVariablesOf } from '../../store/environments/variables.ts'
import { listUserNames } from '../../store/people/people.ts'
import { lockProject, type Project, touchProject } from '../../store/projects/projects.ts'
import {
  deleteProjectVariables,
  listProjectVariables,
  type ProjectVariable,
  updateForks,
  upsertProjectVariables,
} from '../../store/projects/variables.ts'
import { loadProject } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change, emit } from '../core/transaction.ts'
import { inLevel, sealVariables } from '../environments/sealed-variables.ts'
import {
  type Changed,
  compareChange,
  readChange,
  recordChanged,
} from '../environments/variables.ts'

interface Shadow {
  level: VariableLevel
  environment: { id: number; identifier: string } | null
}

export interface ProjectVariableView extends ProjectVariable {
  updatedByName: string
  shadowedBy: Shadow[]
}

/** Keys of all levels, or of one, from far to near. */
export async function listProjectVariableViews(
  ctx: Context,
  caller: Caller,
  projectId: number,
  level?: ProjectLevel,
): Promise<ProjectVariableView[]> {
  await loadProject(ctx.db, caller, projectId, 'read')
  const rows = (await listProjectVariables(ctx.db, projectId)).sort(fromFarToNear)
  const environments = await listEnvironments(ctx.db, projectId)
  const own = new Set(
    (await listVariablesOf(ctx.db, idsOf(environments))).map((v) => `${v.environmentId} ${v.key}`),
  )
  const names = await listUserNames(ctx.db, [...new Set(rows.map((row) => row.updatedBy))])
  const shadowsOf = ({ key, level: here }: ProjectVariable): Shadow[] => [
    ...rows
      .filter((row) => here === 'project' && row.level !== 'project' && row.key === key)
      .map((row) => ({ level: row.level, environment: null })),
    ...environments
      .filter((e) => levelsOf(e.type).includes(here) && own.has(`${e.id} ${key}`))
      .map(({ id, identifier }) => ({
        level: 'environment' as const,
        environment: { id, identifier },
      })),
  ]
  return rows
    .filter((row) => level === undefined || row.level === level)
    .map((row) => ({
      ...row,
      updatedByName: names.get(row.updatedBy) ?? '',
      shadowedBy: shadowsOf(row),
    }))
}

const fromFarToNear = (a: ProjectVariable, b: ProjectVariable): number =>
  PROJECT_LEVELS.indexOf(a.level) - PROJECT_LEVELS.indexOf(b.level) || (a.key < b.key ? -1 : 1)

const idsOf = (environments: readonly Environment[]): number[] => environments.map(({ id }) => id)

/** All or nothing. */
export async function changeProjectVariables(
  ctx: Context,
  caller: Caller,
  projectId: number,
  asked: ProjectVariablesPatch,
): Promise<ProjectVariablesPatched> {
  await loadProject(ctx.db, caller, projectId, 'project:write')
  const values = readChange(asked)
  return change(ctx, (c) => applyChange(ctx, c, caller, projectId, values, asked))
}

async function applyChange(
  ctx: Context,
  c: Change,
  caller: Caller,
  projectId: number,
  values: Values,
  asked: ProjectVariablesPatch,
): Promise<ProjectVariablesPatched> {
  const project = await lockProject(c.db, projectId)
  if (!project) throw new AppError('not_found', 'It was just removed.')
  if (project.status === 'deleting') {
    throw new AppError('project_deleting', `${project.name} is being deleted.`)
  }
  const { level } = asked
  const before = await listProjectVariables(c.db, projectId)
  const existing = before.filter((row) => row.level === level)
  const sealed = await sealVariables(ctx, c, inLevel(project, level), values)
  const made = compareChange(existing, sealed, asked)
  const switched = readSwitches(existing, made, asked)
  const after = rowsAfter(before, level, made, switched)
  const affected = await listAffected(c, projectId, before, after)
  refuseTooMuch(after, affected)
  await refuseProtected(c, caller, affected)
  const place = { projectId, level }
  const stamp = { updatedAt: c.now, updatedBy: caller.userId }
  await deleteProjectVariables(c.db, place, made.unset)
  await upsertProjectVariables(c.db, place, made.set, stamp)
  await updateForks(c.db, place, switched.on, { ...stamp, forks: true })
  await updateForks(c.db, place, switched.off, { ...stamp, forks: false })
  const keys = { set: made.set.map((v) => v.key), unset: made.unset }
  const changed = affected.filter((one) => one.keys.length > 0)
  for (const one of changed) {
    const isSet = (key: string): boolean => one.after.has(key)
    const { keys: touched } = one
    await recordChanged(c, one.environment, touched, {
      set: touched.filter(isSet),
      unset: touched.filter((key) => !isSet(key)),
    })
  }
  const forks = { forks_on: switched.on, forks_off: switched.off }
  await record(c, caller, project, { level, ...keys, ...forks })
  return {
    level,
    ...keys,
    unchanged: made.unchanged,
    missing: made.missing,
    keys: [...made.after.keys()].toSorted(),
    forks: [...switched.on, ...switched.off].toSorted(),
    environments: changed.map(({ environment: { id, identifier }, keys }) => ({
      id,
      identifier,
      keys,
    })),
    variables_changed: changed.length > 0,
    hint: changed.length > 0 ? VARIABLES_HINT : null,
  }
}

async function record(
  c: Change,
  caller: Caller,
  { id, organizationId }: Project,
  details: { level: ProjectLevel; set: string[]; unset: string[] } & Record<string, unknown>,
): Promise<void> {
  await auditCaller(c, caller, organizationId, 'variables.change', ['project', id], details)
  await touchProject(c.db, id, c.now)
  const { level, set, unset } = details
  emit(c, { organizationId, projectId: id }, 'project.updated', {
    variables: { level, set, unset },
  })
}

interface Switched {
  on: string[]
  off: string[]
}

function readSwitches(
  existing: readonly ProjectVariable[],
  { after }: Changed,
  { level, forks = {} }: ProjectVariablesPatch,
): Switched {
  const problems = checkForks(forks, level, after)
  if (problems.length > 0) throw invalidFields(problems)
  const isOn = new Map(existing.map((row) => [row.key, row.forks]))
  const moved = (to: boolean): string[] =>
    Object.keys(forks)
      .filter((key) => forks[key] === to && (isOn.get(key) ?? false) !== to)
      .toSorted()
  return { on: moved(true), off: moved(false) }
}

/** All levels as they will be. */
function rowsAfter(
  before: readonly ProjectVariable[],
  level: ProjectLevel,
  { set, unset }: Changed,
  { on, off }: Switched,
): Fingerprinted[] {
  const rows = new Map(
    before
      .filter((row) => row.level === level)
      .map((row): [string, Fingerprinted] => [row.key, row]),
  )
  for (const key of unset) rows.delete(key)
  for (const { key, fingerprint, bytes } of set) {
    rows.set(key, { key, level, fingerprint, bytes, forks: rows.get(key)?.forks ?? false })
  }
  for (const [key, row] of rows) {
    if (on.includes(key)) rows.set(key, { ...row, forks: true })
    if (off.includes(key)) rows.set(key, { ...row, forks: false })
  }
  return [...before.filter((row) => row.level !== level), ...rows.values()]
}

interface Affected {
  environment: Environment
  /** Keys whose value changes there. */
  keys: string[]
  after: ReturnType<typeof effectiveVariables<Fingerprinted>>
}

/** What the environments get before and after. Each is locked, so that its own variables stay as they are. */
async function listAffected(
  c: Change,
  projectId: number,
  before: readonly Fingerprinted[],
  after: readonly Fingerprinted[],
): Promise<Affected[]> {
  const ids = idsOf(await listEnvironments(c.db, projectId)).toSorted((a, b) => a - b)
  const environments: Environment[] = []
  for (const id of ids) {
    const environment = await lockEnvironment(c.db, id)
    if (environment && environment.removingAt === null) environments.push(environment)
  }
  const own = (await listVariablesOf(c.db, idsOf(environments))).map((row) => ({
    ...row,
    level: 'environment' as const,
    forks: true,
  }))
  return environments.map((environment) => {
    const mine = own.filter((row) => row.environmentId === environment.id)
    const was = effectiveVariables<Fingerprinted>([...mine, ...before], environment)
    const is = effectiveVariables<Fingerprinted>([...mine, ...after], environment)
    return { environment, keys: changedKeys(was, is), after: is }
  })
}

/** Also in an environment that is created later with no variables of its own. */
function refuseTooMuch(after: readonly Fingerprinted[], affected: readonly Affected[]): void {
  const ofLevels = (type: Environment['type']) =>
    bytesOf(effectiveVariables(after, { type, fromFork: false }))
  const problems = [
    ...limitProblems(ofLevels('pull_request'), 'set', ' in a preview'),
    ...limitProblems(ofLevels('manual'), 'set', ' in a manual environment'),
    ...affected.flatMap(({ environment, after: all }) =>
      limitProblems(bytesOf(all), 'set', ` in ${environment.identifier} with its own`),
    ),
  ]
  if (problems.length > 0) throw invalidFields(problems.slice(0, PROBLEMS))
}

const PROBLEMS = 20

/** "Only its owner can change its variables" holds for the levels too, and no role overrides it. */
async function refuseProtected(
  c: Change,
  caller: Caller,
  affected: readonly Affected[],
): Promise<void> {
  const refused = affected.filter(
    ({ environment, keys }) => keys.length > 0 && !mayChangeProtected(caller, environment),
  )
  const [first] = refused
  if (!first) return
  const names = await listUserNames(c.db, [...new Set(refused.map((r) => r.environment.ownerId))])
  const said = refused.slice(0, PROBLEMS).map(({ environment: e, keys }) => {
    const owner = names.get(e.ownerId) ?? 'another user'
    return `${e.identifier} is protected by ${owner} and would get another value of ${keys.slice(0, 5).join(', ')}.`
  })
  throw new AppError(
    'environment_protected',
    `${said.join(' ')} Let its owner make this change or set the key in that environment first, or choose a level that does not reach it.`,
    {
      owner: {
        id: first.environment.ownerId,
        name: names.get(first.environment.ownerId) ?? 'another user',
      },
      environments: refused.map(({ environment: { id, identifier } }) => ({ id, identifier })),
    },
  )
}
