// Pages of lists ordered by id: a page reads one row more than it shows, to know whether there is another page. `next`
// is the cursor of the next page.
import { REST } from '@berth/shared'
import { Id } from '@berth/shared/api'
import { z } from 'zod'

/** Spread into an input. */
export const Page = {
  /** `next` of the previous page. */
  cursor: Id.optional(),
  limit: z.int().min(1).max(REST.perPageMax).optional(),
}

interface Asked {
  cursor?: number | undefined
  limit?: number | undefined
}

export async function pageById<Row, Shown>(
  asked: Asked | undefined,
  load: (page: { limit: number; from: number | undefined }) => Promise<Row[]>,
  idOf: (row: Row) => number,
  present: (row: Row) => Shown,
): Promise<{ items: Shown[]; next: number | null }> {
  const limit = asked?.limit ?? REST.perPage
  const rows = await load({ limit: limit + 1, from: asked?.cursor })
  const last = rows.length > limit ? rows[limit - 1] : undefined
  return { items: rows.slice(0, limit).map(present), next: last === undefined ? null : idOf(last) }
}
