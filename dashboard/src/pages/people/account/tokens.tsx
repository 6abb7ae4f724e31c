// Access tokens for programs. A new token has its own page until its user has saved it.
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { api, change, trpc } from '../../../api.ts'
import { ActButton } from '../../../components/act.tsx'
import { Check, Select, Text } from '../../../components/forms/field.tsx'
import { Form, text } from '../../../components/forms/form.tsx'
import { Page, Section } from '../../../components/page.tsx'
import { Empty, Loaded } from '../../../components/states.tsx'
import { Cell, Row, Table } from '../../../components/table.tsx'
import { Time } from '../../../components/time.tsx'
import { useMe } from '../../../organization.ts'

const SCOPES = [
  ['read', 'See what you can see'],
  ['deploy', 'Start and cancel deployments and actions'],
  ['write', 'Change projects, environments, variables and servers'],
  ['ssh', 'Get SSH certificates'],
  ['admin', 'Manage members, organizations and the installation'],
] as const
type Scope = (typeof SCOPES)[number][0]
const DAYS = [7, 30, 90, 365]

export function Tokens() {
  return (
    <Page title="Tokens" trail={<Link to="/account">Account</Link>}>
      <Section title="Your tokens" isBare>
        <TokenList />
      </Section>
      <NewToken />
    </Page>
  )
}

/** Personal tokens, and the logins of clients. */
export function TokenList() {
  const query = useQuery(trpc.token.list.queryOptions({ limit: 100 }))
  return (
    <Loaded query={query} what="Tokens">
      {({ tokens }) =>
        tokens.length === 0 ? (
          <Empty title="No tokens">
            <p>
              <code>berth login</code> creates one for the CLI.
            </p>
          </Empty>
        ) : (
          <Table
            label="Tokens"
            head={['Name', 'Scopes', 'Created', 'Last used', 'Expires', 'Change']}
          >
            {tokens.map((t) => (
              <Row key={t.id}>
                <Cell of="Name">
                  <div className="stack-small">
                    <span>{t.name}</span>
                    <span className="muted small">
                      {t.kind === 'login' ? 'CLI login' : 'Personal token'}, ends in{' '}
                      <code>{t.hint}</code>
                    </span>
                  </div>
                </Cell>
                <Cell of="Scopes" plain>
                  {t.scopes.join(', ')}
                </Cell>
                <Cell of="Created">
                  <Time at={t.created_at} />
                </Cell>
                <Cell of="Last used">
                  {t.last_used_at ? (
                    <span>
                      <Time at={t.last_used_at} />{' '}
                      <span className="muted small">{t.last_used_address}</span>
                    </span>
                  ) : (
                    'Never'
                  )}
                </Cell>
                <Cell of="Expires">{t.expires_at ? <Time at={t.expires_at} /> : 'Never'}</Cell>
                <Cell of="Change" end>
                  <ActButton
                    small
                    label={`Revoke ${t.name}`}
                    act={() => change(api.token.revoke.mutate({ token_id: t.id }))}
                    done="Revoked."
                  >
                    Revoke
                  </ActButton>
                </Cell>
              </Row>
            ))}
          </Table>
        )
      }
    </Loaded>
  )
}

function NewToken() {
  const me = useMe().data
  const navigate = useNavigate()
  return (
    <Section title="New token">
      <Form
        submit="Create token"
        clears
        label="New token"
        send={async (data) => {
          const organization = text(data, 'organization_id')
          const made = await change(
            api.token.create.mutate({
              name: text(data, 'name'),
              scopes: data.getAll('scopes') as Scope[],
              organization_id: organization ? Number(organization) : null,
              expires_in_days: Number(text(data, 'expires_in_days')),
            }),
          )
          await navigate({ to: `/secrets/${made.secret_id}` })
        }}
      >
        <Text label="Name" name="name" placeholder="CI of shop" maxLength={64} required />
        <fieldset className="stack-small">
          <legend>Scopes</legend>
          {SCOPES.map(([scope, meaning]) => (
            <Check
              key={scope}
              name="scopes"
              value={scope}
              label={scope}
              hint={meaning}
              defaultChecked={scope === 'read' || scope === 'deploy'}
            />
          ))}
        </fieldset>
        <Select label="Organization" name="organization_id">
          <option value="">All of your organizations</option>
          {me?.organizations.map((o) => (
            <option key={o.id} value={o.id}>
              {o.name}
            </option>
          ))}
        </Select>
        <Select label="Expires" name="expires_in_days" defaultValue={90}>
          {DAYS.map((days) => (
            <option key={days} value={days}>
              In {days} days
            </option>
          ))}
        </Select>
      </Form>
    </Section>
  )
}
