// Access tokens for programs. A token is shown once, when it is created.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change, trpc } from '../../api.ts'
import { ActButton } from '../../components/act.tsx'
import { CopyField } from '../../components/copy.tsx'
import { Check, Select, Text } from '../../components/forms/field.tsx'
import { Form, text } from '../../components/forms/form.tsx'
import { Page, Section } from '../../components/page.tsx'
import { Empty, Loaded, Note } from '../../components/states.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { useMe } from '../../organization.ts'

const SCOPES = [
  ['read', 'see everything you see'],
  ['deploy', 'start and cancel deployments and actions'],
  ['write', 'change projects, environments, variables, servers'],
  ['ssh', 'get SSH certificates'],
  ['admin', 'members, organizations, platform'],
] as const
type Scope = (typeof SCOPES)[number][0]
const DAYS = [7, 30, 90, 365]

export function Tokens() {
  const [secret, setSecret] = useState<string>()
  const query = useQuery(trpc.token.list.queryOptions({ limit: 100 }))
  return (
    <Page title="Tokens" trail={<Link to="/account">Account</Link>}>
      {secret && (
        <Note kind="warn">
          <p>Copy your new token now. You won't see it again. It has your access.</p>
          <CopyField label="token" text={secret} />
        </Note>
      )}
      <Section title="Yours" isBare>
        <Loaded query={query} what="Tokens">
          {({ tokens }) =>
            tokens.length === 0 ? (
              <Empty title="No tokens.">
                <p>
                  <code>berth login</code> makes one for the client by itself.
                </p>
              </Empty>
            ) : (
              <Table
                label="Tokens"
                head={['Name', 'May', 'Made', 'Last used', 'Expires', 'Change']}
              >
                {tokens.map((t) => (
                  <Row key={t.id}>
                    <Cell of="Name">
                      <div className="stack-small">
                        <span>{t.name}</span>
                        <span className="muted small">
                          {t.kind === 'login' ? 'login of a client' : 'personal'}, ends in{' '}
                          <code>{t.hint}</code>
                        </span>
                      </div>
                    </Cell>
                    <Cell of="May">{t.scopes.join(', ')}</Cell>
                    <Cell of="Made">
                      <Time at={t.created_at} />
                    </Cell>
                    <Cell of="Last used">
                      {t.last_used_at ? (
                        <span>
                          <Time at={t.last_used_at} />{' '}
                          <span className="muted small">{t.last_used_address}</span>
                        </span>
                      ) : (
                        'never'
                      )}
                    </Cell>
                    <Cell of="Expires">{t.expires_at ? <Time at={t.expires_at} /> : 'never'}</Cell>
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
      </Section>
      <NewToken onMade={setSecret} />
    </Page>
  )
}

function NewToken({ onMade }: { onMade(secret: string): void }) {
  const me = useMe().data
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
          onMade(made.token)
          scrollTo({ top: 0 })
        }}
      >
        <Text label="Name" name="name" placeholder="CI of shop" maxLength={64} required />
        <fieldset className="stack-small">
          <legend>It may</legend>
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
          <option value="">All of mine</option>
          {me?.organizations.map((o) => (
            <option key={o.id} value={o.id}>
              {o.name}
            </option>
          ))}
        </Select>
        <Select label="Expires" name="expires_in_days" defaultValue={90}>
          {DAYS.map((days) => (
            <option key={days} value={days}>
              in {days} days
            </option>
          ))}
        </Select>
      </Form>
    </Section>
  )
}
