// The user's own account: password, browsers, theme and keys.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api, change, trpc } from '../../api.ts'
import { ActButton } from '../../components/act.tsx'
import { CopyField } from '../../components/copy.tsx'
import { Text } from '../../components/forms/field.tsx'
import { Form, text } from '../../components/forms/form.tsx'
import { Facts, Page, Section } from '../../components/page.tsx'
import { shortcutsOn, switchShortcuts } from '../../components/shortcuts.ts'
import { Loaded } from '../../components/states.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { browserWords } from '../../format.ts'
import { useMe } from '../../organization.ts'
import { useStore } from '../../stores.ts'
import { chooseTheme, THEMES, type Theme, theme } from '../../theme.ts'

export function Account() {
  const me = useMe()
  return (
    <Page title="Account">
      <Loaded query={me} what="Your account">
        {(m) => (
          <Section title="You" actions={<Link to="/account/tokens">Tokens</Link>}>
            <Facts
              of={[
                ['Name', m.name],
                ['E-mail', m.email],
                [
                  'Organizations',
                  m.organizations.map((o) => `${o.name} (${o.role})`).join(', ') || 'none',
                ],
                ['Joined', <Time key="t" at={m.created_at} />],
              ]}
            />
          </Section>
        )}
      </Loaded>
      <Section title="Password">
        <Form
          submit="Change the password"
          clears
          done="Changed. Other browsers have to sign in again."
          label="Password"
          send={(data) =>
            change(
              api.session.changePassword.mutate({
                current_password: text(data, 'current_password'),
                new_password: text(data, 'new_password'),
              }),
            )
          }
        >
          <Text
            label="Present password"
            name="current_password"
            type="password"
            autoComplete="current-password"
            required
          />
          <Text
            label="New password"
            name="new_password"
            type="password"
            autoComplete="new-password"
            minLength={10}
            hint="At least 10 characters."
            required
          />
        </Form>
      </Section>
      <Client />
      <Browsers />
      <Preferences />
    </Page>
  )
}

function Client() {
  const { origin } = window.location
  return (
    <Section title="Client">
      <p>Installs the client berth on your machine (Linux, macOS), then logs it in:</p>
      <CopyField label="install command" text={`curl -fsSL ${origin}/install-cli.sh | sh`} />
      <CopyField label="login command" text={`berth login --url ${origin}`} />
      <p className="muted small">
        On every other system, run <a href="/cli/berth.cjs">berth.cjs</a> with Node.js 18 or newer.
      </p>
    </Section>
  )
}

function Browsers() {
  const query = useQuery(trpc.session.list.queryOptions())
  return (
    <Section title="Browsers that are signed in" isBare>
      <Loaded query={query} what="Sessions">
        {({ sessions }) => (
          <Table label="Browsers" head={['Browser', 'Address', 'Signed in', 'Expires', 'Change']}>
            {sessions.map((s) => (
              <Row key={s.id}>
                <Cell of="Browser">
                  <span title={s.user_agent ?? undefined}>{browserWords(s.user_agent)}</span>
                  {s.is_current && <strong> (this one)</strong>}
                </Cell>
                <Cell of="Address">{s.address ?? ''}</Cell>
                <Cell of="Signed in">
                  <Time at={s.started_at} />
                </Cell>
                <Cell of="Expires">
                  <Time at={s.expires_at} />
                </Cell>
                <Cell of="Change" end>
                  {!s.is_current && (
                    <ActButton
                      small
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

function Preferences() {
  const now = useStore(theme)
  const isOn = useStore(shortcutsOn)
  return (
    <Section title="This browser">
      <label className="row">
        Theme
        <select value={now} onChange={(event) => chooseTheme(event.currentTarget.value as Theme)}>
          {THEMES.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <label className="row">
        <input
          type="checkbox"
          checked={isOn}
          onChange={(event) => switchShortcuts(event.currentTarget.checked)}
        />
        Single-key shortcuts
      </label>
    </Section>
  )
}
