// The command that joins a server, at an address that survives a reload until the server has joined; or what is missing
// for a command that works.
import { useQuery } from '@tanstack/react-query'
import { useEffect } from 'react'
import { api, trpc } from '../../api.ts'
import { CopyField } from '../../components/copy.tsx'
import { Loaded, Note } from '../../components/states.tsx'
import { Moment } from '../../components/time.tsx'
import type { Server } from '../../data.ts'
import { SecretUsed, useSecret } from '../secrets/one-time-secret.tsx'

/** The join event triggers an immediate refetch; this interval is for a page that is not live. */
const AGAIN_MS = 5_000

export type JoinProblems = Awaited<ReturnType<typeof api.server.joinCheck.query>>['problems']

export function CannotJoin({ problems }: { problems: JoinProblems }) {
  if (problems.length === 0) return null
  return (
    <div role="alert">
      <Note kind="bad">
        <p>This server could not join yet.</p>
        <ul>
          {problems.map(({ code, message }) => (
            <li key={code}>{message}</li>
          ))}
        </ul>
      </Note>
    </div>
  )
}

export function JoinCommand({ server: s, secret: id }: { server: Server; secret: string }) {
  const secret = useSecret(id)
  const now =
    useQuery({
      ...trpc.server.get.queryOptions({ server_id: s.id }),
      refetchInterval: AGAIN_MS,
    }).data ?? s
  const check = useQuery(trpc.server.joinCheck.queryOptions({ hostname: s.hostname })).data
  const isIn = now.status === 'online'
  const isShown = secret.data !== undefined
  useEffect(() => {
    // the command works once: after the join there is nothing left to copy
    if (isIn && isShown) void api.secret.confirm.mutate({ id }).catch(() => undefined)
  }, [isIn, isShown, id])
  return (
    <div className="stack">
      {!isIn && (
        <Loaded query={secret} what="The join command" lines={2} missing={<SecretUsed />}>
          {({ values: [first], expires_at: until }) => (
            <>
              <p>Run this on {s.name}, as root:</p>
              <CopyField label="join command" text={first?.text ?? ''} />
              <p className="muted small">
                Works once, until <Moment at={until} />.
                {check && check.missing.length > 0 && (
                  <> There is no package for {check.missing.join(' and ')} processors here.</>
                )}
              </p>
            </>
          )}
        </Loaded>
      )}
      <div role="status">
        {isIn ? (
          <Note kind="ok">{s.name} has joined and is online.</Note>
        ) : (
          <Note>Waiting for the server…</Note>
        )}
      </div>
    </div>
  )
}
