// The whole installation, for its administrators: names, counts and limits, but no variables, logs or certificates.
import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change, trpc } from '../../api.ts'
import { ActButton, Ask } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { More } from '../../components/more.tsx'
import { SideNav } from '../../components/navigation/side-nav.tsx'
import { Page, Section } from '../../components/page.tsx'
import { Empty, Loaded } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { useMe } from '../../organization.ts'
import { NotFound } from '../not-found.tsx'
import { AuditTable } from './audit.tsx'

const PARTS = [
  { of: '', label: 'People', Part: Users },
  { of: 'organizations', label: 'Organizations', Part: Organizations },
  { of: 'projects', label: 'Projects', Part: Projects },
  { of: 'keys', label: 'SSH keys', Part: Authorities },
  { of: 'audit', label: 'Audit log', Part: WholeAudit },
] as const

export function Admin() {
  const me = useMe().data
  const { part = '' } = useParams({ strict: false }) as { part?: string }
  const found = PARTS.find(({ of }) => of === part)
  if (!found) return <NotFound />
  if (me && !me.is_platform_admin) {
    return (
      <Page title="Platform administration">
        <Empty title="Only platform administrators see this page">
          <p>Ask one of them to appoint you, or to look for you.</p>
        </Empty>
      </Page>
    )
  }
  return (
    <Page title="Platform administration">
      <SideNav
        label="Platform administration"
        links={PARTS.map(({ of, label }) => ({
          to: of === '' ? '/admin' : `/admin/${of}`,
          label,
          isExact: of === '',
        }))}
      >
        <found.Part />
      </SideNav>
    </Page>
  )
}

const none = <Empty title="None" />

function Users() {
  const me = useMe().data
  const query = useQuery({
    ...trpc.admin.users.queryOptions({ limit: 50 }),
    select: (page) => ({ items: page.users, next: page.next }),
  })
  return (
    <Section title="People" isBare>
      <More
        what="People"
        query={query}
        keyOf={(u) => u.id}
        older={async (cursor) => {
          const page = await api.admin.users.query({ limit: 50, cursor })
          return { items: page.users, next: page.next }
        }}
        empty={none}
      >
        {(users) => (
          <Table
            label="People"
            head={['Person', 'Organizations', 'State', 'Last active', 'Change']}
          >
            {users.map((u) => (
              <Row key={u.id}>
                <Cell of="Person">
                  <div className="stack-small">
                    <span>{u.name}</span>
                    <span className="muted small">{u.email}</span>
                  </div>
                </Cell>
                <Cell of="Organizations">{u.organization_count}</Cell>
                <Cell of="State" plain>
                  <span className="row">
                    {u.disabled ? <Status of="revoked" word="Disabled" /> : <Status of="active" />}
                    {u.is_platform_admin && <span className="muted">administrator</span>}
                  </span>
                </Cell>
                <Cell of="Last active">
                  {u.last_active_at ? <Time at={u.last_active_at} /> : 'never'}
                </Cell>
                <Cell of="Change" end>
                  <span className="row">
                    <ActButton
                      small
                      act={() =>
                        change(
                          api.admin.updateUser.mutate({
                            user_id: u.id,
                            is_platform_admin: !u.is_platform_admin,
                          }),
                        )
                      }
                      done="Changed."
                    >
                      {u.is_platform_admin ? 'Remove admin' : 'Make admin'}
                    </ActButton>
                    {u.has_second_factor && <ResetFactors user={u} />}
                    {u.id !== me?.id && (
                      <ActButton
                        small
                        act={() =>
                          change(
                            api.admin.updateUser.mutate({ user_id: u.id, disabled: !u.disabled }),
                          )
                        }
                        done="Changed."
                      >
                        {u.disabled ? 'Enable' : 'Disable'}
                      </ActButton>
                    )}
                  </span>
                </Cell>
              </Row>
            ))}
          </Table>
        )}
      </More>
    </Section>
  )
}

/** For a person who lost their phone, passkeys and recovery codes. */
function ResetFactors({ user }: { user: { id: number; name: string } }) {
  const [isAsking, ask] = useState(false)
  return (
    <>
      <Button small onClick={() => ask(true)}>
        Reset two-factor
      </Button>
      {isAsking && (
        <Ask
          title={`Reset two-factor sign-in of ${user.name}?`}
          submit="Reset"
          onClose={() => ask(false)}
          send={() => change(api.admin.resetSecondFactor.mutate({ user_id: user.id }))}
          done="Two-factor sign-in was reset."
        >
          <p>
            Removes the authenticator app, passkeys and recovery codes, and signs out every browser.{' '}
            {user.name} gets an e-mail.
          </p>
        </Ask>
      )}
    </>
  )
}

function Organizations() {
  const query = useQuery({
    ...trpc.admin.organizations.queryOptions({ limit: 50 }),
    select: (page) => ({ items: page.organizations, next: page.next }),
  })
  return (
    <Section title="Organizations" isBare>
      <More
        what="Organizations"
        query={query}
        keyOf={(o) => o.id}
        older={async (cursor) => {
          const page = await api.admin.organizations.query({ limit: 50, cursor })
          return { items: page.organizations, next: page.next }
        }}
        empty={none}
      >
        {(list) => (
          <Table label="Organizations" head={['Name', 'Members', 'Projects', 'Servers', 'Created']}>
            {list.map((o) => (
              <Row key={o.id}>
                <Cell of="Name">
                  {o.name} <span className="muted">{o.slug}</span>
                </Cell>
                <Cell of="Members">{o.member_count}</Cell>
                <Cell of="Projects">{o.project_count}</Cell>
                <Cell of="Servers">{o.server_count}</Cell>
                <Cell of="Created">
                  <Time at={o.created_at} />
                </Cell>
              </Row>
            ))}
          </Table>
        )}
      </More>
    </Section>
  )
}

function Projects() {
  const query = useQuery({
    ...trpc.admin.projects.queryOptions({ limit: 50 }),
    select: (page) => ({ items: page.projects, next: page.next }),
  })
  return (
    <Section title="Projects" isBare>
      <More
        what="Projects"
        query={query}
        keyOf={(p) => p.id}
        older={async (cursor) => {
          const page = await api.admin.projects.query({ limit: 50, cursor })
          return { items: page.projects, next: page.next }
        }}
        empty={none}
      >
        {(list) => (
          <Table
            label="Projects"
            head={['Name', 'Organization', 'State', 'Environments', 'Created']}
          >
            {list.map((p) => (
              <Row key={p.id}>
                <Cell of="Name">{p.name}</Cell>
                <Cell of="Organization" plain>
                  {p.organization.name}
                </Cell>
                <Cell of="State" plain>
                  <Status of={p.status} />
                </Cell>
                <Cell of="Environments">
                  {p.environment_count}/{p.environment_limit}
                </Cell>
                <Cell of="Created">
                  <Time at={p.created_at} />
                </Cell>
              </Row>
            ))}
          </Table>
        )}
      </More>
    </Section>
  )
}

const PHASES = {
  announced: 'published, does not sign yet',
  signing: 'signs',
  retiring: 'published, signs no longer',
} as const
type Kind = 'user' | 'host'

/** New keys are published, then sign, then the old ones are removed; each step waits for the servers. */
function Authorities() {
  const query = useQuery(trpc.admin.sshAuthorities.queryOptions())
  const [asking, ask] = useState<{ step: 'announce' | 'adopt' | 'retire'; kind: Kind }>()
  return (
    <Section title="SSH authorities" isBare>
      <Loaded query={query} what="Keys">
        {({ authorities }) => (
          <Table label="Keys" head={['Signs', 'Fingerprint', 'Phase', 'Waits for', 'Created']}>
            {authorities.map((a) => (
              <Row key={a.id}>
                <Cell of="Signs">{a.kind === 'user' ? 'people' : 'servers'}</Cell>
                <Cell of="Fingerprint" plain>
                  <code>{a.fingerprint}</code>
                </Cell>
                <Cell of="Phase" plain>
                  {PHASES[a.phase]}
                </Cell>
                <Cell of="Waits for">{a.waits_for.map((s) => s.name).join(', ')}</Cell>
                <Cell of="Created">
                  <Time at={a.created_at} />
                </Cell>
              </Row>
            ))}
          </Table>
        )}
      </Loaded>
      <div className="row">
        {(['user', 'host'] as const).map((kind) => {
          const of = query.data?.authorities.filter((a) => a.kind === kind) ?? []
          const has = (phase: string) => of.some((a) => a.phase === phase)
          const whose = kind === 'user' ? 'people' : 'servers'
          const step = has('retiring') ? 'retire' : has('announced') ? 'adopt' : 'announce'
          const words = {
            announce: `Announce a new key for ${whose}`,
            adopt: `Sign with the new key for ${whose}`,
            retire: `Retire the old key for ${whose}`,
          }
          return (
            <Button key={kind} onClick={() => ask({ step, kind })}>
              {words[step]}
            </Button>
          )
        })}
      </div>
      {asking && (
        <Ask
          title="Continue the rotation?"
          submit="Continue"
          kind="main"
          onClose={() => ask(undefined)}
          send={() => rotate(asking.step, asking.kind)}
          done="Done."
        >
          <p>The step is refused while a server has not confirmed the one before.</p>
        </Ask>
      )}
    </Section>
  )
}

function rotate(step: 'announce' | 'adopt' | 'retire', kind: Kind): Promise<unknown> {
  if (step === 'announce') return change(api.admin.announceSshAuthority.mutate({ kind }))
  if (step === 'adopt') return change(api.admin.adoptSshAuthority.mutate({ kind }))
  return change(api.admin.retireSshAuthority.mutate({ kind }))
}

function WholeAudit() {
  const query = useQuery({
    ...trpc.audit.all.queryOptions({ limit: 20 }),
    select: (page) => ({ items: page.entries, next: page.next }),
  })
  return (
    <Section title="Audit log" isBare>
      <More
        what="The audit log"
        query={query}
        keyOf={(e) => e.id}
        older={async (cursor) => {
          const page = await api.audit.all.query({ limit: 50, cursor })
          return { items: page.entries, next: page.next }
        }}
        empty={none}
      >
        {(entries) => <AuditTable entries={entries} />}
      </More>
    </Section>
  )
}
