// The current user and the user's organizations.
import { Me } from '@berth/shared/api'
import type { Context } from '../../../context.ts'
import { countProjectsByOrganization } from '../../../store/people/people.ts'
import { serializeMe } from '../../serializers/fields.ts'
import { type Api, callerOf } from '../http/api.ts'

export function meRoutes(api: Api, ctx: Context): void {
  const route = {
    config: { needs: 'token' as const },
    schema: { summary: 'The current user and organizations', response: { 200: Me } },
  }
  api.get('/api/me', route, async (request) => {
    const caller = callerOf(request)
    const { user, token } = request.who as NonNullable<typeof request.who>
    const counts = await countProjectsByOrganization(
      ctx.db,
      caller.memberships.map((m) => m.organizationId),
    )
    return serializeMe(user, token, caller, counts)
  })
}
