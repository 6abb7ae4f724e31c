// The user's own account: profile, password, two-factor sign-in, sessions, tokens, this browser.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api, change, trpc } from '../../../api.ts'
import { CopyField } from '../../../components/copy.tsx'
import { Text } from '../../../components/forms/field.tsx'
import { Form, text } from '../../../components/forms/form.tsx'
import { Facts, Page, Section } from '../../../components/page.tsx'
import { shortcutsOn, switchShortcuts } from '../../../components/shortcuts.ts'
import { Loaded, Note } from '../../../components/states.tsx'
import { Time } from '../../../components/time.tsx'
import { useMe } from '../../../organization.ts'
import { useStore } from '../../../stores.ts'
import { chooseTheme, THEMES, type Theme, theme } from '../../../theme.ts'
import { Sessions } from './sessions.tsx'
import { TokenList } from './tokens.tsx'
import { TwoFactor } from './two-factor.tsx'

export function Account() {
  const me = useMe()
  return (
    <Page title="Account">
      <Waiting names={me.data?.waiting_organizations.map((o) => o.name) ?? []} />
      <Loaded query={me} what="Your account">
        {(m) => (
          <Section title="Profile">
            <Facts
              of={[
                ['Name', m.name],
                ['E-mail', m.email],
                [
                  'Organizations',
                  m.organizations.map((o) => `${o.name} (${o.role})`).join(', ') || 'None',
                ],
                ['Joined', <Time key="t" at={m.created_at} />],
              ]}
            />
          </Section>
        )}
      </Loaded>
      <PasswordSection />
      <TwoFactor />
      <Sessions />
      <Section
        title="Tokens and CLI logins"
        isBare
        actions={<Link to="/account/tokens">New token</Link>}
      >
        <TokenList />
      </Section>
      <Client />
      <Preferences />
    </Page>
  )
}

/** Organizations that are closed until the user has a second factor. */
function Waiting({ names }: { names: string[] }) {
  if (names.length === 0) return null
  return (
    <Note kind="warn">
      {names.join(' and ')} {names.length === 1 ? 'requires' : 'require'} two-factor sign-in. Add an
      authenticator app or a passkey below to continue.
    </Note>
  )
}

function PasswordSection() {
  const query = useQuery(trpc.factor.get.queryOptions())
  return (
    <Section title="Password">
      <Loaded query={query} what="Your password">
        {({ has_password }) =>
          has_password ? (
            <Form
              submit="Change password"
              clears
              done="Password changed. Other browsers were signed out."
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
                label="Current password"
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
          ) : (
            <p className="muted">
              You sign in without a password. To set one, use{' '}
              <Link to="/reset">Forgot your password?</Link>
            </p>
          )
        }
      </Loaded>
    </Section>
  )
}

function Client() {
  const { origin } = window.location
  return (
    <Section title="CLI">
      <p>Install the CLI on Linux or macOS, then log in:</p>
      <CopyField label="install command" text={`curl -fsSL ${origin}/install-cli.sh | sh`} />
      <CopyField label="login command" text={`berth login --url ${origin}`} />
      <p className="muted small">
        On other systems, run <a href="/cli/berth.cjs">berth.cjs</a> with Node.js 18 or newer.
      </p>
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
