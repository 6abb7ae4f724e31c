// The browsers in which the user is signed in.
import { useQuery } from '@tanstack/react-query'
import { api, change, trpc } from '../../../api.ts'
import { ActButton } from '../../../components/act.tsx'
import { Section } from '../../../components/page.tsx'
import { Loaded } from '../../../components/states.tsx'
import { Cell, Row, Table } from '../../../components/table.tsx'
import { Time } from '../../../components/time.tsx'
import { browserWords } from '../../../format.ts'

const METHODS = { password: 'password', passkey: 'passkey', provider: 'single sign-on' } as const

export function Sessions() {
  const query = useQuery(trpc.session.list.queryOptions())
  const others = query.data?.sessions.filter((s) => !s.is_current).length ?? 0
  return (
    <Section
      title="Sessions"
      isBare
      actions={
        others > 0 && (
          <ActButton
            small
            act={() => change(api.session.revokeOthers.mutate())}
            done="Signed out everywhere else."
          >
            Sign out everywhere else
          </ActButton>
        )
      }
    >
      <Loaded query={query} what="Sessions">
        {({ sessions }) => (
          <Table label="Sessions" head={['Browser', 'Address', 'Signed in', 'Last used', 'Change']}>
            {sessions.map((s) => (
              <Row key={s.id}>
                <Cell of="Browser">
                  <div className="stack-small">
                    <span title={s.user_agent ?? undefined}>{browserWords(s.user_agent)}</span>
                    <span className="muted small">
                      {s.is_current ? 'This browser' : `Signed in by ${METHODS[s.method]}`}
                    </span>
                  </div>
                </Cell>
                <Cell of="Address" plain>
                  {s.address ?? ''}
                </Cell>
                <Cell of="Signed in">
                  <Time at={s.started_at} />
                </Cell>
                <Cell of="Last used">
                  <Time at={s.last_used_at} />
                </Cell>
                <Cell of="Change" end>
                  {!s.is_current && (
                    <ActButton
                      small
                      label={`Sign out ${browserWords(s.user_agent)}`}
                      act={() => change(api.session.revoke.mutate({ session_id: s.id }))}
                      done="Signed out there."
                    >
                      Sign out
                    </ActButton>
                  )}
                </Cell>
              </Row>
            ))}
          </Table>
        )}
      </Loaded>
    </Section>
  )
}
