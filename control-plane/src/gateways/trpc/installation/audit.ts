// The audit log, newest first: of one organization, or of the whole installation for platform administrators.
import { REST } from '@berth/shared'
import { AuditQuery, Id } from '@berth/shared/api'
import { z } from 'zod'
import { listOrganizationAudit, listWholeAudit } from '../../../app/core/audit.ts'
import type { AuditFilter, AuditPage } from '../../../store/core/audit-pages.ts'
import { serializeAudit } from '../../serializers/audit.ts'
import { call, router } from '../base.ts'
import { Page } from '../paging.ts'

const { actor, verb, subject, since, until } = AuditQuery.shape
const Query = z.strictObject({ actor, verb, subject, since, until, ...Page })
const InOrganization = Query.extend({ organization_id: Id })

function filterOf(query: z.infer<typeof Query>): AuditFilter {
  const [actorType, actorId] = query.actor?.split(':') ?? []
  const [subjectType, subjectId] = query.subject?.split(':') ?? []
  return {
    actorType,
    actorId,
    subjectType,
    subjectId,
    verb: query.verb,
    since: query.since === undefined ? undefined : Date.parse(query.since),
    until: query.until === undefined ? undefined : Date.parse(query.until),
    beforeId: query.cursor,
    limit: query.limit ?? REST.perPage,
  }
}

const present = ({ rows, next }: AuditPage) => ({
  entries: rows.map(serializeAudit),
  next: next ?? null,
})

export const auditRouter = router({
  list: call
    .input(InOrganization)
    .query(async ({ ctx: { ctx, caller }, input }) =>
      present(await listOrganizationAudit(ctx, caller, input.organization_id, filterOf(input))),
    ),
  all: call
    .input(Query.optional())
    .query(async ({ ctx: { ctx, caller }, input }) =>
      present(await listWholeAudit(ctx, caller, filterOf(input ?? {}))),
    ),
})
