// The signed-in user and their organizations.
import { countProjectsByOrganization } from '../store/people.ts'
import { call } from './base.ts'
import { presentSelf } from './present.ts'

export const me = call.query(async ({ ctx: { ctx, caller, admission } }) => {
  const ids = caller.memberships.map((m) => m.organizationId)
  return presentSelf(admission.user, caller, await countProjectsByOrganization(ctx.db, ids))
})
