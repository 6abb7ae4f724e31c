// Queues mail in the transaction of its change, so that a refused change sends nothing and a killed control plane loses
// nothing. The text may hold a one-use link and is therefore encrypted at rest.

import type { Context } from '../../context.ts'
import { MAIL } from '../../limits/installation.ts'
import { insertMail, updateMailText } from '../../store/people/mails.ts'
import type { Change } from '../core/change.ts'
import { MAIL_TOPIC } from '../core/transaction.ts'

const MAIL_KINDS = ['password_reset', 'invitation', 'factors_reset', 'alert'] as const
type MailKind = (typeof MAIL_KINDS)[number]

export interface Mail {
  kind: MailKind
  to: string
  subject: string
  /** Plain text, lines of at most 78 characters where possible. */
  text: string
}

export const mailPlace = (id: number) => ({
  table: 'mails',
  column: 'sealed',
  organizationId: null,
  rowId: id,
})

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is removed
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g

/** Subjects contain names of users and projects: replaces characters that could end a header with blanks. */
const oneLine = (text: string): string =>
  text.replaceAll(CONTROL, ' ').trim().slice(0, MAIL.subjectCharacters)

export async function queueMail(
  ctx: Pick<Context, 'secretStore'>,
  c: Change,
  mail: Mail,
): Promise<number> {
  const id = await insertMail(c.db, {
    kind: mail.kind,
    recipient: mail.to,
    subject: oneLine(mail.subject),
    sealed: '',
    createdAt: c.now,
    nextAt: c.now,
  })
  const sealed = ctx.secretStore.seal('mail', mailPlace(id), Buffer.from(mail.text))
  await updateMailText(c.db, id, sealed)
  c.notify(MAIL_TOPIC)
  return id
}
