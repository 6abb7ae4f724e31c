// Receives a delivery: verified, stored, decided within a second or by the next tick. A caller without the project's
// secret cannot learn whether the project exists: the same answer follows after the same work.
import { randomBytes } from 'node:crypto'
import { AppError } from '@berth/shared'
import type { Context } from '../../context.ts'
import { detectProvider, type HookHeaders } from '../../domain/forges/payloads/detect.ts'
import { type HookSecrets, verifySignature } from '../../keys/webhook-signature.ts'
import { isStorageFull, isStoreUnavailable } from '../../store/engine/faults.ts'
import { type Delivery, findDelivery } from '../../store/forges/webhook-deliveries.ts'
import { findProject } from '../../store/projects/projects.ts'
import { decideRow, recordDelivery } from './delivery-queue.ts'
import { noteRefused } from './rejected-deliveries.ts'
import { readWebhookSecrets, type Verified } from './webhook-secrets.ts'

interface IncomingDelivery {
  /** Undefined if the request has no id. */
  projectId: number | undefined
  headers: HookHeaders
  body: Buffer
  isForm: boolean
  address: string
}

const refused = (): AppError =>
  new AppError(
    'invalid_signature',
    "The signature is not valid. Put the project's webhook secret in at the repository host.",
  )

/** Returns the row in its state when the answer must go out. */
export async function receiveDelivery(ctx: Context, given: IncomingDelivery): Promise<Delivery> {
  const verified = await verify(ctx, given)
  const { projectId, headers, body, isForm } = given
  const provider = detectProvider(headers)
  if (!verified || projectId === undefined || provider === undefined) throw refused()
  const delivery = { projectId, provider, headers, body, isForm, verified }
  const id = await recordDelivery(ctx, delivery).catch((error: unknown) => {
    if (error instanceof AppError || isStorageFull(error) || isStoreUnavailable(error)) throw error
    ctx.log.error({ err: error }, 'a delivery could not be written down')
    throw new AppError('unavailable', 'The delivery could not be stored. Send it again.')
  })
  await decideInTime(ctx, id)
  const row = await findDelivery(ctx.db, id)
  if (!row) throw new Error('unreachable: it was just written')
  return row
}

/** A slow decision continues after the answer; the tick retries a failed one. */
async function decideInTime(ctx: Context, id: number): Promise<void> {
  const decided = decideRow(ctx, id).catch((error: unknown) =>
    ctx.log.error({ err: error, delivery: id }, 'a delivery could not be decided at once'),
  )
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ctx.config.webhookAnswerMs)
  await Promise.race([decided, promise])
  clearTimeout(timer)
}

async function verify(ctx: Context, given: IncomingDelivery): Promise<Verified | undefined> {
  const { projectId, headers, body, isForm, address } = given
  const provider = detectProvider(headers)
  const project = await findProject(ctx.db, projectId ?? 0)
  const secrets = await (project ? readWebhookSecrets(ctx, project) : openDecoy(ctx))
  const signed = { provider, headers, body, isForm, now: ctx.clock.now() }
  const found = verifySignature(signed, secrets)
  if (found && project) return { signedWith: found, currentSealed: project.webhookSecretSealed }
  if (project) {
    const reason = provider
      ? 'No accepted secret signed it: the host has another one, or its clock is off.'
      : 'No header of a repository host was sent.'
    noteRefused(ctx, project.id, { address, provider, reason })
  }
  return undefined
}

const decoys = new WeakMap<Context, string>()
const DECOY = { table: 'projects', column: 'webhook_secret_sealed', organizationId: 0, rowId: 0 }

/** A random secret that costs as much work as a real project's. */
async function openDecoy(ctx: Context): Promise<HookSecrets> {
  const secret = `whsec_${randomBytes(32).toString('base64')}`
  const sealed =
    decoys.get(ctx) ?? ctx.secretStore.seal('webhook-secret', DECOY, Buffer.from(secret))
  decoys.set(ctx, sealed)
  const plain = await ctx.secretStore.open('webhook-secret', DECOY, sealed)
  return { current: Buffer.from(plain).toString() }
}
