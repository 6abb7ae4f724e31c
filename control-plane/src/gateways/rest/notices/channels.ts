// Channels of notifications with their rules, tests, and the ledger of what was sent.
import {
  Channel,
  ChannelCreate,
  ChannelMade,
  ChannelPatch,
  ChannelQuery,
  IdParams,
  Notification,
  NotificationQuery,
} from '@berth/shared/api'
import { z } from 'zod'
import {
  createChannel,
  getChannel,
  listChannelViews,
  patchChannel,
  removeChannel,
  rotateSecret,
} from '../../../app/notices/channels.ts'
import { listNoticeViews, replayNotice, testChannel } from '../../../app/notices/ledger.ts'
import type { Context } from '../../../context.ts'
import { serializeChannel, serializeNotice } from '../../serializers/notice.ts'
import { type Api, callerOf } from '../http/api.ts'
import { pageById } from '../http/id-pages.ts'

export function channelRoutes(api: Api, ctx: Context): void {
  manyRoutes(api, ctx)
  oneRoutes(api, ctx)
  ledgerRoutes(api, ctx)
}

function manyRoutes(api: Api, ctx: Context): void {
  const path = '/api/organizations/:id/channels'
  api.get(
    path,
    {
      config: { needs: 'read' },
      schema: {
        summary: 'Channels of notifications with their rules',
        params: IdParams,
        querystring: ChannelQuery,
        response: { 200: z.array(Channel) },
      },
    },
    async (request) => {
      const { params, query } = request
      const asked = { projectId: query.project_id }
      const views = await listChannelViews(ctx, callerOf(request), params.id, asked)
      return views.map(serializeChannel)
    },
  )
  api.post(
    path,
    {
      config: { needs: 'project:write', errors: ['name_taken'], showsSecret: true },
      schema: {
        summary: 'Make a channel; the signing secret of a webhook is shown once',
        params: IdParams,
        body: ChannelCreate,
        response: { 201: ChannelMade },
      },
    },
    async (request, reply) => {
      const { params, body } = request
      const { view, secret } = await createChannel(ctx, callerOf(request), params.id, body)
      return reply
        .code(201)
        .header('location', `/api/channels/${view.id}`)
        .header('cache-control', 'no-store')
        .send({ ...serializeChannel(view), secret })
    },
  )
}

function oneRoutes(api: Api, ctx: Context): void {
  const path = '/api/channels/:id'
  api.get(
    path,
    {
      config: { needs: 'read' },
      schema: { summary: 'A channel', params: IdParams, response: { 200: Channel } },
    },
    async (request) =>
      serializeChannel(await getChannel(ctx, callerOf(request), request.params.id)),
  )
  api.patch(
    path,
    {
      config: { needs: 'project:write', errors: ['name_taken'] },
      schema: {
        summary: 'Change a channel: its name, its receiver, its rules',
        params: IdParams,
        body: ChannelPatch,
        response: { 200: Channel },
      },
    },
    async (request) => {
      const { params, body } = request
      return serializeChannel(await patchChannel(ctx, callerOf(request), params.id, body))
    },
  )
  api.delete(
    path,
    {
      config: { needs: 'project:write' },
      schema: {
        summary: 'Remove a channel with its rules and its ledger',
        params: IdParams,
        response: { 204: z.null() },
      },
    },
    async (request, reply) => {
      await removeChannel(ctx, callerOf(request), request.params.id)
      return reply.code(204).send(null)
    },
  )
  api.post(
    `${path}/rotate_secret`,
    {
      config: { needs: 'project:write', errors: ['validation_failed'], showsSecret: true },
      schema: {
        summary: 'Give a webhook a new signing secret; both sign for 24 hours',
        params: IdParams,
        response: { 200: ChannelMade },
      },
    },
    async (request, reply) => {
      const { view, secret } = await rotateSecret(ctx, callerOf(request), request.params.id)
      return reply.header('cache-control', 'no-store').send({ ...serializeChannel(view), secret })
    },
  )
}

function ledgerRoutes(api: Api, ctx: Context): void {
  api.post(
    '/api/channels/:id/test',
    {
      config: { needs: 'project:write', policy: 'deploy' },
      schema: {
        summary: 'Send a test now; the answer says what became of it, of e-mail for each address',
        params: IdParams,
        response: { 200: z.array(Notification) },
      },
    },
    async (request) =>
      (await testChannel(ctx, callerOf(request), request.params.id)).map(serializeNotice),
  )
  api.get(
    '/api/channels/:id/notifications',
    {
      config: { needs: 'project:write' },
      schema: {
        summary: 'The ledger of a channel: what was sent and what became of it, newest first',
        params: IdParams,
        querystring: NotificationQuery,
        response: { 200: z.array(Notification) },
      },
    },
    async (request, reply) => {
      const { params, query } = request
      const rows = await pageById(
        ctx,
        request,
        reply,
        (page) =>
          listNoticeViews(ctx, callerOf(request), params.id, { ...page, status: query.status }),
        (row) => row.id,
      )
      return rows.map(serializeNotice)
    },
  )
  api.post(
    '/api/notifications/:id/replay',
    {
      config: {
        needs: 'project:write',
        policy: 'deploy',
        errors: ['notification_not_replayable'],
      },
      schema: {
        summary: 'Send a notification again, under the same id',
        params: IdParams,
        response: { 202: Notification },
      },
    },
    async (request, reply) => {
      const view = await replayNotice(ctx, callerOf(request), request.params.id)
      return reply.code(202).send(serializeNotice(view))
    },
  )
}
