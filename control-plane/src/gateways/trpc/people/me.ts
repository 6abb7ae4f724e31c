// The signed-in user and their organizations.
import { countProjectsByOrganization } from '../../../store/people/people.ts'
import { serializeSelf } from '../../serializers/dashboard.ts'
import { call } from '../base.ts'

export const me = call.query(async ({ ctx: { ctx, caller, admission } }) => {
  const ids = caller.memberships.map((m) => m.organizationId)
  return serializeSelf(admission.user, caller, await countProjectsByOrganization(ctx.db, ids))
})
