// Upgrades of agents: a button for all outdated servers, the last rollout, and the reason if none is possible.
import { useQuery } from '@tanstack/react-query'
import { api, change, trpc } from '../../api.ts'
import { ActButton } from '../../components/act.tsx'
import { CopyField } from '../../components/copy.tsx'
import { Note } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import type { Server } from '../../data.ts'
import { count } from '../../format.ts'
import { useOrganization, usePermission } from '../../organization.ts'

const LOOKS = { running: 'updating', done: 'succeeded', failed: 'failed' } as const
const POLL_MS = 2_000

export function AgentUpgrades({ servers }: { servers: Server[] }) {
  const organization = useOrganization()
  const mayWrite = usePermission('server:write')
  const outdated = servers.filter((s) => s.agent_outdated)
  const updates = useQuery({
    ...trpc.server.updates.queryOptions(),
    refetchInterval: (query) =>
      query.state.data?.rollouts[0]?.state === 'running' ? POLL_MS : false,
  })
  const [last] = updates.data?.rollouts ?? []
  if (!updates.data || (outdated.length === 0 && last?.state !== 'running')) return null
  const { version, reason, command } = updates.data
  const isRunning = last?.state === 'running'
  return (
    <section className="stack" aria-label="Upgrades of agents">
      {last && (
        <p className="row">
          <Status of={LOOKS[last.state]} word={`Upgrade to ${last.version}`} />
          <span>
            {last.servers.kept} of{' '}
            {count(
              last.servers.kept + last.servers.waiting + last.servers.offered + last.servers.failed,
              'server',
            )}
            {isRunning && `, wave ${last.wave} of 3`}
          </span>
        </p>
      )}
      {last?.reason && <Note kind="warn">{last.reason}</Note>}
      {outdated.length > 0 && !isRunning && reason === null && mayWrite && (
        <ActButton
          act={() =>
            change(
              api.server.upgradeAll.mutate(
                { scope: 'organization' },
                { context: { organization: organization?.id } },
              ),
            )
          }
          done="Upgrade started: one server first, then a tenth, then all."
        >
          Upgrade {count(outdated.length, 'agent')} to {version}
        </ActButton>
      )}
      {outdated.length > 0 && reason !== null && (
        <Note>
          {count(outdated.length, 'agent')} can only be upgraded by hand. {reason}
          {command && <CopyField label="Run this on each server" text={command} />}
        </Note>
      )}
    </section>
  )
}

/** What the last upgrade of one server does or did. */
export function ServerUpdate({ server: s }: { server: Server }) {
  if (!s.update) return null
  const { state, version, reason } = s.update
  if (state === 'waiting' || state === 'offered') {
    const word = state === 'waiting' ? `waits for ${version}` : `upgrading to ${version}`
    return <Status of="updating" word={word} />
  }
  if (state !== 'failed' || !s.agent_outdated) return null
  return (
    <span title={reason ?? undefined}>
      <Status of="failed" word={`upgrade to ${version} failed`} />
    </span>
  )
}
