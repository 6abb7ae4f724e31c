// Two-factor sign-in of the user: authenticator app, passkeys, recovery codes.
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { api, change, trpc } from '../../../api.ts'
import { ActButton, Ask } from '../../../components/act.tsx'
import { Button } from '../../../components/button.tsx'
import { Dialog } from '../../../components/dialog.tsx'
import { Text } from '../../../components/forms/field.tsx'
import { Form, text } from '../../../components/forms/form.tsx'
import { Section } from '../../../components/page.tsx'
import { Loaded } from '../../../components/states.tsx'
import { Status } from '../../../components/status.tsx'
import { Time } from '../../../components/time.tsx'
import { browserWords } from '../../../format.ts'
import { makePasskey } from '../../../passkeys.ts'
import css from '../people.module.css'
import { useConfirmed } from './confirm.tsx'

type Factors = Awaited<ReturnType<typeof api.factor.get.query>>
type Made = Parameters<typeof api.factor.addPasskey.mutate>[0]['response']
type Guard = ReturnType<typeof useConfirmed>['guard']

export function TwoFactor() {
  const query = useQuery(trpc.factor.get.queryOptions())
  const { guard, dialog } = useConfirmed()
  return (
    <Section title="Two-factor sign-in">
      <Loaded query={query} what="Two-factor sign-in">
        {(have) => (
          <>
            <Summary have={have} />
            <ul className={css.rows}>
              <App have={have} guard={guard} />
              <Passkeys have={have} guard={guard} />
              {(have.has_app || have.passkeys.length > 0) && <Codes have={have} guard={guard} />}
            </ul>
          </>
        )}
      </Loaded>
      {dialog}
    </Section>
  )
}

function Summary({ have }: { have: Factors }) {
  if (have.has_app || have.passkeys.length > 0) return null
  return <p className="muted">Protect your account with a second step when you sign in.</p>
}

function Line({
  title,
  state,
  actions,
  children,
}: {
  title: string
  state: ReactNode
  actions: ReactNode
  children?: ReactNode
}) {
  return (
    <li className={css.line}>
      <div className={css.lineHead}>
        <div className="stack-small">
          <h3>{title}</h3>
          <span className="muted small">{state}</span>
        </div>
        <div className="row">{actions}</div>
      </div>
      {children}
    </li>
  )
}

interface Part {
  have: Factors
  guard: Guard
}

function App({ have, guard }: Part) {
  const navigate = useNavigate()
  const [isAsking, ask] = useState(false)
  return (
    <Line
      title="Authenticator app"
      state={
        have.has_app ? (
          <>
            <Status of="active" word="On" />
            {have.app_since && (
              <>
                {' '}
                added <Time at={have.app_since} />
              </>
            )}
          </>
        ) : (
          'Codes from an app on your phone.'
        )
      }
      actions={
        have.has_app ? (
          <Button small onClick={() => ask(true)}>
            Remove
          </Button>
        ) : (
          <ActButton
            small
            act={async () => {
              await guard(() => api.factor.beginApp.mutate())
              await navigate({ to: '/account/authenticator' })
            }}
          >
            Set up
          </ActButton>
        )
      }
    >
      {isAsking && (
        <Ask
          title="Remove the authenticator app?"
          submit="Remove"
          onClose={() => ask(false)}
          send={() => change(guard(() => api.factor.removeApp.mutate()))}
          done="Authenticator app removed."
        >
          <p>Its codes stop working at once.</p>
        </Ask>
      )}
    </Line>
  )
}

function Passkeys({ have, guard }: Part) {
  const [isAdding, add] = useState(false)
  const [renaming, rename] = useState<Factors['passkeys'][number]>()
  const [removing, remove] = useState<Factors['passkeys'][number]>()
  return (
    <Line
      title="Passkeys"
      state="Sign in with your fingerprint, face or security key, without a password."
      actions={
        <Button small reason={have.passkey_obstacle ?? undefined} onClick={() => add(true)}>
          Add passkey
        </Button>
      }
    >
      {have.passkeys.length > 0 && (
        <ul className={css.keys} aria-label="Passkeys">
          {have.passkeys.map((one) => (
            <li key={one.id} className={css.lineHead}>
              <div className="stack-small">
                <span>{one.name}</span>
                <span className="muted small">
                  Added <Time at={one.created_at} />
                  {one.last_used_at && (
                    <>
                      , last used <Time at={one.last_used_at} />
                    </>
                  )}
                </span>
              </div>
              <div className="row">
                <Button
                  small
                  kind="quiet"
                  aria-label={`Rename ${one.name}`}
                  onClick={() => rename(one)}
                >
                  Rename
                </Button>
                <Button
                  small
                  kind="quiet"
                  aria-label={`Remove ${one.name}`}
                  onClick={() => remove(one)}
                >
                  Remove
                </Button>
              </div>
            </li>
          ))}
        </ul>
      )}
      {isAdding && <AddPasskey guard={guard} onClose={() => add(false)} />}
      {renaming && (
        <Dialog title="Rename passkey" onClose={() => rename(undefined)}>
          <Form
            submit="Save changes"
            send={async (data) => {
              const name = text(data, 'name')
              await change(api.factor.renamePasskey.mutate({ passkey_id: renaming.id, name }))
              rename(undefined)
            }}
          >
            <Text label="Name" name="name" defaultValue={renaming.name} maxLength={64} required />
          </Form>
        </Dialog>
      )}
      {removing && (
        <Ask
          title={`Remove ${removing.name}?`}
          submit="Remove"
          onClose={() => remove(undefined)}
          send={() =>
            change(guard(() => api.factor.removePasskey.mutate({ passkey_id: removing.id })))
          }
          done="Passkey removed."
        >
          <p>It no longer signs you in. Delete it on your device too.</p>
        </Ask>
      )}
    </Line>
  )
}

function AddPasskey({ guard, onClose }: { guard: Guard; onClose(): void }) {
  const navigate = useNavigate()
  return (
    <Dialog title="Add passkey" onClose={onClose}>
      <Form
        submit="Continue"
        send={async (data) => {
          const options = await guard(() => api.factor.passkeyOptions.mutate())
          const response = await makePasskey<Made>(options)
          const asked = { name: text(data, 'name'), response }
          const { secret_id } = await change(api.factor.addPasskey.mutate(asked))
          onClose()
          if (secret_id !== null) await navigate({ to: `/secrets/${secret_id}` })
        }}
      >
        <Text
          label="Name"
          name="name"
          defaultValue={browserWords(navigator.userAgent)}
          hint="So that you recognize it later."
          maxLength={64}
          required
        />
      </Form>
    </Dialog>
  )
}

function Codes({ have, guard }: Part) {
  const navigate = useNavigate()
  const [isAsking, ask] = useState(false)
  const left = have.recovery_codes_left
  return (
    <Line
      title="Recovery codes"
      state={
        left > 3 ? (
          `${left} left.`
        ) : (
          <Status of="degraded" word={left === 0 ? 'None left' : `Only ${left} left`} />
        )
      }
      actions={
        <Button small onClick={() => ask(true)}>
          New codes
        </Button>
      }
    >
      {isAsking && (
        <Ask
          title="Make new recovery codes?"
          submit="Make new codes"
          kind="main"
          onClose={() => ask(false)}
          send={async () => {
            const { secret_id } = await guard(() => api.factor.newRecoveryCodes.mutate())
            await navigate({ to: `/secrets/${secret_id}` })
          }}
        >
          <p>The codes you have now stop working.</p>
        </Ask>
      )}
    </Line>
  )
}
