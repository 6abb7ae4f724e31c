// Deliveries of the forge with their outcome, and pull requests with the approval of a fork's commit.
import { DELIVERY_OUTCOMES, DELIVERY_RULES } from '@berth/shared'
import { Id, PullRequestApprove } from '@berth/shared/api'
import { z } from 'zod'
import { approvePullRequest, listProjectPullRequests } from '../../../app/forges/pull-requests.ts'
import { listProjectRefusals } from '../../../app/forges/rejected-deliveries.ts'
import {
  getDelivery,
  listProjectDeliveries,
  redeliver,
} from '../../../app/forges/webhook-deliveries.ts'
import { serializeWholeTask } from '../../serializers/dashboard.ts'
import {
  serializeDelivery,
  serializeDeliveryDetail,
  serializePullRequest,
  serializeRefused,
} from '../../serializers/delivery.ts'
import { call, router } from '../base.ts'
import { Page, pageById } from '../paging.ts'

const Number31 = z.int().min(1).max(2_147_483_647)
const Query = z.strictObject({
  project_id: Id,
  outcome: z.enum(DELIVERY_OUTCOMES).optional(),
  rule: z.enum(DELIVERY_RULES).optional(),
  event: z.string().max(200).optional(),
  pull_request: Number31.optional(),
  ...Page,
})

export const deliveryRouter = router({
  list: call.input(Query).query(async ({ ctx: { ctx, caller }, input }) => {
    const { project_id: id, outcome, rule, event, pull_request: pullRequest } = input
    const { items, next } = await pageById(
      input,
      ({ limit, from }) =>
        listProjectDeliveries(ctx, caller, id, {
          outcome,
          rule,
          event,
          pullRequest,
          beforeId: from,
          limit,
        }),
      (row) => row.id,
      serializeDelivery,
    )
    return { deliveries: items, next }
  }),
  /** The most recent ones that the gateway rejected. */
  refused: call
    .input(z.strictObject({ project_id: Id }))
    .query(async ({ ctx: { ctx, caller }, input }) => {
      const rows = await listProjectRefusals(ctx, caller, input.project_id)
      return { refused: rows.map(serializeRefused) }
    }),
  get: call
    .input(z.strictObject({ delivery_id: Id }))
    .query(async ({ ctx: { ctx, caller }, input }) =>
      serializeDeliveryDetail(await getDelivery(ctx, caller, input.delivery_id)),
    ),
  replay: call
    .input(z.strictObject({ delivery_id: Id }))
    .mutation(async ({ ctx: { ctx, caller }, input }) =>
      serializeDelivery(await redeliver(ctx, caller, input.delivery_id)),
    ),
})

export const pullRequestRouter = router({
  /** Open ones, including those that wait for a slot or an approval. */
  list: call
    .input(z.strictObject({ project_id: Id }))
    .query(async ({ ctx: { ctx, caller }, input }) => {
      const views = await listProjectPullRequests(ctx, caller, input.project_id)
      return { pull_requests: views.map(serializePullRequest) }
    }),
  approve: call
    .meta({ policy: 'deploy' })
    .input(z.strictObject({ project_id: Id, number: Number31, ...PullRequestApprove.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const asked = { headSha: input.head_sha, trigger: 'dashboard' as const }
      const { project_id: id, number } = input
      const { view, task } = await approvePullRequest(ctx, caller, id, number, asked)
      return { ...serializePullRequest(view), task: task && (await serializeWholeTask(ctx, task)) }
    }),
})
