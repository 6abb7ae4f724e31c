// Organizations: list one's own, create, rename, delete, and live events of their projects, servers and deployments.
import { Confirmation, Id, OrganizationCreate, OrganizationUpdate } from '@berth/shared/api'
import { z } from 'zod'
import {
  changeOrganization,
  createOrganization,
  endOrganization,
  listOwnOrganizations,
} from '../../../app/people/organizations.ts'
import { serializeOrganization } from '../../serializers/people.ts'
import { call, router, watch } from '../base.ts'
import { counted, Resume, watchEvents } from '../events.ts'

export const organizationRouter = router({
  list: call.query(async ({ ctx: { ctx, caller } }) => {
    const views = await listOwnOrganizations(ctx, caller)
    return { organizations: views.map(serializeOrganization) }
  }),
  create: call
    .input(OrganizationCreate)
    .mutation(async ({ ctx: { ctx, caller }, input }) =>
      serializeOrganization(await createOrganization(ctx, caller, input)),
    ),
  update: call
    .input(z.strictObject({ organization_id: Id, ...OrganizationUpdate.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { organization_id: id, ...asked } = input
      return serializeOrganization(await changeOrganization(ctx, caller, id, asked))
    }),
  delete: call
    .input(z.strictObject({ organization_id: Id, ...Confirmation.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      await endOrganization(ctx, caller, input.organization_id, input.confirm)
      return null
    }),
  events: watch
    .input(z.strictObject({ organization_id: Id, ...Resume }))
    .subscription(async ({ ctx, input, signal = new AbortController().signal }) => {
      const organizationId = input.organization_id
      await ctx.admission.require(organizationId, false)
      const events = watchEvents(ctx, { organizationId }, input.lastEventId, signal)
      return counted(ctx.socket, events)
    }),
})
