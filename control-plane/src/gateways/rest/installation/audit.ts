// The audit log of an organization, and of the whole installation.
import { AuditEntry, AuditQuery, IdParams } from '@berth/shared/api'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { listOrganizationAudit, listWholeAudit } from '../../../app/core/audit.ts'
import type { Context } from '../../../context.ts'
import type { AuditFilter, AuditPage } from '../../../store/core/audit-pages.ts'
import { serializeAudit } from '../../serializers/audit.ts'
import { type Api, callerOf } from '../http/api.ts'
import { askedPage, linkNext } from '../http/id-pages.ts'

function filterOf(query: AuditQuery): AuditFilter {
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
    ...askedPage(query),
  }
}

export function auditRoutes(api: Api, ctx: Context): void {
  const present = (
    request: FastifyRequest,
    reply: FastifyReply,
    { rows, next }: AuditPage,
  ): AuditEntry[] => {
    linkNext(ctx, request, reply, next)
    return rows.map(serializeAudit)
  }
  api.get(
    '/api/organizations/:id/audit',
    {
      config: { needs: 'audit:read' },
      schema: {
        summary: 'Who changed what in an organization, newest first',
        params: IdParams,
        querystring: AuditQuery,
        response: { 200: z.array(AuditEntry) },
      },
    },
    async (request, reply) => {
      const filter = filterOf(request.query)
      const { id } = request.params
      const page = await listOrganizationAudit(ctx, callerOf(request), id, filter)
      return present(request, reply, page)
    },
  )
  api.get(
    '/api/admin/audit',
    {
      config: { needs: 'platform_admin' },
      schema: {
        summary: 'Who changed what in the installation, newest first',
        querystring: AuditQuery,
        response: { 200: z.array(AuditEntry) },
      },
    },
    async (request, reply) => {
      const filter = filterOf(request.query)
      const page = await listWholeAudit(ctx, callerOf(request), filter)
      return present(request, reply, page)
    },
  )
}
