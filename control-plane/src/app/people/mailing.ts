// Sends queued mail: one sender per mail (a lease in its row), a few retries with back-off, given up after a day. At
// least once: a process that dies between the server's "accepted" and our update sends it again, under the same
// Message-ID. The text is in no log and is deleted from the table with the last try.

import type { Context } from '../../context.ts'
import { MAIL } from '../../limits/installation.ts'
import { type Mailer, RefusedForGood } from '../../mail/mail.ts'
import {
  listDueMails,
  type MailRow,
  takeMail,
  updateMailFailed,
  updateMailSent,
} from '../../store/people/mails.ts'
import { MAIL_TOPIC } from '../core/transaction.ts'
import { mailPlace } from './mail.ts'

/** Returns how many were tried. */
export async function sendDueMails(ctx: Context, mailer: Mailer): Promise<number> {
  const ids = await listDueMails(ctx.db, ctx.clock.now(), MAIL.batch)
  for (const id of ids) {
    const now = ctx.clock.now()
    const mail = await takeMail(ctx.db, id, now, now + MAIL.leaseMs)
    if (mail) await sendOne(ctx, mailer, mail)
  }
  return ids.length
}

async function sendOne(ctx: Context, mailer: Mailer, mail: MailRow): Promise<void> {
  const { id, kind } = mail
  try {
    const plain = await ctx.secretStore.open('mail', mailPlace(id), mail.sealed)
    const text = Buffer.from(plain).toString()
    await mailer.send({
      messageId: `<mail-${id}@${ctx.installationId}>`,
      name: `${String(id).padStart(10, '0')}-${kind}`,
      to: mail.recipient,
      subject: mail.subject,
      text,
    })
    await updateMailSent(ctx.db, id, ctx.clock.now())
  } catch (error) {
    const failed = judgeFailure(mail, error, ctx.clock.now())
    await updateMailFailed(ctx.db, id, failed)
    const word = failed.nextAt === null ? 'a mail was given up' : 'a mail could not be sent yet'
    ctx.log.warn({ mailId: id, kind, tries: failed.tries, reason: failed.error }, word)
  }
}

function judgeFailure(mail: MailRow, error: unknown, now: number) {
  const tries = mail.tries + 1
  const pause = MAIL.backoffMs[tries - 1]
  const nextAt = pause === undefined ? null : now + pause
  const late = nextAt !== null && nextAt > mail.createdAt + MAIL.giveUpMs
  const message = error instanceof Error ? error.message : String(error)
  return {
    tries,
    nextAt: error instanceof RefusedForGood || late || tries >= MAIL.tries ? null : nextAt,
    error: message.slice(0, MAIL.errorCharacters),
    now,
  }
}

/** Runs until the returned function is called. */
export function startMailing(ctx: Context, mailer: Mailer): () => Promise<void> {
  let isStopping = false
  let isWoken = false
  let ring = (): void => {}
  const off = ctx.notifier.on(MAIL_TOPIC, () => {
    isWoken = true
    ring()
  })
  const pause = () =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, MAIL.pollMs)
      ring = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  const isOurs = () => !isStopping && ctx.replicas.holds('mail')
  async function run(): Promise<void> {
    while (!isStopping) {
      isWoken = false
      try {
        while (isOurs() && (await sendDueMails(ctx, mailer)) === MAIL.batch);
      } catch (error) {
        if (!isStopping) ctx.log.error({ err: error }, 'mail could not be looked at')
      }
      if (!isWoken && !isStopping) await pause()
    }
  }
  const running = run()
  return async () => {
    isStopping = true
    off()
    ring()
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, MAIL.stopMs)
    })
    await Promise.race([running, late])
    clearTimeout(timer)
    mailer.close()
  }
}
