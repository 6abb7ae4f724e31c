// Credentials of image registries, of an organization or of a project.
import { Id, RegistryPut } from '@berth/shared/api'
import { z } from 'zod'
import {
  listRegistryViews,
  putRegistry,
  type RegistryScope,
  removeRegistry,
} from '../../../app/projects/registries.ts'
import { serializeRegistry } from '../../serializers/registry.ts'
import { call, router } from '../base.ts'

const Owner = z.union([z.strictObject({ project_id: Id }), z.strictObject({ organization_id: Id })])
const One = { owner: Owner, host: z.string().min(1).max(300) }

const scopeOf = (owner: z.infer<typeof Owner>): RegistryScope =>
  'project_id' in owner ? { project: owner.project_id } : { organization: owner.organization_id }

export const registryRouter = router({
  list: call
    .input(z.strictObject({ owner: Owner }))
    .query(async ({ ctx: { ctx, caller }, input }) => {
      const views = await listRegistryViews(ctx, caller, scopeOf(input.owner))
      return { registries: views.map(serializeRegistry) }
    }),
  set: call
    .input(z.strictObject({ ...One, ...RegistryPut.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input: { owner, ...given } }) =>
      serializeRegistry(await putRegistry(ctx, caller, scopeOf(owner), given)),
    ),
  remove: call.input(z.strictObject(One)).mutation(async ({ ctx: { ctx, caller }, input }) => {
    await removeRegistry(ctx, caller, scopeOf(input.owner), input.host)
    return null
  }),
})
