// People of an organization: members with their roles, and invitations from both sides.
import {
  Id,
  InvitationAccept,
  InvitationCreate,
  InvitationRegister,
  MemberUpdate,
} from '@berth/shared/api'
import { z } from 'zod'
import {
  acceptInvitation,
  describeInvitation,
  type InvitationView,
  invite,
  listOrganizationInvitations,
  registerByInvitation,
  resendInvitation,
  withdrawInvitation,
} from '../../../app/people/invitations.ts'
import {
  changeMemberRole,
  listOrganizationMembers,
  removeMember,
} from '../../../app/people/members.ts'
import {
  serializeInvitation,
  serializeJoined,
  serializeMember,
  serializeOffer,
} from '../../serializers/people.ts'
import { call, openCall, router } from '../base.ts'
import { Page, pageById } from '../paging.ts'

const Organization = z.strictObject({ organization_id: Id, ...Page })
const Member = { organization_id: Id, user_id: Id }
const Invited = z.strictObject({ organization_id: Id, invitation_id: Id })

/** With the page of the link, for the person who made it. */
const withPage = (view: InvitationView) => ({
  ...serializeInvitation(view),
  secret_id: view.page ?? null,
})

export const memberRouter = router({
  list: call.input(Organization).query(async ({ ctx: { ctx, caller }, input }) => {
    const { items, next } = await pageById(
      input,
      ({ limit, from }) =>
        listOrganizationMembers(ctx, caller, input.organization_id, { limit, after: from }),
      (row) => row.userId,
      serializeMember,
    )
    return { members: items, next }
  }),
  update: call
    .input(z.strictObject({ ...Member, ...MemberUpdate.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { organization_id: id, user_id: userId, role } = input
      return serializeMember(await changeMemberRole(ctx, caller, id, userId, role))
    }),
  /** Removing oneself means leaving. */
  remove: call.input(z.strictObject(Member)).mutation(async ({ ctx: { ctx, caller }, input }) => {
    await removeMember(ctx, caller, input.organization_id, input.user_id)
    return null
  }),
})

export const invitationRouter = router({
  list: call.input(Organization).query(async ({ ctx: { ctx, caller }, input }) => {
    const { items, next } = await pageById(
      input,
      ({ limit, from }) =>
        listOrganizationInvitations(ctx, caller, input.organization_id, { limit, before: from }),
      (view) => view.invitation.id,
      withPage,
    )
    return { invitations: items, next }
  }),
  create: call
    .input(z.strictObject({ organization_id: Id, ...InvitationCreate.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { organization_id: id, ...asked } = input
      return withPage(await invite(ctx, caller, id, asked))
    }),
  resend: call.input(Invited).mutation(async ({ ctx: { ctx, caller }, input }) => {
    const { organization_id: id, invitation_id: invitationId } = input
    return withPage(await resendInvitation(ctx, caller, id, invitationId))
  }),
  withdraw: call.input(Invited).mutation(async ({ ctx: { ctx, caller }, input }) => {
    await withdrawInvitation(ctx, caller, input.organization_id, input.invitation_id)
    return null
  }),
  /** A mutation only in form, because the link must not appear in an address. */
  describe: openCall.input(InvitationAccept).mutation(async ({ ctx: { ctx, visitor }, input }) => {
    await ctx.quotas.narrow.invitations.take(visitor.address)
    return serializeOffer(await describeInvitation(ctx, input.token))
  }),
  register: openCall
    .input(InvitationRegister)
    .mutation(async ({ ctx: { ctx, visitor }, input }) => {
      await ctx.quotas.narrow.invitations.take(visitor.address)
      const { address, requestId } = visitor
      const joined = await registerByInvitation(ctx, input, { address, requestId })
      return { ...serializeJoined(joined), user: joined.user }
    }),
  accept: call
    .input(InvitationAccept)
    .mutation(async ({ ctx: { ctx, caller }, input }) =>
      serializeJoined(await acceptInvitation(ctx, caller, input.token)),
    ),
})
