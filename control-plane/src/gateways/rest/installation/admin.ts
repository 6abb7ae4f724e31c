// What platform administrators see across organizations: names, counts, limits, and the accounts they can close.
import {
  AdminOrganization,
  AdminProject,
  AdminUser,
  AdminUserUpdate,
  IdParams,
  Paging,
} from '@berth/shared/api'
import { z } from 'zod'
import {
  changeUser,
  listEveryOrganization,
  listEveryProject,
  listEveryUser,
} from '../../../app/installation/users.ts'
import type { Context } from '../../../context.ts'
import {
  serializeAdminOrganization,
  serializeAdminProject,
  serializeAdminUser,
} from '../../serializers/people.ts'
import { type Api, callerOf } from '../http/api.ts'
import { pageById } from '../http/id-pages.ts'

export function adminRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/admin/users',
    {
      config: { needs: 'platform_admin' },
      schema: {
        summary: 'Every account',
        querystring: Paging,
        response: { 200: z.array(AdminUser) },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const load = ({ limit, from }: { limit: number; from: number | undefined }) =>
        listEveryUser(ctx, caller, { limit, after: from })
      const rows = await pageById(ctx, request, reply, load, (view) => view.user.id)
      return rows.map(serializeAdminUser)
    },
  )
  api.patch(
    '/api/admin/users/:id',
    {
      config: { needs: 'platform_admin', errors: ['last_platform_admin'] },
      schema: {
        summary: 'Appoint, dismiss, disable or enable an account',
        params: IdParams,
        body: AdminUserUpdate,
        response: { 200: AdminUser },
      },
    },
    async (request) =>
      serializeAdminUser(await changeUser(ctx, callerOf(request), request.params.id, request.body)),
  )
  api.get(
    '/api/admin/organizations',
    {
      config: { needs: 'platform_admin' },
      schema: {
        summary: 'Every organization: names and counts',
        querystring: Paging,
        response: { 200: z.array(AdminOrganization) },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const load = ({ limit, from }: { limit: number; from: number | undefined }) =>
        listEveryOrganization(ctx, caller, { limit, after: from })
      const rows = await pageById(ctx, request, reply, load, (view) => view.organization.id)
      return rows.map(serializeAdminOrganization)
    },
  )
  api.get(
    '/api/admin/projects',
    {
      config: { needs: 'platform_admin' },
      schema: {
        summary: 'Every project: names, counts and limits',
        querystring: Paging,
        response: { 200: z.array(AdminProject) },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const load = ({ limit, from }: { limit: number; from: number | undefined }) =>
        listEveryProject(ctx, caller, { limit, after: from })
      const rows = await pageById(ctx, request, reply, load, (view) => view.project.id)
      return rows.map(serializeAdminProject)
    },
  )
}
