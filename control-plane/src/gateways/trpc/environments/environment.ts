// Environments of a project: list, read, create, change, reset and remove, Basic Auth, why the last deployment failed,
// the Deploy button (with a commit: redeploy and roll back), restart, stop and start, and live events.
import { DIAGNOSTICS, LIFECYCLE_VERBS } from '@berth/shared'
import {
  EnvironmentBasicAuth,
  EnvironmentCreate,
  EnvironmentMetricsQuery,
  EnvironmentPatch,
  EnvironmentWatch,
  Id,
  LifecycleRequest,
  ResetRequest,
  TaskCreate,
} from '@berth/shared/api'
import { z } from 'zod'
import { loadEnvironment } from '../../../app/core/access.ts'
import { requestDeployment, resetEnvironment } from '../../../app/deployments/deployments.ts'
import { diagnoseEnvironment } from '../../../app/deployments/diagnostics.ts'
import { requestLifecycle } from '../../../app/deployments/lifecycle.ts'
import { createEnvironment } from '../../../app/environments/environments.ts'
import { getEnvironmentMetrics } from '../../../app/environments/metrics.ts'
import { deleteEnvironment } from '../../../app/environments/removal-request.ts'
import { changeEnvironment } from '../../../app/environments/settings.ts'
import { getEnvironment, listProjectEnvironments } from '../../../app/environments/views.ts'
import { watchEnvironment } from '../../../app/environments/watching.ts'
import { setEnvironmentAuth } from '../../../app/projects/basic-auth.ts'
import { serializeWholeTask } from '../../serializers/dashboard.ts'
import { serializeDiagnostics } from '../../serializers/diagnostics.ts'
import { serializeBasicAuth, serializeEnvironment } from '../../serializers/environment.ts'
import { serializeMetrics } from '../../serializers/metrics.ts'
import { call, router, watch } from '../base.ts'
import { serviceLogs } from '../deployments/service-logs.ts'
import { counted, Resume, watchEvents } from '../events.ts'

const BY = 'dashboard'
const One = z.strictObject({ environment_id: Id })
const Deletion = z.strictObject({
  environment_id: Id,
  /** The identifier; required for a protected one. */
  confirm: z.string().max(64).optional(),
  /** "Remove anyway": skips the repository's own destroy steps. */
  force: z.boolean().optional(),
  /** The server will not return: forgets the environment without destroying anything. */
  forget: z.boolean().optional(),
})

export const environmentRouter = router({
  list: call
    .input(z.strictObject({ project_id: Id }))
    .query(async ({ ctx: { ctx, caller }, input }) => {
      const list = await listProjectEnvironments(ctx, caller, input.project_id, {})
      const { used, limit } = list
      return { environments: list.environments.map(serializeEnvironment), used, limit }
    }),
  get: call
    .input(One)
    .query(async ({ ctx: { ctx, caller }, input }) =>
      serializeEnvironment(await getEnvironment(ctx, caller, input.environment_id)),
    ),
  create: call
    .input(z.strictObject({ project_id: Id, ...EnvironmentCreate.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { project_id: id, ...asked } = input
      const { view, task } = await createEnvironment(ctx, caller, id, asked, BY)
      return { ...serializeEnvironment(view), task: task && (await serializeWholeTask(ctx, task)) }
    }),
  update: call
    .input(z.strictObject({ environment_id: Id, ...EnvironmentPatch.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { environment_id: id, ...asked } = input
      return serializeEnvironment(await changeEnvironment(ctx, caller, id, asked))
    }),
  delete: call.input(Deletion).mutation(async ({ ctx: { ctx, caller }, input }) => {
    const { environment_id: id, confirm, force = false, forget = false } = input
    const asked = { confirm, force, forget, trigger: BY } as const
    return serializeWholeTask(ctx, await deleteEnvironment(ctx, caller, id, asked))
  }),
  reset: call
    .meta({ policy: 'deploy' })
    .input(z.strictObject({ environment_id: Id, ...ResetRequest.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { environment_id: id, ...asked } = input
      return serializeWholeTask(ctx, await resetEnvironment(ctx, caller, id, asked, BY))
    }),
  setBasicAuth: call
    .input(z.strictObject({ environment_id: Id, basic_auth: EnvironmentBasicAuth }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { environment_id: id, basic_auth: asked } = input
      return serializeBasicAuth(await setEnvironmentAuth(ctx, caller, id, asked))
    }),
  watch: call
    .input(z.strictObject({ environment_id: Id, ...EnvironmentWatch.shape }))
    .mutation(({ ctx: { ctx, caller }, input }) => {
      const { environment_id: id, ...asked } = input
      return watchEnvironment(ctx, caller, id, asked)
    }),
  metrics: call
    .input(z.strictObject({ environment_id: Id, ...EnvironmentMetricsQuery.shape }))
    .query(async ({ ctx: { ctx, caller }, input }) =>
      serializeMetrics(await getEnvironmentMetrics(ctx, caller, input.environment_id, input.range)),
    ),
  diagnostics: call
    .input(
      z.strictObject({
        environment_id: Id,
        lines: z.int().min(1).max(DIAGNOSTICS.linesMax).optional(),
      }),
    )
    .query(async ({ ctx: { ctx, caller }, input }) =>
      serializeDiagnostics(
        ctx,
        await diagnoseEnvironment(ctx, caller, input.environment_id, input),
      ),
    ),
  deploy: call
    .meta({ policy: 'deploy' })
    .input(z.strictObject({ environment_id: Id, ...TaskCreate.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { environment_id: id, ...asked } = input
      return serializeWholeTask(ctx, await requestDeployment(ctx, caller, id, asked, BY))
    }),
  lifecycle: call
    .meta({ policy: 'deploy' })
    .input(
      z.strictObject({
        environment_id: Id,
        verb: z.enum(LIFECYCLE_VERBS),
        ...LifecycleRequest.shape,
      }),
    )
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { environment_id: id, verb, ...asked } = input
      return serializeWholeTask(ctx, await requestLifecycle(ctx, caller, id, verb, asked, BY))
    }),
  /** What its services write. */
  logs: serviceLogs,
  events: watch
    .input(z.strictObject({ environment_id: Id, ...Resume }))
    .subscription(async ({ ctx, input, signal = new AbortController().signal }) => {
      const { environment_id: id, lastEventId } = input
      await ctx.admission.check()
      const environment = await loadEnvironment(ctx.ctx.db, ctx.admission.caller, id, 'read')
      const filter = { organizationId: environment.organizationId, environmentId: id }
      return counted(ctx.socket, watchEvents(ctx, filter, lastEventId, signal))
    }),
})
