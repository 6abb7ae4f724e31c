// Secrets that are shown once, at an address that survives a reload until they are confirmed.
import { z } from 'zod'
import { confirmSecret, readSecret } from '../../../app/people/one-time-secrets.ts'
import { time } from '../../serializers/fields.ts'
import { browserCall, router } from '../base.ts'

const One = z.strictObject({ id: z.string().max(64) })

export const secretRouter = router({
  get: browserCall.input(One).query(async ({ ctx: { ctx, caller }, input }) => {
    const { expiresAt, ...shown } = await readSecret(ctx, caller, input.id)
    return { ...shown, expires_at: time(expiresAt) }
  }),
  confirm: browserCall.input(One).mutation(async ({ ctx: { ctx, caller }, input }) => {
    await confirmSecret(ctx, caller, input.id)
    return null
  }),
})
