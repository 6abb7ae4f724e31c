// Upgrades of agents: what can be offered, the rollouts, and how one is started.
import { AgentRollout, AgentUpdates, AgentUpdatesStart, IdParams } from '@berth/shared/api'
import { getAgentUpdates, upgradeServer, upgradeServers } from '../../../app/servers/rollouts.ts'
import type { Context } from '../../../context.ts'
import { serializeAgentUpdates, serializeRollout } from '../../serializers/agent-updates.ts'
import { type Api, callerOf } from '../http/api.ts'

export function agentUpdateRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/agent_updates',
    {
      config: { needs: 'token' },
      schema: {
        summary: 'Whether agents can be upgraded, and the last rollouts',
        response: { 200: AgentUpdates },
      },
    },
    async (request) => serializeAgentUpdates(await getAgentUpdates(ctx, callerOf(request))),
  )
  api.post(
    '/api/agent_updates',
    {
      config: {
        needs: 'server:write',
        errors: ['agent_not_upgradable', 'organization_required', 'platform_admin_only'],
      },
      schema: {
        summary: 'Upgrade every outdated agent, in waves',
        body: AgentUpdatesStart,
        response: { 202: AgentRollout },
      },
    },
    async (request, reply) => {
      const view = await upgradeServers(ctx, callerOf(request), request.body.scope)
      return reply.code(202).send(serializeRollout(view))
    },
  )
  api.post(
    '/api/servers/:id/upgrade',
    {
      config: { needs: 'server:write', errors: ['agent_not_upgradable'] },
      schema: {
        summary: "Upgrade one server's agent",
        params: IdParams,
        response: { 202: AgentRollout },
      },
    },
    async (request, reply) => {
      const view = await upgradeServer(ctx, callerOf(request), request.params.id)
      return reply.code(202).send(serializeRollout(view))
    },
  )
}
