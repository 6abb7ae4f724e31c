// Sends one notification once: a mail, or a request to a chat or webhook. A failure is a value, because the outbox and
// the test decide what to do about it. Nothing here contains the receiver's address in full.
import type { Context } from '../../context.ts'
import { mailText, requestBody } from '../../domain/notices/forms.ts'
import { cleanLine, describeNotice, type Notice } from '../../domain/notices/notice.ts'
import { type FailedTry, judgeStatus, readRetryAfter } from '../../domain/notices/rules.ts'
import { OutboundRefusal } from '../../forges/addresses.ts'
import { RequestError } from '../../forges/requests.ts'
import { SecretStoreError } from '../../keys/secret-store.ts'
import { NOTICES } from '../../limits/notices.ts'
import { RefusedForGood } from '../../mail/mail.ts'
import type { Channel } from '../../store/notices/channels.ts'
import { openSecrets, openUrl, signedHeaders } from './secrets.ts'

export interface Sent {
  answerStatus: number | null
  answer: string | null
  /** Null: it was delivered. */
  failed: (FailedTry & { error: string }) | null
}

const fail = (failed: FailedTry, error: string, sent: Partial<Sent> = {}): Sent => ({
  answerStatus: null,
  answer: null,
  ...sent,
  failed: { ...failed, error: cleanLine(error, NOTICES.errorCharacters) },
})

export interface Outgoing {
  messageId: string
  /** Of a mail. */
  recipient: string
  notice: Notice
}

export const sendOnce = (ctx: Context, channel: Channel, outgoing: Outgoing): Promise<Sent> =>
  channel.kind === 'email'
    ? sendMail(ctx, outgoing)
    : sendRequest(ctx, channel, channel.kind, outgoing)

async function sendMail(ctx: Context, { messageId, recipient, notice }: Outgoing): Promise<Sent> {
  const letter = mailText(describeNotice(notice, ctx.baseUrl))
  try {
    await ctx.mailer.send({
      messageId: `<${messageId}@${ctx.installationId}>`,
      name: messageId,
      to: recipient,
      ...letter,
    })
    return { answerStatus: null, answer: null, failed: null }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return error instanceof RefusedForGood
      ? fail({ kind: 'refused', isFinal: true }, message)
      : fail({ kind: 'later' }, message)
  }
}

async function sendRequest(
  ctx: Context,
  channel: Channel,
  kind: Exclude<Channel['kind'], 'email'>,
  { messageId, notice }: Outgoing,
): Promise<Sent> {
  const message = describeNotice(notice, ctx.baseUrl)
  const body = Buffer.from(JSON.stringify(requestBody(kind, notice, message, ctx.baseUrl)))
  const host = channel.target ?? 'The receiver'
  try {
    const url = await openUrl(ctx, channel)
    const signed = { messageId, now: ctx.clock.now(), body }
    const secrets = kind === 'webhook' ? await openSecrets(ctx, channel) : []
    const received = await ctx.outbound.request({
      method: 'POST',
      url,
      body,
      headers: kind === 'webhook' ? signedHeaders(secrets, signed) : {},
      timeoutMs: NOTICES.requestMs,
      firstBytes: NOTICES.answerBytes,
    })
    const { status, headers, text } = received
    const said = cleanLine(text, NOTICES.answerCharacters)
    const sent = { answerStatus: status, answer: said }
    if (status >= 200 && status < 300) return { ...sent, failed: null }
    const retryAfterMs = readRetryAfter(headers['retry-after'], ctx.clock.now())
    const why = `${host} answered ${status}${said === '' ? '' : ` (${said})`}.`
    return fail({ kind: judgeStatus(status), retryAfterMs }, why, sent)
  } catch (error) {
    return judgeError(error)
  }
}

function judgeError(error: unknown): Sent {
  if (error instanceof RequestError) {
    const isForGood = error.trouble === 'redirected' || error.trouble === 'not_allowed'
    return fail({ kind: isForGood ? 'refused' : 'later' }, error.message)
  }
  if (error instanceof OutboundRefusal) {
    const isForGood = error.code === 'address_not_allowed'
    return fail({ kind: isForGood ? 'refused' : 'later' }, error.message)
  }
  if (error instanceof SecretStoreError) {
    return fail({ kind: 'refused' }, 'Its stored address cannot be read. Enter it again.')
  }
  throw error
}
