// Empties the outbox of notifications: the rows of a lane (a channel; of e-mail one address) in order, several lanes
// concurrently, with back-off over about a day. One control plane at a time has this duty, so the lanes that are being
// sent are known in memory: after its end, the interrupted row is sent again by the next one, under the same id.
import type { Context } from '../../context.ts'
import type { Notice } from '../../domain/notices/notice.ts'
import { findErrorLine } from '../../domain/notices/notice.ts'
import { judgeFailure } from '../../domain/notices/rules.ts'
import { NOTICES } from '../../limits/notices.ts'
import { channelBrokenLetter } from '../../mail/messages.ts'
import { listAlerted } from '../../store/installation/alerts.ts'
import {
  type Channel,
  findChannel,
  lockChannel,
  updateChannel,
} from '../../store/notices/channels.ts'
import { findNames } from '../../store/notices/facts.ts'
import {
  findFirstWaiting,
  findNotice,
  type Lane,
  listDueLanes,
  type NoticeRow,
  skipWaiting,
  updateNotice,
} from '../../store/notices/notices.ts'
import { audit, BERTH } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { NOTICES_TOPIC } from '../core/notices.ts'
import { change, emit } from '../core/transaction.ts'
import { readFailedLines } from '../deployments/diagnostics.ts'
import { queueMail } from '../people/mail.ts'
import { type Sent, sendOnce } from './delivery.ts'

const pause = (): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, NOTICES.backoffMs[0]).unref()
  })

const keyOf = ({ channelId, recipient }: Lane): string => `${channelId} ${recipient}`

/** Runs until the returned function is called. */
export function startNotices(ctx: Context): () => Promise<void> {
  const lanes = new Map<string, Promise<void>>()
  let isStopping = false
  let isLooking = false
  let again = false

  async function look(): Promise<void> {
    if (!ctx.replicas.holds('notices')) return
    const due = await listDueLanes(ctx.db, ctx.clock.now(), NOTICES.lanes * 2)
    for (const lane of due) {
      const key = keyOf(lane)
      if (isStopping || lanes.size >= NOTICES.lanes) return
      if (lanes.has(key)) continue
      const sent = sendLane(ctx, lane, () => isStopping || !ctx.replicas.holds('notices'))
        .catch((error: unknown) => {
          if (isStopping) return undefined
          ctx.log.error({ err: error, ...lane }, 'a notification could not be sent')
          return pause() // it is still due, and would fail again at once
        })
        .finally(() => {
          lanes.delete(key)
          run() // rows may have come meanwhile, or another lane waits for its turn
        })
      lanes.set(key, sent)
    }
  }
  function run(): void {
    again = true
    if (isLooking || isStopping) return
    isLooking = true
    void (async () => {
      while (again && !isStopping) {
        again = false
        await look().catch((error: unknown) => {
          if (!isStopping) ctx.log.error({ err: error }, 'notifications could not be read')
        })
      }
      isLooking = false
    })()
  }
  const timer = setInterval(run, NOTICES.pollMs)
  const off = ctx.notifier.on(NOTICES_TOPIC, run)
  run()
  return async () => {
    isStopping = true
    clearInterval(timer)
    off()
    let late: NodeJS.Timeout | undefined
    const over = new Promise<void>((resolve) => {
      late = setTimeout(resolve, NOTICES.stopMs)
    })
    await Promise.race([Promise.allSettled(lanes.values()), over])
    clearTimeout(late)
  }
}

/** Sends the due rows of a lane in order, up to the first that must wait. */
async function sendLane(ctx: Context, lane: Lane, isStopping: () => boolean): Promise<void> {
  while (!isStopping()) {
    const row = await findFirstWaiting(ctx.db, lane)
    if (!row || (row.nextAt ?? 0) > ctx.clock.now()) return
    const channel = await findChannel(ctx.db, row.channelId)
    if (!channel) return
    const notice = await completeNotice(ctx, row)
    const { messageId, recipient } = row
    const sent = await sendOnce(ctx, channel, { messageId, recipient, notice })
    if (isStopping() && sent.failed) return // the stop itself breaks requests off; it is no failure
    await change(ctx, (c) => recordSent(ctx, c, row.id, sent))
  }
}

/** Adds the line that tells most to a failure. What is sent stays the same from the first try on. */
async function completeNotice(ctx: Context, row: NoticeRow): Promise<Notice> {
  const notice = JSON.parse(row.body) as Notice
  if (row.complete === 1) return notice
  const { task } = notice
  const lines = task ? await readFailedLines(ctx, task.id) : []
  const whole: Notice = { ...notice, task: task && { ...task, errorLine: findErrorLine(lines) } }
  // a platform check's sentence is its output too
  if (whole.task && whole.task.errorLine === whole.task.message) whole.task.errorLine = null
  await updateNotice(ctx.db, row.id, { body: JSON.stringify(whole), complete: 1 })
  return whole
}

/** Writes the result of one try into the ledger, and what it means for the channel. A test is tried once. */
export async function recordSent(
  ctx: Context,
  c: Change,
  id: number,
  sent: Sent,
  { isTest = false }: { isTest?: boolean } = {},
): Promise<void> {
  const row = await findNotice(c.db, id)
  const channel = row && (await lockChannel(c.db, row.channelId))
  if (!row || !channel) return // removed meanwhile
  const { answerStatus, answer, failed } = sent
  const tries = row.tries + 1
  const told = { answerStatus, answer, tries }
  if (!failed) {
    const done = { ...told, status: 'delivered', nextAt: null, error: null } as const
    await updateNotice(c.db, id, { ...done, finishedAt: c.now })
    await updateChannel(c.db, channel.id, {
      lastDeliveredAt: c.now,
      failingSince: null,
      refused: 0,
      error: null,
      brokenAt: null,
    })
    return
  }
  if (isTest) {
    await updateNotice(c.db, id, { ...told, error: failed.error, finishedAt: c.now })
    await updateChannel(c.db, channel.id, { error: failed.error })
    return
  }
  if (row.status !== 'waiting') return // skipped while it was being sent
  const { nextAt, refused, isBroken } = judgeFailure(failed, {
    tries,
    refused: channel.refused,
    now: c.now,
  })
  const isOver = nextAt === null
  await updateNotice(c.db, id, {
    ...told,
    error: failed.error,
    nextAt,
    status: isOver ? 'given_up' : 'waiting',
    finishedAt: isOver ? c.now : null,
  })
  await updateChannel(c.db, channel.id, {
    failingSince: channel.failingSince ?? c.now,
    refused,
    error: failed.error,
  })
  if (isOver)
    ctx.log.warn({ noticeId: id, channelId: channel.id, tries }, 'a notification was given up')
  if (isBroken && channel.brokenAt === null) await breakChannel(ctx, c, channel, failed.error)
}

/** Stops sending to it and tells the owners and admins, by mail where there is mail. */
async function breakChannel(ctx: Context, c: Change, channel: Channel, reason: string) {
  const { id, organizationId, name } = channel
  await updateChannel(c.db, id, { brokenAt: c.now })
  await skipWaiting(c.db, { channelId: id }, { now: c.now, error: 'The channel is broken.' })
  await audit(c, BERTH, organizationId, 'channel.broken', ['channel', id], { name, reason })
  emit(c, { organizationId }, 'organization.updated', { channel_id: id })
  if (ctx.config.mail.kind === 'none') return
  const { organization } = await findNames(c.db, organizationId, null)
  const url = `${ctx.baseUrl}/org/notifications`
  const letter = channelBrokenLetter({
    channel: name,
    organization: organization.name,
    reason,
    url,
  })
  for (const { email } of await listAlerted(c.db, organizationId, null, {
    ofServices: false,
  })) {
    await queueMail(ctx, c, { kind: 'alert', to: email, ...letter })
  }
}
