// A user's own access tokens, and the decision about a device that wants to log in as them.
import { Id, TokenCreate, UserCodeRequest } from '@berth/shared/api'
import { z } from 'zod'
import { approveDevice, denyDevice, describeDevice } from '../../../app/people/device-login.ts'
import { createToken, listOwnTokens, revokeToken } from '../../../app/people/tokens.ts'
import { serializeDevice, serializeToken } from '../../serializers/people.ts'
import { browserCall, call, router } from '../base.ts'
import { Page, pageById } from '../paging.ts'

export const tokenRouter = router({
  list: call
    .input(z.strictObject(Page).optional())
    .query(async ({ ctx: { ctx, caller }, input }) => {
      const { items, next } = await pageById(
        input,
        ({ limit, from }) => listOwnTokens(ctx, caller, { limit, before: from }),
        (token) => token.id,
        serializeToken,
      )
      return { tokens: items, next }
    }),
  /** Returns the token itself, this once. */
  create: call.input(TokenCreate).mutation(async ({ ctx: { ctx, caller }, input }) => {
    const { token, secret, page } = await createToken(ctx, caller, input)
    return { ...serializeToken(token), token: secret, secret_id: page }
  }),
  revoke: call
    .input(z.strictObject({ token_id: Id }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      await revokeToken(ctx, caller, input.token_id)
      return null
    }),
})

/** The page `/device` shows the requesting device, then decides. Reading decides nothing, but wrong codes count. */
export const deviceRouter = router({
  describe: browserCall
    .input(UserCodeRequest)
    .mutation(async ({ ctx: { ctx, caller }, input }) =>
      serializeDevice(await describeDevice(ctx, caller, input.user_code)),
    ),
  approve: browserCall.input(UserCodeRequest).mutation(async ({ ctx: { ctx, caller }, input }) => {
    await approveDevice(ctx, caller, input.user_code)
    return { status: 'approved' as const }
  }),
  deny: browserCall.input(UserCodeRequest).mutation(async ({ ctx: { ctx, caller }, input }) => {
    await denyDevice(ctx, caller, input.user_code)
    return { status: 'denied' as const }
  }),
})
