// Rollouts of the agents' new version, as people see them.
import { VERSION } from '@berth/shared'
import type { AgentRollout, AgentUpdate, AgentUpdates } from '@berth/shared/api'
import type { getAgentUpdates, RolloutView } from '../../app/servers/rollouts.ts'
import { waveOf } from '../../domain/servers/rollout.ts'
import { time, timeOrNull } from './fields.ts'

export function serializeRollout({ rollout, updates }: RolloutView): AgentRollout {
  const count = (state: AgentUpdate['state']): number =>
    updates.filter((update) => update.state === state).length
  const kept = count('kept')
  const skipped = count('skipped')
  return {
    id: rollout.id,
    organization_id: rollout.organizationId,
    version: rollout.version,
    state: rollout.state as AgentRollout['state'],
    reason: rollout.reason || null,
    wave: waveOf(updates.length - skipped, kept),
    servers: {
      waiting: count('waiting'),
      offered: count('offered'),
      kept,
      failed: count('failed'),
      skipped,
    },
    started_at: time(rollout.startedAt),
    finished_at: timeOrNull(rollout.finishedAt),
  }
}

export const serializeAgentUpdates = ({
  reason,
  command,
  rollouts,
}: Awaited<ReturnType<typeof getAgentUpdates>>): AgentUpdates => ({
  version: VERSION,
  reason,
  command,
  rollouts: rollouts.map(serializeRollout),
})
