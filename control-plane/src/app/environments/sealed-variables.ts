// Encrypts the values of custom variables and makes random ones. A keyed fingerprint shows whether a value changed, so
// comparing decrypts nothing. Only app/environments/values.ts decrypts values, for dispatch.
import { createHmac, randomBytes, randomInt } from 'node:crypto'
import { GENERATED } from '@berth/shared'
import type { ProjectLevel, VariablesPatch } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Values } from '../../domain/environments/variables.ts'
import type { Place } from '../../keys/secret-store.ts'
import { SECRET_STORE } from '../../limits/keys.ts'
import type { SealedVariable } from '../../store/environments/variables.ts'
import {
  findOrganizationKey,
  insertOrganizationKey,
} from '../../store/installation/organization-keys.ts'
import type { Change } from '../core/change.ts'

interface Owner {
  id: number
  organizationId: number
}

export const variablePlace = (environment: Owner, key: string) => ({
  table: 'variables',
  column: 'sealed',
  organizationId: environment.organizationId,
  rowId: `${environment.id}/${key}`,
})

export const projectVariablePlace = (project: Owner, level: string, key: string) => ({
  table: 'project_variables',
  column: 'sealed',
  organizationId: project.organizationId,
  rowId: `${project.id}/${level}/${key}`,
})

export const fingerprintPlace = (organizationId: number) => ({
  table: 'organization_keys',
  column: 'wrapped',
  organizationId,
  rowId: 'fingerprint',
})

/** Where values are kept. Each is bound to its place, so equal values elsewhere look different. */
interface Keeping {
  organizationId: number
  /** The place in fingerprints. */
  name: string
  placeOf(key: string): Place
}

export const inEnvironment = (environment: Owner): Keeping => ({
  organizationId: environment.organizationId,
  name: String(environment.id),
  placeOf: (key) => variablePlace(environment, key),
})

export const inLevel = (project: Owner, level: ProjectLevel): Keeping => ({
  organizationId: project.organizationId,
  name: `${level} of ${project.id}`,
  placeOf: (key) => projectVariablePlace(project, level, key),
})

async function fingerprintKey(ctx: Context, c: Change, organizationId: number): Promise<Buffer> {
  const place = fingerprintPlace(organizationId)
  const found = await findOrganizationKey(c.db, organizationId, 'fingerprint')
  if (found) return Buffer.from(await ctx.secretStore.open('variable', place, found.wrapped))
  const wrapped = ctx.secretStore.seal('variable', place, randomBytes(SECRET_STORE.kekBytes))
  const made = { organizationId, purpose: 'fingerprint', wrapped, createdAt: c.now } as const
  const kept = await insertOrganizationKey(c.db, made) // the other row, if two requests created it concurrently
  return Buffer.from(await ctx.secretStore.open('variable', place, kept.wrapped))
}

/** Encrypts and fingerprints. */
export async function sealVariables(
  ctx: Context,
  c: Change,
  { organizationId, name, placeOf }: Keeping,
  values: Values,
): Promise<SealedVariable[]> {
  const entries = [...values]
  if (entries.length === 0) return []
  const secret = await fingerprintKey(ctx, c, organizationId)
  const made = entries.map(([key, value]) => ({
    key,
    sealed: ctx.secretStore.seal('variable', placeOf(key), Buffer.from(value)),
    bytes: Buffer.byteLength(value),
    fingerprint: createHmac('sha256', secret)
      .update(`${name}\0${key}\0`)
      .update(value)
      .digest('base64url'),
  }))
  secret.fill(0)
  return made
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'

/** Letters and digits only, so that a value fits into an address and needs no quotes. */
export const generateValues = (asked: VariablesPatch['generate'] = {}): Record<string, string> =>
  Object.fromEntries(
    Object.entries(asked).map(([key, { length = GENERATED.usual }]) => [
      key,
      Array.from({ length }, () => ALPHABET[randomInt(ALPHABET.length)]).join(''),
    ]),
  )
