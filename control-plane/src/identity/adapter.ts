// Puts the sign-in library onto our tables. What it must not know it does not get: the database holds a session's token
// as SHA-256 only, disabled users do not exist for it, users are never written by it. Its clock is the machine's; times
// are moved to ours and back, so that a moved clock moves sessions and links too.
import { AsyncLocalStorage } from 'node:async_hooks'
import { createAdapterFactory } from 'better-auth/adapters'
import { beginBrowserSession, type From, replacePassword } from '../app/sign-in.ts'
import type { Context } from '../context.ts'
import { findAccountUser } from '../store/accounts.ts'
import {
  type Condition,
  deleteIdentityRows,
  findIdentityRows,
  IDENTITY_TABLES,
  type IdentityRow,
  type IdentityTable,
  insertIdentityRow,
  updateIdentityRows,
} from '../store/identity-rows.ts'
import { hashToken } from './tokens.ts'

/** Who asks, for the audit rows of what the library does on their behalf. */
export const requestOrigin = new AsyncLocalStorage<From>()
const from = (): From => requestOrigin.getStore() ?? { address: '', requestId: '' }

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

/** Conditions in our words. Tokens are compared by hash; `tokens` gives back what each hash was. */
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

/** A row as the library expects it: with the token it asked by, and with the fields of users we do not keep. */
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
  return rows
    .filter((row) => table !== 'users' || row.disabledAt === null)
    .map((row) => present(table, row, tokens))
}

async function createRow(ctx: Context, model: string, row: IdentityRow): Promise<IdentityRow> {
  const table = toTable(model)
  if (table === 'browserSessions') {
    const token = String(row.tokenHash)
    const tokenHash = hashToken(token)
    const session = { ...row, userId: Number(row.userId), tokenHash }
    const made = await beginBrowserSession(ctx, session, from())
    return present(table, made, new Map([[tokenHash, token]]))
  }
  if (table === 'accounts' && typeof row.passwordHash === 'string') {
    // a first password by a mailed link is a change of password like any other
    await replacePassword(ctx, Number(row.userId), row.passwordHash, from())
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
      if (userId !== undefined) await replacePassword(ctx, userId, change.passwordHash, from())
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

/** The library's rows and ours are of one shape; its types only promise more than a table can. */
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
      create: async ({ model, data }) => as(await createRow(ctx, model, data as IdentityRow)),
      findOne: async ({ model, where }) =>
        as((await findRows(ctx, model, where as Where[], { limit: 1 }))[0]),
      findMany: async ({ model, where, limit, sortBy }) =>
        (await findRows(ctx, model, where as Where[], {
          limit,
          newestFirst: sortBy?.direction === 'desc',
        })) as never,
      update: async ({ model, where, update }) =>
        as((await updateRows(ctx, model, where as Where[], update as IdentityRow))[0]),
      updateMany: async ({ model, where, update }) =>
        (await updateRows(ctx, model, where as Where[], update)).length,
      delete: async ({ model, where }) => {
        await deleteRows(ctx, model, where as Where[])
      },
      deleteMany: async ({ model, where }) =>
        (await deleteRows(ctx, model, where as Where[])).length,
      consumeOne: async ({ model, where }) =>
        as((await deleteRows(ctx, model, where as Where[]))[0]),
      count: async ({ model, where }) =>
        (await findRows(ctx, model, where as Where[], { limit: 1_000 })).length,
    }),
  })
}
