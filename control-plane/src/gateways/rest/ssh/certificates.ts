// SSH certificates of a server: issue, list, revoke; and the host authority keys.
import {
  IdParams,
  IssuedSshCertificate,
  IssuedSshQuery,
  LiveSshAccess,
  LiveSshQuery,
  SerialParams,
  SshCertificate,
  SshCertificateRequest,
  SshHostAuthority,
} from '@berth/shared/api'
import { z } from 'zod'
import { listHostAuthorities } from '../../../app/ssh/authorities.ts'
import {
  issueSshCertificate,
  listIssuedSshCertificates,
  listLiveSshAccess,
} from '../../../app/ssh/certificates.ts'
import { revokeSshCertificate } from '../../../app/ssh/revocation.ts'
import type { Context } from '../../../context.ts'
import {
  serializeCertificate,
  serializeHostAuthority,
  serializeIssued,
  serializeLive,
} from '../../serializers/ssh.ts'
import { type Api, callerOf } from '../http/api.ts'
import { ById, linkPages, makeCursor, pageSize, readCursor } from '../http/paging.ts'

declare module 'fastify' {
  interface FastifySchema {
    /** Shown in the API's own description. */
    summary?: string
  }
}

export function sshRoutes(api: Api, ctx: Context): void {
  api.post(
    '/api/servers/:id/ssh',
    {
      config: {
        needs: 'read', // the minimum; a shell needs more, by purpose
        policy: 'certificates',
        showsSecret: true, // only its holder keeps a certificate
        errors: [
          'environment_protected',
          'server_shell_disabled',
          'environment_removing',
          'validation_failed',
          'server_not_ready',
          'ssh_unavailable',
        ],
      },
      schema: {
        summary: 'Sign an SSH key for one purpose on a server',
        params: IdParams,
        body: SshCertificateRequest,
        response: { 201: SshCertificate },
      },
    },
    async (request, reply) => {
      const { id } = request.params
      const issued = await issueSshCertificate(ctx, callerOf(request), id, request.body)
      return reply.code(201).header('cache-control', 'no-store').send(serializeCertificate(issued))
    },
  )
  api.get(
    '/api/servers/:id/ssh',
    {
      config: { needs: 'audit:read' },
      schema: {
        summary: 'List the SSH certificates issued for a server',
        params: IdParams,
        querystring: IssuedSshQuery,
        response: { 200: z.array(IssuedSshCertificate) },
      },
    },
    async (request, reply) => {
      const limit = pageSize(request.query)
      const page = { beforeId: readCursor(request.query.cursor, ById)?.i, limit: limit + 1 }
      const { id } = request.params
      const rows = await listIssuedSshCertificates(ctx, callerOf(request), id, page)
      const shown = rows.slice(0, limit)
      const last = rows.length > limit ? shown.at(-1) : undefined
      linkPages(ctx, request, reply, last && makeCursor({ i: last.id }))
      return shown.map((row) => serializeIssued(row, ctx.clock.now()))
    },
  )
  api.delete(
    '/api/servers/:id/ssh/:serial',
    {
      config: { needs: 'read' }, // for the caller's own; others' certificates need server:write
      schema: {
        summary: 'Revoke an SSH certificate',
        params: SerialParams,
        response: { 202: IssuedSshCertificate },
      },
    },
    async (request, reply) => {
      const { id, serial } = request.params
      const row = await revokeSshCertificate(ctx, callerOf(request), id, serial)
      return reply.code(202).send(serializeIssued(row, ctx.clock.now()))
    },
  )
  api.get(
    '/api/ssh/sessions',
    {
      config: { needs: 'read' }, // the caller's own; everyone's need audit:read
      schema: {
        summary: 'Live SSH certificates and the sessions they hold, on all servers',
        querystring: LiveSshQuery,
        response: { 200: z.array(LiveSshAccess) },
      },
    },
    async (request) => {
      const everyone = request.query.everyone === 'true'
      const rows = await listLiveSshAccess(ctx, callerOf(request), everyone)
      return rows.map((row) => serializeLive(row, ctx.clock.now()))
    },
  )
  api.get(
    '/api/ssh/host_ca',
    {
      config: { needs: 'token' },
      schema: {
        summary: 'List the keys that vouch for the host keys of servers',
        response: { 200: z.array(SshHostAuthority) },
      },
    },
    async () => (await listHostAuthorities(ctx)).map(serializeHostAuthority),
  )
}
