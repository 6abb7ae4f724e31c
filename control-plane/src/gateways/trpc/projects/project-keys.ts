// A project's deploy key, Basic Auth, limit of environments, repository and forge token.
import {
  EnvironmentLimitPut,
  ForgeHostKeyPost,
  HostTokenPut,
  Id,
  ProjectBasicAuth,
} from '@berth/shared/api'
import { z } from 'zod'
import { getForgeHostKey, trustForgeHostKey } from '../../../app/forges/forge-host-keys.ts'
import { removeForgeToken, setForgeToken } from '../../../app/forges/forge-tokens.ts'
import { askForReconcile } from '../../../app/forges/reconcile-rounds.ts'
import { checkRepository } from '../../../app/forges/repository.ts'
import { endPreviousSecret } from '../../../app/forges/webhook-secrets.ts'
import { setProjectAuth } from '../../../app/projects/basic-auth.ts'
import { getDeployKey, replaceDeployKey } from '../../../app/projects/deploy-keys.ts'
import { checkDomains, listDomains } from '../../../app/projects/domains.ts'
import { setEnvironmentLimit } from '../../../app/projects/settings.ts'
import { serializeDomain } from '../../serializers/dashboard.ts'
import { serializeBasicAuth } from '../../serializers/environment.ts'
import { time } from '../../serializers/fields.ts'
import { serializeDeployKey, serializeForgeHostKey } from '../../serializers/project.ts'
import { serializeForgeToken, serializeRepositoryCheck } from '../../serializers/repository.ts'
import { call } from '../base.ts'

const One = z.strictObject({ project_id: Id })

export const projectKeyProcedures = {
  endPreviousSecret: call.input(One).mutation(async ({ ctx: { ctx, caller }, input }) => {
    await endPreviousSecret(ctx, caller, input.project_id)
    return null
  }),
  deployKey: call
    .input(One)
    .query(async ({ ctx: { ctx, caller }, input }) =>
      serializeDeployKey(await getDeployKey(ctx, caller, input.project_id)),
    ),
  replaceDeployKey: call
    .input(One)
    .mutation(async ({ ctx: { ctx, caller }, input }) =>
      serializeDeployKey(await replaceDeployKey(ctx, caller, input.project_id)),
    ),
  /** A mutation, because it makes outbound requests and queries refetch by themselves. */
  hostKey: call
    .input(One)
    .mutation(async ({ ctx: { ctx, caller }, input }) =>
      serializeForgeHostKey(await getForgeHostKey(ctx, caller, input.project_id)),
    ),
  trustHostKey: call
    .input(z.strictObject({ project_id: Id, ...ForgeHostKeyPost.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) =>
      serializeForgeHostKey(
        await trustForgeHostKey(ctx, caller, input.project_id, input.fingerprint),
      ),
    ),
  setBasicAuth: call
    .input(z.strictObject({ project_id: Id, basic_auth: ProjectBasicAuth }))
    .mutation(async ({ ctx: { ctx, caller }, input }) =>
      serializeBasicAuth(await setProjectAuth(ctx, caller, input.project_id, input.basic_auth)),
    ),
  setLimit: call
    .input(z.strictObject({ project_id: Id, ...EnvironmentLimitPut.shape }))
    .mutation(({ ctx: { ctx, caller }, input }) =>
      setEnvironmentLimit(ctx, caller, input.project_id, input.limit),
    ),
  /** The names of its environments with the results of the last look, if there was one. */
  domains: call.input(One).query(async ({ ctx: { ctx, caller }, input }) => ({
    domains: (await listDomains(ctx, caller, input.project_id)).map(serializeDomain),
  })),
  checkDomains: call.input(One).mutation(async ({ ctx: { ctx, caller }, input }) => {
    const views = await checkDomains(ctx, caller, input.project_id)
    return { domains: views.map(serializeDomain) }
  }),
  check: call.input(One).mutation(async ({ ctx: { ctx, caller }, input }) => {
    await ctx.quotas.narrow.repositoryChecks.take(`user ${caller.userId}`)
    return serializeRepositoryCheck(await checkRepository(ctx, caller, input.project_id))
  }),
  reconcile: call.input(One).mutation(async ({ ctx: { ctx, caller }, input }) => {
    const startedAt = await askForReconcile(ctx, caller, input.project_id)
    return { started_at: time(startedAt) }
  }),
  setForgeToken: call
    .input(z.strictObject({ project_id: Id, ...HostTokenPut.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) =>
      serializeForgeToken(await setForgeToken(ctx, caller, input.project_id, input.token)),
    ),
  removeForgeToken: call.input(One).mutation(async ({ ctx: { ctx, caller }, input }) => {
    await removeForgeToken(ctx, caller, input.project_id)
    return null
  }),
}
