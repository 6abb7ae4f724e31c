// The audit log, newest first: of one organization, or of the whole installation for platform administrators.
import { AuditQuery, Id } from '@berth/shared/api'
import { z } from 'zod'
import { listOrganizationAudit, listWholeAudit } from '../../../app/core/audit.ts'
import type { AuditFilter } from '../../../store/core/audit.ts'
import { serializeAudit } from '../../serializers/audit.ts'
import { call, router } from '../base.ts'
import { Page, pageById } from '../paging.ts'

const { actor, verb, subject, since, until } = AuditQuery.shape
const Query = z.strictObject({ actor, verb, subject, since, until, ...Page })
const InOrganization = Query.extend({ organization_id: Id })

function filterOf(
  query: z.infer<typeof Query>,
  page: { limit: number; from?: number | undefined },
) {
  const [actorType, actorId] = query.actor?.split(':') ?? []
  const [subjectType, subjectId] = query.subject?.split(':') ?? []
  const filter: AuditFilter = {
    actorType,
    actorId,
    subjectType,
    subjectId,
    verb: query.verb,
    since: query.since === undefined ? undefined : Date.parse(query.since),
    until: query.until === undefined ? undefined : Date.parse(query.until),
    beforeId: page.from,
    limit: page.limit,
  }
  return filter
}

export const auditRouter = router({
  list: call.input(InOrganization).query(async ({ ctx: { ctx, caller }, input }) => {
    const { items, next } = await pageById(
      input,
      (page) => listOrganizationAudit(ctx, caller, input.organization_id, filterOf(input, page)),
      (row) => row.id,
      serializeAudit,
    )
    return { entries: items, next }
  }),
  all: call.input(Query.optional()).query(async ({ ctx: { ctx, caller }, input }) => {
    const { items, next } = await pageById(
      input,
      (page) => listWholeAudit(ctx, caller, filterOf(input ?? {}, page)),
      (row) => row.id,
      serializeAudit,
    )
    return { entries: items, next }
  }),
})
