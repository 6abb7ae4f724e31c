// Servers: list, read, create, change, delete, how an agent joins and is revoked, and the SSH certificates issued for
// it.
import {
  AgentUpdatesStart,
  Id,
  JoinTokenRequest,
  SerialParams,
  ServerCreate,
  ServerDeleteQuery,
  ServerPatch,
  ServerShareCreate,
  ServerUsageQuery,
} from '@berth/shared/api'
import { z } from 'zod'
import { requirePermission } from '../../../app/core/access.ts'
import { keepMadeSecret } from '../../../app/people/one-time-secrets.ts'
import { checkJoin } from '../../../app/servers/agent-packages.ts'
import { getServerFacts } from '../../../app/servers/facts.ts'
import { getAgentUpdates, upgradeServer, upgradeServers } from '../../../app/servers/rollouts.ts'
import {
  createServer,
  getServer,
  listVisibleServers,
  makeServerJoinToken,
  requireHostname,
} from '../../../app/servers/servers.ts'
import {
  changeServer,
  deleteJoinToken,
  deleteServer,
  revokeAgent,
} from '../../../app/servers/settings.ts'
import { shareServer, unshareServer } from '../../../app/servers/sharing.ts'
import { listIssuedSshCertificates } from '../../../app/ssh/certificates.ts'
import { revokeSshCertificate } from '../../../app/ssh/revocation.ts'
import { serializeAgentUpdates, serializeRollout } from '../../serializers/agent-updates.ts'
import { serializeServer, time } from '../../serializers/fields.ts'
import { serializeIssued } from '../../serializers/ssh.ts'
import { serializeFacts } from '../../serializers/usage.ts'
import { call, router } from '../base.ts'
import { Page, pageById } from '../paging.ts'

const One = z.strictObject({ server_id: Id })

export const serverRouter = router({
  list: call.query(async ({ ctx: { ctx, caller } }) => {
    const views = await listVisibleServers(ctx, caller)
    return { servers: views.map(serializeServer) }
  }),
  get: call
    .input(One)
    .query(async ({ ctx: { ctx, caller }, input }) =>
      serializeServer(await getServer(ctx, caller, input.server_id)),
    ),
  /** Its current and past load, and what each environment uses. */
  usage: call
    .input(z.strictObject({ server_id: Id, ...ServerUsageQuery.shape }))
    .query(async ({ ctx: { ctx, caller }, input }) => {
      const { server_id: id, span = 'day' } = input
      return serializeFacts(await getServerFacts(ctx, caller, id, span), span)
    }),
  create: call
    .input(ServerCreate)
    .mutation(async ({ ctx: { ctx, caller }, input }) =>
      serializeServer(await createServer(ctx, caller, input)),
    ),
  update: call
    .input(z.strictObject({ server_id: Id, ...ServerPatch.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { server_id: id, ...asked } = input
      return serializeServer(await changeServer(ctx, caller, id, asked))
    }),
  delete: call
    .input(z.strictObject({ server_id: Id, ...ServerDeleteQuery.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { server_id: id, ...asked } = input
      await deleteServer(ctx, caller, id, asked)
      return null
    }),
  share: call
    .input(z.strictObject({ server_id: Id, ...ServerShareCreate.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { server_id: id, ...asked } = input
      return serializeServer(await shareServer(ctx, caller, id, asked))
    }),
  unshare: call
    .input(z.strictObject({ server_id: Id, organization_id: Id }))
    .mutation(async ({ ctx: { ctx, caller }, input }) =>
      serializeServer(await unshareServer(ctx, caller, input.server_id, input.organization_id)),
    ),
  /** What keeps a join command from working on a server with this name. */
  joinCheck: call
    .input(z.strictObject({ hostname: z.string().min(1).max(253) }))
    .query(({ ctx: { ctx }, input }) => {
      requireHostname(input.hostname)
      return checkJoin(ctx, input.hostname)
    }),
  /** Makes a token only if its command would work; the command has an address until the server joined. */
  joinToken: call
    .input(z.strictObject({ server_id: Id, ...JoinTokenRequest.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { server } = await getServer(ctx, caller, input.server_id)
      requirePermission(caller, server.organizationId, 'server:write')
      const check = await checkJoin(ctx, server.hostname)
      if (check.problems.length > 0) return { ...check, join: null }
      const made = await makeServerJoinToken(ctx, caller, server.id, input.rejoin ?? false)
      const secret_id = await keepMadeSecret(ctx, caller, {
        organizationId: server.organizationId,
        title: `Join command of ${server.name}`,
        hint: 'Run it on the server as root. It works once.',
        back: `/servers/${server.id}`,
        values: [{ label: 'Join command', text: made.command }],
        expiresAt: made.expiresAt,
      })
      const { token, command } = made
      const join = { token, command, expires_at: time(made.expiresAt), secret_id }
      return { ...check, join }
    }),
  endJoinToken: call.input(One).mutation(async ({ ctx: { ctx, caller }, input }) => {
    await deleteJoinToken(ctx, caller, input.server_id)
    return null
  }),
  revokeAgent: call
    .input(One)
    .mutation(async ({ ctx: { ctx, caller }, input }) =>
      serializeServer(await revokeAgent(ctx, caller, input.server_id)),
    ),
  updates: call.query(async ({ ctx: { ctx, caller } }) =>
    serializeAgentUpdates(await getAgentUpdates(ctx, caller)),
  ),
  upgrade: call
    .input(One)
    .mutation(async ({ ctx: { ctx, caller }, input }) =>
      serializeRollout(await upgradeServer(ctx, caller, input.server_id)),
    ),
  upgradeAll: call
    .input(AgentUpdatesStart)
    .mutation(async ({ ctx: { ctx, caller }, input }) =>
      serializeRollout(await upgradeServers(ctx, caller, input.scope)),
    ),
  certificates: call
    .input(z.strictObject({ server_id: Id, ...Page }))
    .query(async ({ ctx: { ctx, caller }, input }) => {
      const { items, next } = await pageById(
        input,
        ({ limit, from }) =>
          listIssuedSshCertificates(ctx, caller, input.server_id, { limit, beforeId: from }),
        (row) => row.id,
        (row) => serializeIssued(row, ctx.clock.now()),
      )
      return { certificates: items, next }
    }),
  revokeCertificate: call
    .input(z.strictObject({ server_id: Id, serial: SerialParams.shape.serial }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const row = await revokeSshCertificate(ctx, caller, input.server_id, input.serial)
      return serializeIssued(row, ctx.clock.now())
    }),
})
