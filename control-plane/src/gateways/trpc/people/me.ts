// The signed-in user and their organizations.
import { countProjectsByOrganization, listMemberships } from '../../../store/people/people.ts'
import { serializeSelf } from '../../serializers/dashboard.ts'
import { call } from '../base.ts'

export const me = call.query(async ({ ctx: { ctx, caller, admission } }) => {
  const ids = caller.memberships.map((m) => m.organizationId)
  const counts = await countProjectsByOrganization(ctx.db, ids)
  const all = await listMemberships(ctx.db, caller.userId)
  const waiting = all.filter((m) => !ids.includes(m.organizationId))
  return serializeSelf(admission.user, caller, counts, waiting)
})
