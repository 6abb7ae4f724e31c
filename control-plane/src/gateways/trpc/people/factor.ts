// A user's second factors and the secrets that wait to be saved: for browsers only. The app functions ask for a recent
// sign-in.
import { PEOPLE } from '@berth/shared'
import { Id } from '@berth/shared/api'
import { z } from 'zod'
import { beginApp, confirmApp, removeApp } from '../../../app/people/factors/authenticator-app.ts'
import { renewRecoveryCodes, viewFactors } from '../../../app/people/factors/factors.ts'
import {
  addPasskey,
  beginPasskey,
  beginUse,
  removePasskey,
  renamePasskey,
} from '../../../app/people/factors/passkeys.ts'
import { confirmByPasskey, confirmByPassword } from '../../../app/people/factors/second-step.ts'
import { PasskeyMade, PasskeyUsed } from '../../../identity/passkeys.ts'
import { serializeFactors } from '../../serializers/dashboard.ts'
import { browserCall, router } from '../base.ts'

const PasskeyName = z.string().trim().min(1).max(PEOPLE.passkeyNameChars)
const Typed = z.string().min(1).max(1_000)

/** With the cookie, which says how recent the sign-in is. */
const factorCall = browserCall.use(({ ctx, next }) => {
  const { caller, visitor, admission } = ctx
  const browsing = { caller, cookie: visitor.cookie, email: admission.user.email }
  return next({ ctx: { browsing } })
})

export const factorRouter = router({
  get: factorCall.query(async ({ ctx: { ctx, browsing } }) =>
    serializeFactors(await viewFactors(ctx, browsing)),
  ),
  /** The secret of a new app; the same one until a code confirms it. */
  beginApp: factorCall.mutation(({ ctx: { ctx, browsing } }) => beginApp(ctx, browsing)),
  confirmApp: factorCall
    .input(z.strictObject({ code: z.string().min(1).max(20) }))
    .mutation(async ({ ctx: { ctx, browsing }, input }) => ({
      secret_id: await confirmApp(ctx, browsing, input.code),
    })),
  removeApp: factorCall.mutation(async ({ ctx: { ctx, browsing } }) => {
    await removeApp(ctx, browsing)
    return null
  }),
  newRecoveryCodes: factorCall.mutation(async ({ ctx: { ctx, browsing } }) => ({
    secret_id: await renewRecoveryCodes(ctx, browsing),
  })),
  passkeyOptions: factorCall.mutation(({ ctx: { ctx, browsing } }) => beginPasskey(ctx, browsing)),
  addPasskey: factorCall
    .input(z.strictObject({ name: PasskeyName, response: PasskeyMade }))
    .mutation(async ({ ctx: { ctx, browsing }, input }) => ({
      secret_id: await addPasskey(ctx, browsing, input.name, input.response),
    })),
  renamePasskey: factorCall
    .input(z.strictObject({ passkey_id: Id, name: PasskeyName }))
    .mutation(async ({ ctx: { ctx, browsing }, input }) => {
      await renamePasskey(ctx, browsing, input.passkey_id, input.name)
      return null
    }),
  removePasskey: factorCall
    .input(z.strictObject({ passkey_id: Id }))
    .mutation(async ({ ctx: { ctx, browsing }, input }) => {
      await removePasskey(ctx, browsing, input.passkey_id)
      return null
    }),
  confirm: factorCall
    .input(z.strictObject({ password: Typed }))
    .mutation(async ({ ctx: { ctx, browsing }, input }) => {
      await confirmByPassword(ctx, browsing, input.password)
      return null
    }),
  confirmOptions: factorCall.mutation(({ ctx: { ctx, caller } }) =>
    beginUse(ctx, 'confirm', caller.userId),
  ),
  confirmByPasskey: factorCall
    .input(z.strictObject({ response: PasskeyUsed }))
    .mutation(async ({ ctx: { ctx, browsing }, input }) => {
      await confirmByPasskey(ctx, browsing, input.response)
      return null
    }),
})
