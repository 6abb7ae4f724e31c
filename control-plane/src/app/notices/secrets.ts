// Addresses and signing secrets of channels. Both are bound to the channel; nothing but a request to the receiver
// contains them.
import { createHmac, randomBytes } from 'node:crypto'
import type { Context } from '../../context.ts'
import type { Place } from '../../keys/secret-store.ts'
import { NOTICES } from '../../limits/notices.ts'
import type { Channel } from '../../store/notices/channels.ts'

type ChannelRef = Pick<Channel, 'id' | 'organizationId'>
type ChannelSecret = 'url' | 'secret' | 'previous'

const COLUMNS: Record<ChannelSecret, string> = {
  url: 'url_sealed',
  secret: 'secret_sealed',
  previous: 'previous_secret_sealed',
}

export const channelPlace = (channel: ChannelRef, which: ChannelSecret): Place => ({
  table: 'notice_channels',
  column: COLUMNS[which],
  organizationId: channel.organizationId,
  rowId: channel.id,
})

export const sealForChannel = (
  ctx: Context,
  channel: ChannelRef,
  which: ChannelSecret,
  value: string,
): string => ctx.secretStore.seal('channel', channelPlace(channel, which), Buffer.from(value))

async function open(
  ctx: Context,
  channel: ChannelRef,
  which: ChannelSecret,
  sealed: string,
): Promise<string> {
  const place = channelPlace(channel, which)
  return Buffer.from(await ctx.secretStore.open('channel', place, sealed)).toString()
}

export const openUrl = async (ctx: Context, channel: Channel): Promise<URL> =>
  new URL(await open(ctx, channel, 'url', channel.urlSealed ?? ''))

export const makeSigningSecret = (): string =>
  `whsec_${randomBytes(NOTICES.secretBytes).toString('base64')}`

/** Newest first; the former one only as long as it signs too. */
export async function openSecrets(ctx: Context, channel: Channel): Promise<string[]> {
  const { secretSealed, previousSecretSealed, previousSecretUntil } = channel
  const isAccepted = (previousSecretUntil ?? 0) > ctx.clock.now()
  return [
    ...(secretSealed === null ? [] : [await open(ctx, channel, 'secret', secretSealed)]),
    ...(isAccepted && previousSecretSealed !== null
      ? [await open(ctx, channel, 'previous', previousSecretSealed)]
      : []),
  ]
}

/** The headers of Standard Webhooks: one signature for each secret, so that a receiver can rotate without a gap. */
export function signedHeaders(
  secrets: readonly string[],
  { messageId, now, body }: { messageId: string; now: number; body: Buffer },
): Record<string, string> {
  const timestamp = String(Math.floor(now / 1_000))
  const sign = (secret: string): string => {
    const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
    const signed = createHmac('sha256', key).update(`${messageId}.${timestamp}.`).update(body)
    return `v1,${signed.digest('base64')}`
  }
  return {
    'webhook-id': messageId,
    'webhook-timestamp': timestamp,
    'webhook-signature': secrets.map(sign).join(' '),
  }
}
