// Fields that only the dashboard gets; everything REST has too is presented by rest/present*.ts.
import type { Me } from '@berth/shared/rest'
import { type Caller, permissionsOf } from '../domain/access.ts'
import { time } from '../rest/present.ts'
import type { User } from '../store/people.ts'

/** As /api/me, but for whoever has no token. */
export const presentSelf = (
  user: User,
  caller: Caller,
  projectCounts: Map<number, number>,
): Omit<Me, 'token'> => ({
  id: user.id,
  name: user.name,
  email: user.email,
  avatar_url: null,
  is_platform_admin: caller.isPlatformAdmin,
  created_at: time(user.createdAt),
  current_organization_id: caller.askedOrganizationId,
  organizations: caller.memberships.map((m) => ({
    id: m.organizationId,
    name: m.organizationName,
    slug: m.organizationSlug,
    role: m.role,
    permissions: permissionsOf(m.role, caller.scopes),
    project_count: projectCounts.get(m.organizationId) ?? 0,
  })),
})
