// Keys of the installation, for platform administrators: the SSH authorities and the steps of their rotation.
import {
  SshAuthority,
  SshAuthorityAdoption,
  SshAuthorityParams,
  SshAuthorityRetirement,
} from '@berth/shared/rest'
import { z } from 'zod'
import {
  adoptAuthority,
  announceAuthority,
  listSshAuthorities,
  retireAuthority,
} from '../app/ssh-rotation.ts'
import type { Context } from '../context.ts'
import { type Api, callerOf } from './http.ts'
import { presentSshAuthority } from './present-ssh.ts'

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
    async (request) => (await listSshAuthorities(ctx, callerOf(request))).map(presentSshAuthority),
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
      return reply.code(201).send(presentSshAuthority(made))
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
      return presentSshAuthority(await adoptAuthority(ctx, callerOf(request), kind, haste))
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
