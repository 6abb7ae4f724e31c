// Custom variables: callers can read keys but only write values. A keyed fingerprint shows whether a value changed, so
// comparing decrypts nothing. Only app/environments/values.ts decrypts values, for dispatch.
import { createHmac, randomBytes } from 'node:crypto'
import { AppError, invalidFields } from '@berth/shared'
import { VARIABLES_HINT, type VariablesPatch, type VariablesPatched } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import {
  checkChange,
  checkValues,
  limitProblems,
  sizesOf,
  type Values,
} from '../../domain/environments/variables.ts'
import { SECRET_STORE } from '../../limits/keys.ts'
import { lockEnvironment, updateEnvironment } from '../../store/environments/environments.ts'
import {
  deleteVariables,
  insertVariableChanges,
  listVariables,
  type SealedVariable,
  upsertVariables,
  type Variable,
} from '../../store/environments/variables.ts'
import {
  findOrganizationKey,
  insertOrganizationKey,
} from '../../store/installation/organization-keys.ts'
import { listUserNames } from '../../store/people/people.ts'
import { loadEnvironment, requireUnprotected } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change, emitEnvironment } from '../core/transaction.ts'
import { variablesChanged } from './views.ts'

interface Place {
  id: number
  organizationId: number
}

export const variablePlace = (environment: Place, key: string) => ({
  table: 'variables',
  column: 'sealed',
  organizationId: environment.organizationId,
  rowId: `${environment.id}/${key}`,
})

export const fingerprintPlace = (organizationId: number) => ({
  table: 'organization_keys',
  column: 'wrapped',
  organizationId,
  rowId: 'fingerprint',
})

async function fingerprintKey(ctx: Context, c: Change, organizationId: number): Promise<Buffer> {
  const place = fingerprintPlace(organizationId)
  const found = await findOrganizationKey(c.db, organizationId, 'fingerprint')
  if (found) return Buffer.from(ctx.secretStore.open('variable', place, found.wrapped))
  const wrapped = ctx.secretStore.seal('variable', place, randomBytes(SECRET_STORE.kekBytes))
  const made = { organizationId, purpose: 'fingerprint', wrapped, createdAt: c.now } as const
  const kept = await insertOrganizationKey(c.db, made) // the other row, if two requests created it concurrently
  return Buffer.from(ctx.secretStore.open('variable', place, kept.wrapped))
}

/** Encrypts and fingerprints; bound to the environment and the key, so equal values elsewhere look different. */
export async function sealVariables(
  ctx: Context,
  c: Change,
  environment: Place,
  values: Values,
): Promise<SealedVariable[]> {
  const entries = [...values]
  if (entries.length === 0) return []
  const secret = await fingerprintKey(ctx, c, environment.organizationId)
  const made = entries.map(([key, value]) => ({
    key,
    sealed: ctx.secretStore.seal('variable', variablePlace(environment, key), Buffer.from(value)),
    bytes: Buffer.byteLength(value),
    fingerprint: createHmac('sha256', secret)
      .update(`${environment.id}\0${key}\0`)
      .update(value)
      .digest('base64url'),
  }))
  secret.fill(0)
  return made
}

export interface VariableView extends Variable {
  updatedByName: string
  changedSinceDeployment: boolean
}

export async function listEnvironmentVariables(
  ctx: Context,
  caller: Caller,
  environmentId: number,
): Promise<VariableView[]> {
  const environment = await loadEnvironment(ctx.db, caller, environmentId, 'read')
  const rows = await listVariables(ctx.db, environmentId)
  const names = await listUserNames(ctx.db, [...new Set(rows.map((r) => r.updatedBy))])
  const deployed = environment.deployedVariablesRevision ?? 0
  return rows.map((row) => ({
    ...row,
    updatedByName: names.get(row.updatedBy) ?? '',
    changedSinceDeployment: row.revision > deployed,
  }))
}

/** All or nothing. Allowed while a deployment runs, and applies to the next one. */
export async function changeVariables(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  asked: VariablesPatch,
): Promise<VariablesPatched> {
  await loadEnvironment(ctx.db, caller, environmentId, 'variables:write')
  const checked = checkValues(asked.set ?? {}, 'set')
  const problems = [...checked.problems, ...checkChange(asked)]
  // check the limits before encrypting: a body can hold a hundred thousand keys
  if (problems.length === 0) problems.push(...limitProblems(sizesOf(checked.values), 'set'))
  if (problems.length > 0) throw invalidFields(problems)
  return change(ctx, (c) => applyChange(ctx, c, caller, environmentId, checked.values, asked))
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
  const before = new Map((await listVariables(c.db, environmentId)).map((v) => [v.key, v]))
  const sealed = await sealVariables(ctx, c, environment, values)
  const isSame = (v: SealedVariable) => before.get(v.key)?.fingerprint === v.fingerprint
  const set = sealed.filter((v) => !isSame(v))
  const wanted = [...new Set(asked.unset ?? [])]
  const unset = wanted.filter((key) => before.has(key))
  const after = new Map([...before].map(([key, v]) => [key, v.bytes]))
  for (const key of unset) after.delete(key)
  for (const v of set) after.set(v.key, v.bytes)
  const tooMuch = limitProblems(after, 'set')
  if (tooMuch.length > 0) throw invalidFields(tooMuch)
  const changed = set.length + unset.length > 0
  const revision = environment.variablesRevision + (changed ? 1 : 0)
  if (changed) {
    await deleteVariables(c.db, environmentId, unset)
    await upsertVariables(c.db, environmentId, set, {
      userId: caller.userId,
      now: c.now,
      revision,
    })
    const touched = new Set([...set.map((v) => v.key), ...unset])
    await insertVariableChanges(c.db, environmentId, revision, [...touched])
    await updateEnvironment(c.db, environmentId, { variablesRevision: revision, updatedAt: c.now })
  }
  const keys = { set: set.map((v) => v.key), unset }
  const { organizationId } = environment
  const subject: [string, number] = ['environment', environmentId]
  await auditCaller(c, caller, organizationId, 'variables.change', subject, keys)
  if (changed) emitEnvironment(c, environment, 'environment.updated', { variables: keys })
  const flag = variablesChanged({ ...environment, variablesRevision: revision })
  return {
    ...keys,
    unchanged: sealed.filter(isSame).map((v) => v.key),
    missing: wanted.filter((key) => !before.has(key)),
    keys: [...after.keys()].toSorted(),
    variables_changed: flag,
    hint: flag ? VARIABLES_HINT : null,
  }
}
