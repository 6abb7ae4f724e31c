// Organizations and their members.
import {
  Confirmation,
  IdParams,
  Member,
  MemberParams,
  MemberUpdate,
  OnePage,
  OrganizationCreate,
  OrganizationDetail,
  OrganizationUpdate,
  Paging,
} from '@berth/shared/api'
import { z } from 'zod'
import {
  changeMemberRole,
  listOrganizationMembers,
  removeMember,
} from '../../../app/people/members.ts'
import {
  changeOrganization,
  createOrganization,
  endOrganization,
  listOwnOrganizations,
} from '../../../app/people/organizations.ts'
import type { Context } from '../../../context.ts'
import { serializeMember, serializeOrganization } from '../../serializers/people.ts'
import { type Api, callerOf } from '../http/api.ts'
import { pageById } from '../http/id-pages.ts'

export function organizationRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/organizations',
    {
      config: { needs: 'token' },
      schema: {
        summary: 'Your organizations',
        querystring: OnePage,
        response: { 200: z.array(OrganizationDetail) },
      },
    },
    async (request) =>
      (await listOwnOrganizations(ctx, callerOf(request))).map(serializeOrganization),
  )
  api.post(
    '/api/organizations',
    {
      config: { needs: 'platform_admin', errors: ['slug_taken'] },
      schema: {
        summary: 'Make an organization; its maker owns it',
        body: OrganizationCreate,
        response: { 201: OrganizationDetail },
      },
    },
    async (request, reply) => {
      const made = await createOrganization(ctx, callerOf(request), request.body)
      return reply
        .code(201)
        .header('location', `/api/organizations/${made.organization.id}`)
        .send(serializeOrganization(made))
    },
  )
  api.patch(
    '/api/organizations/:id',
    {
      config: { needs: 'organization:write', errors: ['slug_taken', 'second_factor_required'] },
      schema: {
        summary: 'Rename an organization',
        params: IdParams,
        body: OrganizationUpdate,
        response: { 200: OrganizationDetail },
      },
    },
    async (request) =>
      serializeOrganization(
        await changeOrganization(ctx, callerOf(request), request.params.id, request.body),
      ),
  )
  api.delete(
    '/api/organizations/:id',
    {
      config: {
        needs: 'organization:write',
        errors: ['organization_not_empty', 'confirmation_required'],
      },
      schema: {
        summary: 'Delete an empty organization; ?confirm= repeats its slug',
        params: IdParams,
        querystring: Confirmation,
        response: { 204: z.null() },
      },
    },
    async (request, reply) => {
      await endOrganization(ctx, callerOf(request), request.params.id, request.query.confirm)
      return reply.code(204).send(null)
    },
  )
  memberRoutes(api, ctx)
}

function memberRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/organizations/:id/members',
    {
      config: { needs: 'read' },
      schema: {
        summary: 'Members of an organization',
        params: IdParams,
        querystring: Paging,
        response: { 200: z.array(Member) },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const rows = await pageById(
        ctx,
        request,
        reply,
        ({ limit, from }) =>
          listOrganizationMembers(ctx, caller, request.params.id, { limit, after: from }),
        (member) => member.userId,
      )
      return rows.map(serializeMember)
    },
  )
  api.patch(
    '/api/organizations/:id/members/:user_id',
    {
      config: { needs: 'member:write', errors: ['role_too_high', 'last_owner'] },
      schema: {
        summary: "Change a member's role",
        params: MemberParams,
        body: MemberUpdate,
        response: { 200: Member },
      },
    },
    async (request) => {
      const { id, user_id } = request.params
      const { role } = request.body
      return serializeMember(await changeMemberRole(ctx, callerOf(request), id, user_id, role))
    },
  )
  api.delete(
    '/api/organizations/:id/members/:user_id',
    {
      config: { needs: 'member:write', errors: ['role_too_high', 'last_owner'] },
      schema: {
        summary: 'Remove a member, or leave',
        params: MemberParams,
        response: { 204: z.null() },
      },
    },
    async (request, reply) => {
      const { id, user_id } = request.params
      await removeMember(ctx, callerOf(request), id, user_id)
      return reply.code(204).send(null)
    },
  )
}
