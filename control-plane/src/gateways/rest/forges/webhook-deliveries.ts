// Webhook deliveries, and pull requests with their approval.
import {
  Delivery,
  DeliveryDetail,
  DeliveryQuery,
  IdParams,
  OnePage,
  PullRequest,
  PullRequestApprove,
  PullRequestApproved,
  PullRequestParams,
  RefusedDelivery,
} from '@berth/shared/api'
import { z } from 'zod'
import { approvePullRequest, listProjectPullRequests } from '../../../app/forges/pull-requests.ts'
import { listProjectRefusals } from '../../../app/forges/rejected-deliveries.ts'
import {
  getDelivery,
  listProjectDeliveries,
  redeliver,
} from '../../../app/forges/webhook-deliveries.ts'
import type { Context } from '../../../context.ts'
import {
  serializeDelivery,
  serializeDeliveryDetail,
  serializePullRequest,
  serializeRefused,
} from '../../serializers/delivery.ts'
import { serializeWholeTask } from '../deployments/environment-tasks.ts'
import { type Api, callerOf } from '../http/api.ts'
import { ById, linkPages, makeCursor, pageSize, readCursor } from '../http/paging.ts'
import { triggerOf } from '../http/triggers.ts'

export function deliveryRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/projects/:id/deliveries',
    {
      config: { needs: 'read' },
      schema: {
        summary: 'Deliveries of the repository host and what became of them, newest first',
        params: IdParams,
        querystring: DeliveryQuery,
        response: { 200: z.array(Delivery) },
      },
    },
    async (request, reply) => {
      const { query } = request
      const limit = pageSize(query)
      const rows = await listProjectDeliveries(ctx, callerOf(request), request.params.id, {
        outcome: query.outcome,
        rule: query.rule,
        event: query.event,
        pullRequest: query.pull_request,
        beforeId: readCursor(query.cursor, ById)?.i,
        limit: limit + 1,
      })
      const page = rows.slice(0, limit)
      const last = page.at(-1)
      const more = rows.length > limit && last
      linkPages(ctx, request, reply, more ? makeCursor({ i: last.id }) : undefined)
      return page.map(serializeDelivery)
    },
  )
  api.get(
    '/api/projects/:id/refused_deliveries',
    {
      config: { needs: 'read' },
      schema: {
        summary: 'The last deliveries that were refused',
        params: IdParams,
        querystring: OnePage,
        response: { 200: z.array(RefusedDelivery) },
      },
    },
    async (request) =>
      (await listProjectRefusals(ctx, callerOf(request), request.params.id)).map(serializeRefused),
  )
  api.get(
    '/api/deliveries/:id',
    {
      config: { needs: 'read' },
      schema: {
        summary: 'One delivery, with headers and body',
        params: IdParams,
        response: { 200: DeliveryDetail },
      },
    },
    async (request) =>
      serializeDeliveryDetail(await getDelivery(ctx, callerOf(request), request.params.id)),
  )
  api.post(
    '/api/deliveries/:id/redeliver',
    {
      config: { needs: 'project:write', errors: ['delivery_expired'] },
      schema: {
        summary: 'Decide a delivery once more',
        params: IdParams,
        response: { 202: Delivery },
      },
    },
    async (request, reply) => {
      const made = await redeliver(ctx, callerOf(request), request.params.id)
      return reply.code(202).send(serializeDelivery(made))
    },
  )
}

export function pullRequestRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/projects/:id/pull_requests',
    {
      config: { needs: 'read' },
      schema: {
        summary: 'Open pull requests, also those without an environment',
        params: IdParams,
        querystring: OnePage,
        response: { 200: z.array(PullRequest) },
      },
    },
    async (request) => {
      const views = await listProjectPullRequests(ctx, callerOf(request), request.params.id)
      return views.map(serializePullRequest)
    },
  )
  api.post(
    '/api/projects/:id/pull_requests/:number/approve',
    {
      config: {
        needs: 'deploy',
        policy: 'deploy',
        errors: [
          'approval_outdated',
          'approval_not_needed',
          'pull_request_closed',
          'project_deleting',
          'validation_failed',
        ],
      },
      schema: {
        summary: 'Approve a commit of a fork',
        params: PullRequestParams,
        body: PullRequestApprove,
        response: { 200: PullRequestApproved },
      },
    },
    async (request) => {
      const caller = callerOf(request)
      const { id, number } = request.params
      const asked = { headSha: request.body.head_sha, trigger: triggerOf(request) }
      const { view, task } = await approvePullRequest(ctx, caller, id, number, asked)
      return {
        ...serializePullRequest(view),
        task: task ? await serializeWholeTask(ctx, task) : null,
      }
    },
  )
}
