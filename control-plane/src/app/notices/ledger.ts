// The ledger of notifications: what was sent to a channel, sent again by hand, and tests. A test goes out at once and
// not in line, so that it answers while others wait for their next try.
import { AppError, type NotificationStatus } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { cleanLine, describeNotice, type Notice } from '../../domain/notices/notice.ts'
import { NOTICES } from '../../limits/notices.ts'
import { type Channel, lockChannel } from '../../store/notices/channels.ts'
import { findNames } from '../../store/notices/facts.ts'
import {
  findNotice,
  insertNotices,
  listNotices,
  type NoticeRow,
} from '../../store/notices/notices.ts'
import { loadChannel, loadNotice, missing } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import { NOTICES_TOPIC, newMessageId, newNotice } from '../core/notices.ts'
import { change } from '../core/transaction.ts'
import { sendOnce } from './delivery.ts'
import { recordSent } from './sending.ts'

export interface NoticeView extends NoticeRow {
  title: string
}

const viewNotice = (ctx: Context, row: NoticeRow): NoticeView => ({
  ...row,
  title: describeNotice(JSON.parse(row.body) as Notice, ctx.baseUrl).title,
})

export async function listNoticeViews(
  ctx: Context,
  caller: Caller,
  channelId: number,
  page: { limit: number; from: number | undefined; status?: NotificationStatus | undefined },
): Promise<NoticeView[]> {
  await loadChannel(ctx.db, caller, channelId, 'project:write')
  const rows = await listNotices(ctx.db, channelId, page)
  return rows.map((row) => viewNotice(ctx, row))
}

/** Sends it again behind those that wait, under the same id: a receiver that has it recognizes it. */
export async function replayNotice(ctx: Context, caller: Caller, id: number): Promise<NoticeView> {
  const { channelId } = await loadNotice(ctx.db, caller, id, 'project:write')
  return change(ctx, async (c) => {
    const channel = await lockChannel(c.db, channelId)
    const row = await findNotice(c.db, id)
    if (!channel || !row) throw missing()
    if (row.status === 'waiting') {
      const message = 'This notification is not over: it is sent, or tried again, by itself.'
      throw new AppError('notification_not_replayable', message)
    }
    if (row.recipient !== '' && !channel.recipients.includes(row.recipient)) {
      const message = `${row.recipient} is no longer an address of this channel.`
      throw new AppError('notification_not_replayable', message)
    }
    const notice = JSON.parse(row.body) as Notice
    const again = newNotice(c, { ...channel, brokenAt: null }, notice)
    const { recipient, messageId, complete } = row
    const [made] = await insertNotices(c.db, [
      { ...again, recipient, messageId, complete, replayOf: row.replayOf ?? row.id },
    ])
    const subject: [string, number, string] = ['channel', channelId, channel.name]
    const details = { notification_id: id }
    await auditCaller(c, caller, row.organizationId, 'notification.replay', subject, details)
    c.notify(NOTICES_TOPIC)
    const view = await findNotice(c.db, made ?? 0)
    if (!view) throw missing()
    return viewNotice(ctx, view)
  })
}

/** Sends a test now and returns what became of it, of an e-mail channel for each address. */
export async function testChannel(ctx: Context, caller: Caller, id: number): Promise<NoticeView[]> {
  const channel = await loadChannel(ctx.db, caller, id, 'project:write')
  refuseTooSoon(ctx, channel, await listNotices(ctx.db, id, { limit: 50, from: undefined }))
  const { organization } = await findNames(ctx.db, channel.organizationId, null)
  const notice: Notice = {
    happening: 'test',
    at: ctx.clock.now(),
    organization: { ...organization, name: cleanLine(organization.name) },
    project: null,
    environment: null,
    pullRequest: null,
    server: null,
    task: null,
    reason: `Sent by ${cleanLine(caller.name)} to the channel ${cleanLine(channel.name)}.`,
  }
  const recipients = channel.kind === 'email' ? channel.recipients : ['']
  const rows = await change(ctx, async (c) => {
    const subject: [string, number, string] = ['channel', id, channel.name]
    await auditCaller(c, caller, channel.organizationId, 'channel.test', subject)
    const made = recipients.map((recipient) => ({
      ...newNotice(c, channel, notice),
      recipient,
      messageId: newMessageId(),
      // the outbox leaves it alone: a test that a kill interrupts is not repeated
      status: 'given_up' as const,
      nextAt: null,
      finishedAt: c.now,
      error: 'The test was interrupted.',
    }))
    const ids = await insertNotices(c.db, made)
    return made.map(({ recipient, messageId }, i) => ({ id: ids[i] ?? 0, recipient, messageId }))
  })
  const results = await Promise.all(
    rows.map(async (row) => ({
      id: row.id,
      sent: await sendOnce(ctx, channel, { ...row, notice }),
    })),
  )
  return change(ctx, async (c) => {
    const views: NoticeView[] = []
    for (const { id: noticeId, sent } of results) {
      await recordSent(ctx, c, noticeId, sent, { isTest: true })
      const row = await findNotice(c.db, noticeId)
      if (row) views.push(viewNotice(ctx, row))
    }
    return views
  })
}

function refuseTooSoon(ctx: Context, channel: Channel, newest: NoticeRow[]): void {
  const last = newest.find(({ happening }) => happening === 'test')
  const left = last ? last.createdAt + NOTICES.testMs - ctx.clock.now() : 0
  if (left <= 0) return
  const seconds = Math.ceil(left / 1_000)
  const message = `${channel.name} was tested a moment ago. Try again in ${seconds} s.`
  throw new AppError('rate_limited', message, { retry_after: seconds })
}
