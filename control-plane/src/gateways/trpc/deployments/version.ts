// What can be deployed to an environment instead of the newest commit of its branch.
import { Id } from '@berth/shared/api'
import { z } from 'zod'
import { listCommitChoices, listVersions } from '../../../app/deployments/commits.ts'
import { serializeChoices, serializeVersion } from '../../serializers/diagnostics.ts'
import { call, router } from '../base.ts'

const Asked = z.strictObject({
  environment_id: Id,
  /** Whose commits; absent: of the environment's own branch. */
  branch: z.string().min(1).max(255).optional(),
})

export const versionRouter = router({
  /** Branches of the repository and the newest commits of one of them. */
  commits: call.input(Asked).query(async ({ ctx: { ctx, caller }, input }) => {
    const { environment_id: id, branch } = input
    return serializeChoices(await listCommitChoices(ctx, caller, id, { branch }))
  }),
  /** Earlier deployments to roll back to. */
  list: call
    .input(z.strictObject({ environment_id: Id }))
    .query(async ({ ctx: { ctx, caller }, input }) => ({
      versions: (await listVersions(ctx, caller, input.environment_id)).map(serializeVersion),
    })),
})
