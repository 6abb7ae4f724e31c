// The members of an organization: roles, invitations, leaving.
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change, queryClient, trpc } from '../../api.ts'
import { ActButton, Ask } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Select, Text } from '../../components/forms/field.tsx'
import { Form, text } from '../../components/forms/form.tsx'
import { Icon } from '../../components/icon.tsx'
import { Page, Section } from '../../components/page.tsx'
import { Loaded } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { say } from '../../components/toast.tsx'
import { useMembers } from '../../data.ts'
import { type Membership, useMe, useOrganization, usePermission } from '../../organization.ts'

const ROLES = ['viewer', 'developer', 'admin', 'owner'] as const
type Role = (typeof ROLES)[number]
const MEANING: Record<Role, string> = {
  viewer: 'view everything',
  developer: 'deploy, manage environments and variables, open shells',
  admin: 'also manage projects, servers and members, read the audit log',
  owner: 'also manage the organization',
}

export function Members() {
  const organization = useOrganization()
  const mayWrite = usePermission('member:write')
  return (
    <Page
      title="Members"
      actions={mayWrite && organization && <Invite organization={organization} />}
      facts={organization && <span>{organization.name}</span>}
    >
      {organization && <Lists organization={organization} mayWrite={mayWrite} />}
    </Page>
  )
}

const invitationOptions = (organizationId: number) =>
  trpc.invitation.list.queryOptions({ organization_id: organizationId })

interface ListProps {
  organization: Membership
  mayWrite: boolean
}

function Lists({ organization, mayWrite }: ListProps) {
  const members = useMembers(organization.id)
  const invitations = useQuery({ ...invitationOptions(organization.id), enabled: mayWrite })
  return (
    <Loaded query={members} also={[invitations]} what="Members">
      {({ members: list }) => (
        <>
          <List organization={organization} mayWrite={mayWrite} list={list} />
          {mayWrite && <Invitations organization={organization} />}
          <Section title="Roles">
            <ul className="stack-small">
              {ROLES.map((role) => (
                <li key={role}>
                  {role}: {MEANING[role]}
                </li>
              ))}
            </ul>
          </Section>
        </>
      )}
    </Loaded>
  )
}

type Member = NonNullable<ReturnType<typeof useMembers>['data']>['members'][number]

function List({ organization, mayWrite, list }: ListProps & { list: readonly Member[] }) {
  const me = useMe().data
  const navigate = useNavigate()
  const [leaving, leave] = useState<{ id: number; name: string }>()
  const factor = mayWrite ? ['Two-factor'] : []
  return (
    <>
      <Table
        label="Members"
        head={['Person', 'Role', ...factor, 'Joined', 'Last active', 'Change']}
      >
        {list.map((m) => (
          <Row key={m.user.id}>
            <Cell of="Person">
              <div className="stack-small">
                <span>
                  {m.user.name}
                  {m.user.id === me?.id && <span className="muted"> (you)</span>}
                </span>
                <span className="muted small">{m.user.email}</span>
              </div>
            </Cell>
            <Cell of="Role" plain>
              {mayWrite ? (
                <RoleSelect
                  organization={organization}
                  userId={m.user.id}
                  name={m.user.name}
                  role={m.role}
                />
              ) : (
                m.role
              )}
            </Cell>
            {m.has_second_factor !== null && (
              <Cell of="Two-factor">
                {m.has_second_factor ? (
                  <Status of="active" word="On" />
                ) : (
                  <Status of="stopped" word="Off" />
                )}
              </Cell>
            )}
            <Cell of="Joined">
              <Time at={m.joined_at} />
            </Cell>
            <Cell of="Last active">
              {m.last_active_at ? <Time at={m.last_active_at} /> : 'Never'}
            </Cell>
            <Cell of="Change" end>
              {(mayWrite || m.user.id === me?.id) && (
                <Button small onClick={() => leave(m.user)}>
                  {m.user.id === me?.id ? 'Leave' : 'Remove'}
                </Button>
              )}
            </Cell>
          </Row>
        ))}
      </Table>
      {leaving && (
        <Ask
          title={leaving.id === me?.id ? `Leave ${organization.name}?` : `Remove ${leaving.name}?`}
          submit={leaving.id === me?.id ? 'Leave' : 'Remove'}
          onClose={() => leave(undefined)}
          send={async () => {
            const asked = { organization_id: organization.id, user_id: leaving.id }
            await change(api.member.remove.mutate(asked))
            if (leaving.id === me?.id) {
              await queryClient.invalidateQueries()
              await navigate({ to: '/' })
            }
          }}
          done={leaving.id === me?.id ? 'You left.' : 'Removed.'}
        >
          <p>
            Tokens and certificates for this organization stop working. Projects and environments
            get another owner.
          </p>
        </Ask>
      )}
    </>
  )
}

interface RoleProps {
  organization: Membership
  userId: number
  name: string
  role: Role
}

/** Shows the old role until the server has answered. */
function RoleSelect({ organization, userId, name, role }: RoleProps) {
  const [isBusy, setBusy] = useState(false)
  const set = async (next: Role) => {
    setBusy(true)
    await change(
      api.member.update.mutate({ organization_id: organization.id, user_id: userId, role: next }),
    ).then(
      () => say(`${name} is now ${next}.`),
      (error: Error) => say(error.message),
    )
    setBusy(false)
  }
  return (
    <select
      aria-label={`Role of ${name}`}
      value={role}
      disabled={isBusy}
      onChange={(event) => void set(event.currentTarget.value as Role)}
    >
      {ROLES.map((r) => (
        <option key={r}>{r}</option>
      ))}
    </select>
  )
}

function Invite({ organization }: { organization: Membership }) {
  const [isOpen, open] = useState(false)
  const navigate = useNavigate()
  return (
    <>
      <Button kind="main" onClick={() => open(true)}>
        <Icon name="plus" /> Invite
      </Button>
      {isOpen && (
        <Dialog title={`Invite to ${organization.name}`} onClose={() => open(false)}>
          <Form
            submit="Send invitation"
            send={async (data) => {
              const made = await change(
                api.invitation.create.mutate({
                  organization_id: organization.id,
                  email: text(data, 'email').trim(),
                  role: text(data, 'role') as Role,
                }),
              )
              open(false)
              await navigate({ to: `/secrets/${made.secret_id}` })
            }}
          >
            <Text label="E-mail" name="email" type="email" required />
            <Select label="Role" name="role" defaultValue="developer">
              {ROLES.map((role) => (
                <option key={role} value={role}>
                  {role}: {MEANING[role]}
                </option>
              ))}
            </Select>
          </Form>
        </Dialog>
      )}
    </>
  )
}

function Invitations({ organization }: { organization: Membership }) {
  const query = useQuery(invitationOptions(organization.id))
  const list = query.data?.invitations.filter((i) => i.status !== 'accepted') ?? []
  if (list.length === 0) return null
  return (
    <Section title="Invitations" isBare>
      <Table label="Invitations" head={['E-mail', 'Role', 'State', 'Expires', 'Change']}>
        {list.map((i) => {
          const one = { organization_id: organization.id, invitation_id: i.id }
          return (
            <Row key={i.id}>
              <Cell of="E-mail">{i.email}</Cell>
              <Cell of="Role" plain>
                {i.role}
              </Cell>
              <Cell of="State" plain>
                <Status of={i.status} />
              </Cell>
              <Cell of="Expires">
                <Time at={i.expires_at} />
              </Cell>
              <Cell of="Change" end>
                <span className="row">
                  {i.secret_id !== null && i.status === 'pending' && (
                    <Link to={`/secrets/${i.secret_id}`}>Show link</Link>
                  )}
                  <ActButton
                    small
                    label={`Resend the invitation to ${i.email}`}
                    act={() => change(api.invitation.resend.mutate(one))}
                    done="Sent. The earlier link no longer works."
                  >
                    Resend
                  </ActButton>
                  <ActButton
                    small
                    label={`Revoke the invitation to ${i.email}`}
                    act={() => change(api.invitation.withdraw.mutate(one))}
                    done="Revoked."
                  >
                    Revoke
                  </ActButton>
                </span>
              </Cell>
            </Row>
          )
        })}
      </Table>
    </Section>
  )
}
