// Channels of notifications with their rules, tests, and the ledger.
import { NOTIFICATION_STATUSES } from '@berth/shared'
import { ChannelCreate, ChannelPatch, Id } from '@berth/shared/api'
import { z } from 'zod'
import {
  createChannel,
  listChannelViews,
  patchChannel,
  removeChannel,
  rotateSecret,
} from '../../../app/notices/channels.ts'
import { listNoticeViews, replayNotice, testChannel } from '../../../app/notices/ledger.ts'
import { keepMadeSecret } from '../../../app/people/one-time-secrets.ts'
import type { Context } from '../../../context.ts'
import type { Caller } from '../../../domain/core/access.ts'
import { serializeChannel, serializeNotice } from '../../serializers/notice.ts'
import { call, router } from '../base.ts'
import { Page, pageById } from '../paging.ts'

const One = z.strictObject({ channel_id: Id })

/** The secret that signs requests to a webhook; other kinds of channels have none. */
const keep = async (
  ctx: Context,
  caller: Caller,
  organizationId: number,
  name: string,
  secret: string | null,
): Promise<string | null> =>
  secret === null
    ? null
    : keepMadeSecret(ctx, caller, {
        organizationId,
        title: `Signing secret of ${name}`,
        hint: 'Give it to the receiver. You can make a new one later.',
        back: '/org/notifications',
        values: [{ label: 'Signing secret', text: secret }],
      })

export const channelRouter = router({
  list: call
    .input(z.strictObject({ organization_id: Id, project_id: Id.optional() }))
    .query(async ({ ctx: { ctx, caller }, input }) => {
      const asked = { projectId: input.project_id }
      const views = await listChannelViews(ctx, caller, input.organization_id, asked)
      return { channels: views.map(serializeChannel), sends_mail: ctx.config.mail.kind !== 'none' }
    }),
  create: call
    .input(z.strictObject({ organization_id: Id, ...ChannelCreate.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input: { organization_id: id, ...asked } }) => {
      const { view, secret } = await createChannel(ctx, caller, id, asked)
      const made = serializeChannel(view)
      return { ...made, secret, secret_id: await keep(ctx, caller, id, made.name, secret) }
    }),
  update: call
    .input(z.strictObject({ channel_id: Id, ...ChannelPatch.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input: { channel_id: id, ...asked } }) =>
      serializeChannel(await patchChannel(ctx, caller, id, asked)),
    ),
  remove: call.input(One).mutation(async ({ ctx: { ctx, caller }, input }) => {
    await removeChannel(ctx, caller, input.channel_id)
    return null
  }),
  rotateSecret: call.input(One).mutation(async ({ ctx: { ctx, caller }, input }) => {
    const { view, secret } = await rotateSecret(ctx, caller, input.channel_id)
    const made = serializeChannel(view)
    const organizationId = view.organizationId
    const secret_id = await keep(ctx, caller, organizationId, made.name, secret)
    return { ...made, secret, secret_id }
  }),
  test: call
    .meta({ policy: 'deploy' })
    .input(One)
    .mutation(async ({ ctx: { ctx, caller }, input }) => ({
      notifications: (await testChannel(ctx, caller, input.channel_id)).map(serializeNotice),
    })),
  ledger: call
    .input(
      z.strictObject({
        channel_id: Id,
        status: z.enum(NOTIFICATION_STATUSES).optional(),
        ...Page,
      }),
    )
    .query(async ({ ctx: { ctx, caller }, input }) => {
      const { channel_id: id, status } = input
      const { items, next } = await pageById(
        input,
        (page) => listNoticeViews(ctx, caller, id, { ...page, status }),
        (row) => row.id,
        serializeNotice,
      )
      return { notifications: items, next }
    }),
  replay: call
    .meta({ policy: 'deploy' })
    .input(z.strictObject({ notification_id: Id }))
    .mutation(async ({ ctx: { ctx, caller }, input }) =>
      serializeNotice(await replayNotice(ctx, caller, input.notification_id)),
    ),
})
