// The browser's own login: the first set-up, signing in and out, passwords, and the user's other browsers. Nothing here
// reveals whether an account exists.
import { VERSION } from '@berth/shared'
import { Id, Password, SetupRequest } from '@berth/shared/api'
import { z } from 'zod'
import { completeSetup, isSetupDone } from '../../../app/installation/setup.ts'
import { authenticateSession } from '../../../app/people/browser-callers.ts'
import {
  endOtherSessions,
  endSession,
  listOwnSessions,
} from '../../../app/people/browser-logins.ts'
import {
  beginProviderSignIn,
  changePassword,
  renewSession,
  requestReset,
  resetPassword,
  signIn,
  signInByPasskey,
  signOut,
} from '../../../app/people/browser-sign-in.ts'
import { beginUse } from '../../../app/people/factors/passkeys.ts'
import { findAwaiting, finishByCode } from '../../../app/people/factors/second-step.ts'
import { PasskeyUsed, passkeyObstacle } from '../../../identity/passkeys.ts'
import { requireQuota } from '../../../identity/quotas.ts'
import { serializeSession } from '../../serializers/dashboard.ts'
import { browserCall, openCall, router } from '../base.ts'

const Email = z.string().min(1).max(254)
/** Refuses only what cannot be a password. */
const Typed = z.string().min(1).max(1_000)

export const sessionRouter = router({
  /** A page's first query: whether there is an administrator, and who is signed in. Keeps the login alive. */
  get: openCall.query(async ({ ctx: { ctx, visitor } }) => {
    const { cookie, address, requestId } = visitor
    const setup_required = !(await isSetupDone(ctx.db))
    const who = await authenticateSession(ctx, { cookie }, { address, requestId })
    if (who) {
      requireQuota(await ctx.quotas.countRequest({ userId: who.user.id, tokenId: null }))
      visitor.setCookies(await renewSession(ctx, visitor))
    }
    const user = who ? { id: who.user.id, name: who.user.name, email: who.user.email } : null
    const awaiting = who ? undefined : await findAwaiting(ctx, cookie)
    const { oidc } = ctx.config
    return {
      setup_required,
      version: VERSION,
      user,
      /** The password was right, and the second factor is missing. */
      awaiting: awaiting
        ? {
            app: awaiting.hasApp,
            passkey: awaiting.hasPasskey,
            recovery_code: awaiting.hasRecoveryCode,
          }
        : null,
      provider: oidc ? { name: oidc.name, passwords: oidc.passwords } : null,
      passkeys: passkeyObstacle(ctx.baseUrl) === undefined,
    }
  }),
  /** Takes the token from the control plane's console, then signs in. */
  setUp: openCall
    .input(SetupRequest.extend({ password: Password }))
    .mutation(async ({ ctx: { ctx, visitor }, input }) => {
      await ctx.quotas.narrow.setUps.take(visitor.address)
      const { address, requestId } = visitor
      const made = await completeSetup(ctx, { ...input, withToken: false }, { address, requestId })
      visitor.setCookies(await signIn(ctx, { ...input, email: made.user.email }, visitor))
      return { user: made.user, organization: made.organization }
    }),
  signIn: openCall
    .input(z.strictObject({ email: Email, password: Typed }))
    .mutation(async ({ ctx: { ctx, visitor }, input }) => {
      visitor.setCookies(await signIn(ctx, input, visitor))
      return null
    }),
  /** A code of the app, or a recovery code. */
  secondFactor: openCall
    .input(z.strictObject({ code: z.string().min(1).max(64) }))
    .mutation(async ({ ctx: { ctx, visitor }, input }) => {
      await ctx.quotas.narrow.signIns.take(visitor.address)
      const { cookie, address, requestId } = visitor
      await finishByCode(ctx, { cookie, code: input.code }, { address, requestId })
      await ctx.quotas.narrow.signIns.giveBack(visitor.address)
      return null
    }),
  passkeyOptions: openCall.mutation(async ({ ctx: { ctx, visitor } }) => {
    await ctx.quotas.narrow.ceremonies.take(visitor.address)
    const awaiting = await findAwaiting(ctx, visitor.cookie)
    return beginUse(ctx, 'sign-in', awaiting?.login.userId)
  }),
  signInByPasskey: openCall
    .input(z.strictObject({ response: PasskeyUsed }))
    .mutation(async ({ ctx: { ctx, visitor }, input }) => {
      await ctx.quotas.narrow.signIns.take(visitor.address)
      visitor.setCookies(await signInByPasskey(ctx, input.response, visitor))
      await ctx.quotas.narrow.signIns.giveBack(visitor.address)
      return null
    }),
  /** Returns the address of the provider, for the browser to open. */
  beginProvider: openCall
    .input(
      z.strictObject({
        next: z
          .string()
          .max(2_000)
          .regex(/^\/(?![/\\])/),
      }),
    )
    .mutation(async ({ ctx: { ctx, visitor }, input }) => {
      await ctx.quotas.narrow.ceremonies.take(visitor.address)
      const { url, cookies } = await beginProviderSignIn(ctx, input.next, visitor)
      visitor.setCookies(cookies)
      return { url }
    }),
  signOut: openCall.mutation(async ({ ctx: { ctx, visitor } }) => {
    visitor.setCookies(await signOut(ctx, visitor))
    return null
  }),
  requestReset: openCall
    .input(z.strictObject({ email: Email }))
    .mutation(async ({ ctx: { ctx, visitor }, input }) => ({
      message: await requestReset(ctx, input.email, visitor),
    })),
  reset: openCall
    .input(z.strictObject({ token: z.string().min(1).max(200), password: Password }))
    .mutation(async ({ ctx: { ctx, visitor }, input }) => {
      await resetPassword(ctx, input, visitor)
      return null
    }),
  changePassword: browserCall
    .input(z.strictObject({ current_password: Typed, new_password: Password }))
    .mutation(async ({ ctx: { ctx, visitor, admission }, input }) => {
      const { current_password: currentPassword, new_password: newPassword } = input
      const { email } = admission.user
      const asked = { email, currentPassword, newPassword }
      visitor.setCookies(await changePassword(ctx, asked, visitor))
      return null
    }),
  list: browserCall.query(async ({ ctx: { ctx, caller, visitor } }) => {
    const views = await listOwnSessions(ctx, caller, visitor.cookie)
    return { sessions: views.map(serializeSession) }
  }),
  revokeOthers: browserCall.mutation(async ({ ctx: { ctx, caller, visitor } }) => ({
    ended: await endOtherSessions(ctx, caller, visitor.cookie),
  })),
  revoke: browserCall
    .input(z.strictObject({ session_id: Id }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      await endSession(ctx, caller, input.session_id)
      return null
    }),
})
