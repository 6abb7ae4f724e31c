// Connections to forges: of an organization, their repositories, and the connection of a project.
import { REST } from '@berth/shared'
import { ForgeConnectionPatch, ForgeConnectionPost, Id, ProjectForgePut } from '@berth/shared/api'
import { z } from 'zod'
import {
  changeForgeConnection,
  createForgeConnection,
  listForgeConnections,
  removeForgeConnection,
} from '../../../app/forges/connections/connections.ts'
import { previewRepository } from '../../../app/forges/connections/preview.ts'
import {
  checkProjectForge,
  connectProject,
  disconnectProject,
  getProjectForge,
} from '../../../app/forges/connections/project-forge.ts'
import { listForgeRepositories } from '../../../app/forges/connections/repositories.ts'
import {
  serializeDisconnected,
  serializeForgeConnection,
  serializeForgeRepository,
  serializePreview,
  serializeProjectForge,
} from '../../serializers/forge.ts'
import { call, router } from '../base.ts'

const Organization = { organization_id: Id }
const Connection = { connection_id: Id }
const Project = z.strictObject({ project_id: Id })

export const forgeRouter = router({
  list: call.input(z.strictObject(Organization)).query(async ({ ctx: { ctx, caller }, input }) => ({
    connections: (await listForgeConnections(ctx, caller, input.organization_id)).map(
      serializeForgeConnection,
    ),
  })),
  connect: call
    .input(z.strictObject({ ...Organization, ...ForgeConnectionPost.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input: { organization_id, ...asked } }) => {
      return serializeForgeConnection(
        await createForgeConnection(ctx, caller, organization_id, asked),
      )
    }),
  change: call
    .input(z.strictObject({ ...Connection, ...ForgeConnectionPatch.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input: { connection_id, ...asked } }) => {
      return serializeForgeConnection(
        await changeForgeConnection(ctx, caller, connection_id, asked),
      )
    }),
  remove: call
    .input(z.strictObject(Connection))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      await removeForgeConnection(ctx, caller, input.connection_id)
      return null
    }),
  /** A mutation, because it makes outbound requests and queries refetch by themselves. */
  repositories: call
    .input(
      z.strictObject({
        ...Connection,
        search: z.string().max(200),
        from: z.string().max(200).nullable(),
      }),
    )
    .mutation(async ({ ctx: { ctx, caller }, input: { connection_id, ...asked } }) => {
      const size = REST.perPage
      const page = await listForgeRepositories(ctx, caller, connection_id, { ...asked, size })
      return { repositories: page.repositories.map(serializeForgeRepository), next: page.next }
    }),
  /** What a repository of the connection holds, before a project is made for it. */
  preview: call
    .input(
      z.strictObject({
        ...Connection,
        repository: z.string().min(1).max(500),
        branch: z.string().min(1).max(255),
      }),
    )
    .mutation(async ({ ctx: { ctx, caller }, input: { connection_id, ...asked } }) =>
      serializePreview(await previewRepository(ctx, caller, connection_id, asked)),
    ),
  ofProject: call
    .input(Project)
    .query(async ({ ctx: { ctx, caller }, input }) =>
      serializeProjectForge(await getProjectForge(ctx, caller, input.project_id)),
    ),
  connectProject: call
    .input(z.strictObject({ project_id: Id, with: ProjectForgePut }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      return serializeProjectForge(await connectProject(ctx, caller, input.project_id, input.with))
    }),
  checkProject: call.input(Project).mutation(async ({ ctx: { ctx, caller }, input }) => {
    return serializeProjectForge(await checkProjectForge(ctx, caller, input.project_id))
  }),
  disconnectProject: call
    .input(Project)
    .mutation(async ({ ctx: { ctx, caller }, input }) =>
      serializeDisconnected(await disconnectProject(ctx, caller, input.project_id)),
    ),
})
