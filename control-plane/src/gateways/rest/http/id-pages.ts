// Serves a page of a list ordered by id, with the address of the next page in its Link header.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Context } from '../../../context.ts'
import { ById, linkPages, makeCursor, pageSize, readCursor } from './paging.ts'

export async function pageById<Row>(
  ctx: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  load: (page: { limit: number; from: number | undefined }) => Promise<Row[]>,
  idOf: (row: Row) => number,
): Promise<Row[]> {
  const query = request.query as { per_page?: number; cursor?: string }
  const size = pageSize(query)
  const rows = await load({ limit: size + 1, from: readCursor(query.cursor, ById)?.i })
  const last = rows[size - 1]
  const next = rows.length > size && last !== undefined ? makeCursor({ i: idOf(last) }) : undefined
  linkPages(ctx, request, reply, next)
  return rows.slice(0, size)
}

/** What a list is asked for that says itself where the next page begins, because a page of it may be short. */
export const askedPage = (query: {
  per_page?: number | undefined
  cursor?: string | undefined
}) => ({
  limit: pageSize(query),
  beforeId: readCursor(query.cursor, ById)?.i,
})

export const linkNext = (
  ctx: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  next: number | undefined,
): void => linkPages(ctx, request, reply, next === undefined ? undefined : makeCursor({ i: next }))
