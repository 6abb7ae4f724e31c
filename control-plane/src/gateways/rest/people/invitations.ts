// Invitations: managed by members with permission, accepted by the holder of the mailed link.
import {
  AcceptedMembership,
  IdParams,
  Invitation,
  InvitationAccept,
  InvitationCreate,
  InvitationDescription,
  InvitationParams,
  InvitationRegister,
  Paging,
  RegisteredMembership,
} from '@berth/shared/api'
import { z } from 'zod'
import {
  acceptInvitation,
  describeInvitation,
  invite,
  listOrganizationInvitations,
  registerByInvitation,
  resendInvitation,
  withdrawInvitation,
} from '../../../app/people/invitations.ts'
import type { Context } from '../../../context.ts'
import { serializeInvitation, serializeJoined, serializeOffer } from '../../serializers/people.ts'
import { type Api, callerOf } from '../http/api.ts'
import { pageById } from '../http/id-pages.ts'

export function invitationRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/organizations/:id/invitations',
    {
      config: { needs: 'member:write' },
      schema: {
        summary: 'Invitations of an organization; never their links',
        params: IdParams,
        querystring: Paging,
        response: { 200: z.array(Invitation) },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const rows = await pageById(
        ctx,
        request,
        reply,
        ({ limit, from }) =>
          listOrganizationInvitations(ctx, caller, request.params.id, { limit, before: from }),
        (view) => view.invitation.id,
      )
      return rows.map(serializeInvitation)
    },
  )
  api.post(
    '/api/organizations/:id/invitations',
    {
      config: {
        needs: 'member:write',
        errors: ['role_too_high', 'already_member', 'already_invited'],
      },
      schema: {
        summary: 'Invite a person by mail',
        params: IdParams,
        body: InvitationCreate,
        response: { 201: Invitation },
      },
    },
    async (request, reply) => {
      const made = await invite(ctx, callerOf(request), request.params.id, request.body)
      return reply.code(201).send(serializeInvitation(made))
    },
  )
  api.post(
    '/api/organizations/:id/invitations/:invitation_id/resend',
    {
      config: { needs: 'member:write', errors: ['role_too_high', 'already_member'] },
      schema: {
        summary: 'Send an invitation again; the former link dies',
        params: InvitationParams,
        response: { 202: Invitation },
      },
    },
    async (request, reply) => {
      const { id, invitation_id } = request.params
      const sent = await resendInvitation(ctx, callerOf(request), id, invitation_id)
      return reply.code(202).send(serializeInvitation(sent))
    },
  )
  api.delete(
    '/api/organizations/:id/invitations/:invitation_id',
    {
      config: { needs: 'member:write' },
      schema: {
        summary: 'Withdraw an invitation',
        params: InvitationParams,
        response: { 204: z.null() },
      },
    },
    async (request, reply) => {
      const { id, invitation_id } = request.params
      await withdrawInvitation(ctx, callerOf(request), id, invitation_id)
      return reply.code(204).send(null)
    },
  )
  api.post(
    '/api/invitations/accept',
    {
      config: {
        needs: 'token',
        errors: ['invitation_for_other_address', 'invitation_expired', 'already_member'],
      },
      schema: {
        summary: 'Accept an invitation with a token of the invited address',
        body: InvitationAccept,
        response: { 200: AcceptedMembership },
      },
    },
    async (request) =>
      serializeJoined(await acceptInvitation(ctx, callerOf(request), request.body.token)),
  )
}

/** For people without an account, who have only the link. Counted by address. */
export function openInvitationRoutes(api: Api, ctx: Context): void {
  const { invitations: tries } = ctx.quotas.narrow
  api.post(
    '/api/invitations/describe',
    {
      config: { needs: 'nothing', errors: ['invitation_expired'] },
      schema: {
        summary: 'What an invitation link offers',
        body: InvitationAccept,
        response: { 200: InvitationDescription },
      },
    },
    async (request, reply) => {
      await tries.take(request.ip)
      const offer = await describeInvitation(ctx, request.body.token)
      reply.header('cache-control', 'no-store')
      return serializeOffer(offer)
    },
  )
  api.post(
    '/api/invitations/register',
    {
      config: {
        needs: 'nothing',
        errors: ['invitation_expired', 'account_exists', 'already_member'],
      },
      schema: {
        summary: 'Make an account by an invitation',
        body: InvitationRegister,
        response: { 201: RegisteredMembership },
      },
    },
    async (request, reply) => {
      await tries.take(request.ip)
      const from = { address: request.ip, requestId: request.id }
      const joined = await registerByInvitation(ctx, request.body, from)
      return reply
        .code(201)
        .header('cache-control', 'no-store')
        .send({ ...serializeJoined(joined), user: joined.user })
    },
  )
}
