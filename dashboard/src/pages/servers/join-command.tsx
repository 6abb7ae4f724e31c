// The command that joins a server, and a live status of the join.
import { useQuery } from '@tanstack/react-query'
import { trpc } from '../../api.ts'
import { CopyField } from '../../components/copy.tsx'
import { Note } from '../../components/states.tsx'
import { Moment } from '../../components/time.tsx'

/** The join event triggers an immediate refetch; this interval is for a page that is not live. */
const AGAIN_MS = 5_000

export function JoinCommand({
  id,
  command,
  until,
}: {
  id: number
  command: string
  until: string
}) {
  const server = useQuery({
    ...trpc.server.get.queryOptions({ server_id: id }),
    refetchInterval: AGAIN_MS,
  }).data
  const isIn = server?.status === 'online'
  return (
    <div className="stack">
      <p>Run this on the server, as root:</p>
      <CopyField label="join command" text={command} />
      <p className="muted small">
        It works once, until <Moment at={until} />, and is shown this once.
      </p>
      <div role="status">
        {isIn ? (
          <Note kind="ok">{server.name} has joined and is online.</Note>
        ) : (
          <Note>Waiting for the server…</Note>
        )}
      </div>
    </div>
  )
}
