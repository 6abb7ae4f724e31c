// Keys of the installation, for platform administrators: the SSH authorities and the steps of their rotation, and the
// keys that encrypt stored secrets.
import {
  DataKey,
  DataKeyRotation,
  SshAuthority,
  SshAuthorityAdoption,
  SshAuthorityParams,
  SshAuthorityRetirement,
} from '@berth/shared/api'
import { z } from 'zod'
import { listKeys, rotateDataKey } from '../../../app/installation/data-key-rotation.ts'
import {
  adoptAuthority,
  announceAuthority,
  listSshAuthorities,
  retireAuthority,
} from '../../../app/ssh/rotation.ts'
import type { Context } from '../../../context.ts'
import type { OrganizationKey } from '../../../store/installation/organization-keys.ts'
import { time, timeOrNull } from '../../serializers/fields.ts'
import { serializeSshAuthority } from '../../serializers/ssh.ts'
import { type Api, callerOf } from '../http/api.ts'

export function adminKeyRoutes(api: Api, ctx: Context): void {
  const config = { needs: 'platform_admin' as const, errors: ['confirmation_required'] as const }
  const path = '/api/admin/ssh_authorities'
  api.get(
    path,
    {
      config: { needs: 'platform_admin' },
      schema: {
        summary: 'SSH authorities that servers and clients know, and what a rotation waits for',
        response: { 200: z.array(SshAuthority) },
      },
    },
    async (request) =>
      (await listSshAuthorities(ctx, callerOf(request))).map(serializeSshAuthority),
  )
  api.post(
    `${path}/:kind/announce`,
    {
      config,
      schema: {
        summary: 'Make a new SSH authority and publish it; the present one still signs',
        params: SshAuthorityParams,
        response: { 201: SshAuthority },
      },
    },
    async (request, reply) => {
      const made = await announceAuthority(ctx, callerOf(request), request.params.kind)
      return reply.code(201).send(serializeSshAuthority(made))
    },
  )
  api.post(
    `${path}/:kind/adopt`,
    {
      config,
      schema: {
        summary: 'Sign with the announced SSH authority; the former one stays published',
        params: SshAuthorityParams,
        body: SshAuthorityAdoption,
        response: { 200: SshAuthority },
      },
    },
    async (request) => {
      const { without, force } = request.body ?? {}
      const haste = { ...(without ? { without } : {}), ...(force ? { force } : {}) }
      const { kind } = request.params
      return serializeSshAuthority(await adoptAuthority(ctx, callerOf(request), kind, haste))
    },
  )
  api.post(
    `${path}/:kind/retire`,
    {
      config,
      schema: {
        summary: 'Publish the former SSH authority no longer and destroy its key',
        params: SshAuthorityParams,
        body: SshAuthorityRetirement,
        response: { 204: z.null() },
      },
    },
    async (request, reply) => {
      const force = request.body?.force ?? false
      await retireAuthority(ctx, callerOf(request), request.params.kind, { force })
      return reply.code(204).send(null)
    },
  )
}

const serializeDataKey = (key: OrganizationKey) => ({
  id: key.id,
  organization_id: key.organizationId,
  created_at: time(key.createdAt),
  retired_at: timeOrNull(key.retiredAt),
})

export function dataKeyRoutes(api: Api, ctx: Context): void {
  const path = '/api/admin/data_keys'
  const config = { needs: 'platform_admin' as const }
  api.get(
    path,
    {
      config,
      schema: {
        summary: 'Keys that seal stored secrets, one an organization; retired ones until they go',
        response: { 200: z.array(DataKey) },
      },
    },
    async (request) => (await listKeys(ctx, callerOf(request))).map(serializeDataKey),
  )
  api.post(
    `${path}/rotate`,
    {
      config,
      schema: {
        summary:
          'Seal with a new key from now on; what is stored is sealed again in the background',
        body: DataKeyRotation,
        response: { 201: DataKey },
      },
    },
    async (request, reply) => {
      const made = await rotateDataKey(ctx, callerOf(request), request.body.organization_id)
      return reply.code(201).send(serializeDataKey(made))
    },
  )
}
