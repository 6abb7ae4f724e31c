// Maps the sign-in library to our tables and hides what it must not know: the database holds only the SHA-256 of a
// login's token, disabled users do not exist for the library, and it never writes users. The library uses the machine's
// clock; times are converted to ours and back, so that a moved clock also moves logins and links.
import { AsyncLocalStorage } from 'node:async_hooks'
import { AppError } from '@berth/shared'
import { createAdapterFactory } from 'better-auth/adapters'
import { APIError, isAPIError } from 'better-auth/api'
import { beginBrowserSession, replacePassword, type SignInProof } from '../../app/people/sign-in.ts'
import type { Context } from '../../context.ts'
import type { From } from '../../domain/core/access.ts'
import { findAccountUser } from '../../store/people/accounts.ts'
import {
  type Condition,
  deleteIdentityRows,
  findIdentityRows,
  IDENTITY_TABLES,
  type IdentityRow,
  type IdentityTable,
  insertIdentityRow,
  updateIdentityRows,
} from '../../store/people/identity-rows.ts'
import { hashToken } from '../tokens.ts'

/** One request to the library: its origin for the audit rows, and the password hashes that it compared with. */
export interface Asked extends From {
  /** The user proves a password; the result is valid only while that password is current. */
  showsPassword: boolean
  /** How a session that begins here was proven. */
  method: SignInProof['method']
  /** The browser is signed in already, so that a new session asks for no second factor. */
  isSignedIn: boolean
  /** A passkey proved this user. */
  provenUser?: number | undefined
  /** Looks for sessions whose second factor is missing; otherwise for those that have it. */
  seeksAwaiting: boolean
  /** Hashes by user, as first read or written in this request. */
  passwords: Map<number, string>
  /** A storage error below the library, which itself reports only that something failed. */
  fault?: unknown
}
export const requestOrigin = new AsyncLocalStorage<Asked>()
export const from = (): From => {
  const { address = '', requestId = '' } = requestOrigin.getStore() ?? {}
  return { address, requestId }
}

/** Keeps the first hash, because a later read may be newer than what the password was compared with. */
function notePassword(row: IdentityRow): void {
  const passwords = requestOrigin.getStore()?.passwords
  const userId = Number(row.userId)
  if (typeof row.passwordHash !== 'string' || passwords?.has(userId)) return
  passwords?.set(userId, row.passwordHash)
}

const provenPassword = (userId: number): string =>
  requestOrigin.getStore()?.passwords.get(userId) ?? ''

/** Refuses as the library itself refuses a wrong password; a right one gets the true reason. */
const refuseAsWrong = (error: unknown): never => {
  if (!(error instanceof AppError) || error.code === 'password_sign_in_off') throw error
  throw APIError.from('UNAUTHORIZED', {
    code: 'INVALID_EMAIL_OR_PASSWORD',
    message: 'Invalid email or password',
  })
}

async function changePassword(ctx: Context, userId: number, hash: string): Promise<void> {
  const asked = requestOrigin.getStore()
  const proven = asked?.showsPassword ? provenPassword(userId) : undefined
  await replacePassword(ctx, userId, hash, from(), proven).catch(refuseAsWrong)
  asked?.passwords.set(userId, hash)
}

interface Where {
  field: string
  value: unknown
  operator: string
  connector: string
}

const OPERATORS: readonly string[] = ['eq', 'ne', 'lt', 'lte', 'gt', 'gte', 'in']

function toTable(model: string): IdentityTable {
  const table = IDENTITY_TABLES.find((name) => name === model)
  if (table === undefined) throw new Error(`the sign-in library asked for ${model}`)
  return table
}

/** Translates conditions. Tokens are compared by hash; `tokens` maps each hash back. */
function toConditions(
  table: IdentityTable,
  where: readonly Where[] | undefined,
): { conditions: Condition[]; tokens: Map<string, string> } {
  const tokens = new Map<string, string>()
  const hashed = (value: unknown): string => {
    const hash = hashToken(String(value))
    tokens.set(hash, String(value))
    return hash
  }
  const conditions = (where ?? []).map(({ field, value, operator, connector }): Condition => {
    if (!OPERATORS.includes(operator) || connector !== 'AND') {
      throw new Error(`the sign-in library asked by ${connector} ${operator}`)
    }
    const secret = table === 'browserSessions' && field === 'tokenHash'
    const asked = secret ? (Array.isArray(value) ? value.map(hashed) : hashed(value)) : value
    return { field, operator: operator as Condition['operator'], value: asked }
  })
  return { conditions, tokens }
}

/** Returns a row as the library expects it: with the token it asked by, and with user fields we do not keep. */
function present(table: IdentityTable, row: IdentityRow, tokens: Map<string, string>): IdentityRow {
  if (table === 'users') {
    return { ...row, emailVerified: true, image: null, updatedAt: row.createdAt }
  }
  if (table !== 'browserSessions') return row
  const hash = String(row.tokenHash)
  return { ...row, tokenHash: tokens.get(hash) ?? hash }
}

async function findRows(
  ctx: Context,
  model: string,
  where: readonly Where[] | undefined,
  page: { limit: number; newestFirst?: boolean },
): Promise<IdentityRow[]> {
  const table = toTable(model)
  const { conditions, tokens } = toConditions(table, where)
  const rows = await findIdentityRows(ctx.db, table, conditions, page)
  if (table === 'accounts') for (const row of rows) notePassword(row)
  const awaits = requestOrigin.getStore()?.seeksAwaiting ? 1 : 0
  return rows
    .filter((row) => table !== 'users' || row.disabledAt === null)
    .filter((row) => table !== 'browserSessions' || row.awaitsFactor === awaits)
    .map((row) => present(table, row, tokens))
}

async function createRow(ctx: Context, model: string, row: IdentityRow): Promise<IdentityRow> {
  const table = toTable(model)
  if (table === 'browserSessions') {
    const token = String(row.tokenHash)
    const tokenHash = hashToken(token)
    const userId = Number(row.userId)
    const session = { ...row, userId, tokenHash }
    const { method = 'password', isSignedIn = false } = requestOrigin.getStore() ?? {}
    const proof = { method, isSignedIn, passwordHash: provenPassword(userId) }
    const made = await beginBrowserSession(ctx, session, from(), proof).catch(refuseAsWrong)
    return present(table, made, new Map([[tokenHash, token]]))
  }
  if (table === 'accounts' && typeof row.passwordHash === 'string') {
    // setting a first password by a mailed link counts as a change of password
    await changePassword(ctx, Number(row.userId), row.passwordHash)
    const by: Condition = { field: 'userId', operator: 'eq', value: Number(row.userId) }
    const [made] = await findIdentityRows(ctx.db, table, [by], { limit: 1 })
    return made ?? row
  }
  if (table !== 'verifications') throw new Error(`the sign-in library made a row of ${model}`)
  return insertIdentityRow(ctx.db, table, row)
}

async function updateRows(
  ctx: Context,
  model: string,
  where: readonly Where[],
  change: IdentityRow,
): Promise<IdentityRow[]> {
  const table = toTable(model)
  const { conditions, tokens } = toConditions(table, where)
  if (table === 'accounts' && typeof change.passwordHash === 'string') {
    const rows = await findIdentityRows(ctx.db, table, conditions, { limit: 1 })
    for (const row of rows) {
      const userId = await findAccountUser(ctx.db, Number(row.id))
      if (userId !== undefined) await changePassword(ctx, userId, change.passwordHash)
    }
    return findIdentityRows(ctx.db, table, conditions, { limit: 1 })
  }
  if (table !== 'browserSessions') throw new Error(`the sign-in library changed ${model}`)
  const rows = await updateIdentityRows(ctx.db, table, conditions, change)
  return rows.map((row) => present(table, row, tokens))
}

async function deleteRows(
  ctx: Context,
  model: string,
  where: readonly Where[] | undefined,
): Promise<IdentityRow[]> {
  const table = toTable(model)
  if (table === 'users' || table === 'accounts') {
    throw new Error(`the sign-in library deleted ${model}`)
  }
  const { conditions, tokens } = toConditions(table, where)
  const rows = await deleteIdentityRows(ctx.db, table, conditions)
  return rows.map((row) => present(table, row, tokens))
}

/** Keeps the error, because the library turns it into a generic 500. */
export async function keepFault<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    const asked = requestOrigin.getStore()
    if (asked && !isAPIError(error)) asked.fault = error
    // the library prints other errors to the console
    throw error instanceof AppError ? new APIError('FORBIDDEN') : error
  }
}

/** The rows have the same shape; only the library's types promise more than a table can. */
const as = <T>(row: IdentityRow | undefined): T => (row ?? null) as T

export const ourTables = (ctx: Context) => {
  const aheadMs = () => ctx.clock.now() - Date.now()
  return createAdapterFactory({
    config: {
      adapterId: 'berth',
      adapterName: 'Berth',
      supportsNumericIds: true,
      customTransformInput: ({ data }) =>
        data instanceof Date ? data.getTime() + aheadMs() : data,
      customTransformOutput: ({ data, fieldAttributes }) =>
        fieldAttributes.type === 'date' && typeof data === 'number'
          ? new Date(data - aheadMs())
          : data,
    },
    adapter: () => ({
      create: async ({ model, data }) =>
        as(await keepFault(createRow(ctx, model, data as IdentityRow))),
      findOne: async ({ model, where }) =>
        as((await keepFault(findRows(ctx, model, where as Where[], { limit: 1 })))[0]),
      findMany: async ({ model, where, limit, sortBy }) =>
        (await keepFault(
          findRows(ctx, model, where as Where[], {
            limit,
            newestFirst: sortBy?.direction === 'desc',
          }),
        )) as never,
      update: async ({ model, where, update }) =>
        as((await keepFault(updateRows(ctx, model, where as Where[], update as IdentityRow)))[0]),
      updateMany: async ({ model, where, update }) =>
        (await keepFault(updateRows(ctx, model, where as Where[], update))).length,
      delete: async ({ model, where }) => {
        await keepFault(deleteRows(ctx, model, where as Where[]))
      },
      deleteMany: async ({ model, where }) =>
        (await keepFault(deleteRows(ctx, model, where as Where[]))).length,
      consumeOne: async ({ model, where }) =>
        as((await keepFault(deleteRows(ctx, model, where as Where[])))[0]),
      count: async ({ model, where }) =>
        (await keepFault(findRows(ctx, model, where as Where[], { limit: 1_000 }))).length,
    }),
  })
}
