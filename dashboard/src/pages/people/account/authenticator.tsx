// Sets up an authenticator app: QR code or typed secret, then a first code. A reload shows the same secret.
import { Link, useNavigate } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { encode } from 'uqr'
import { api, change } from '../../../api.ts'
import { CopyField } from '../../../components/copy.tsx'
import { Text } from '../../../components/forms/field.tsx'
import { Form, text } from '../../../components/forms/form.tsx'
import { Page, Section } from '../../../components/page.tsx'
import { ErrorState, Skeleton } from '../../../components/states.tsx'
import css from '../people.module.css'
import { useConfirmed } from './confirm.tsx'

export function Authenticator() {
  const { guard, dialog } = useConfirmed()
  const navigate = useNavigate()
  const [app, setApp] = useState<{ secret: string; uri: string }>()
  const [error, setError] = useState<unknown>()
  const [tries, again] = useState(0)
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new try is a new question
  useEffect(() => {
    setError(undefined)
    guard(() => api.factor.beginApp.mutate()).then(setApp, setError)
  }, [tries])
  return (
    <Page title="Set up authenticator app" trail={<Link to="/account">Account</Link>}>
      {dialog}
      {error !== undefined && (
        <ErrorState what="The set-up" error={error} again={() => again(tries + 1)} />
      )}
      {!app && error === undefined && <Skeleton />}
      {app && (
        <Section title="Scan the code">
          <div className={css.setUp}>
            <QrCode text={app.uri} />
            <div className="stack">
              <p>
                Open an authenticator app on your phone and scan the code. If you can't scan it,
                enter this key:
              </p>
              <CopyField label="key" text={(app.secret.match(/.{4}/g) ?? []).join(' ')} />
              <Form
                label="Confirm"
                submit="Confirm"
                send={async (data) => {
                  const asked = { code: text(data, 'code') }
                  const { secret_id } = await change(
                    guard(() => api.factor.confirmApp.mutate(asked)),
                  )
                  const to = secret_id === null ? '/account' : `/secrets/${secret_id}`
                  await navigate({ to, replace: true })
                }}
              >
                <Text
                  label="6-digit code"
                  name="code"
                  hint="The code that the app shows now."
                  inputMode="numeric"
                  autoComplete="one-time-code"
                  maxLength={7}
                  required
                />
              </Form>
            </div>
          </div>
        </Section>
      )}
    </Page>
  )
}

/** Dark on light in both themes, because cameras expect it. Made here: no other site learns the secret. */
function QrCode({ text: content }: { text: string }) {
  const { data, size } = encode(content, { border: 2 })
  const path = data
    .flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : '')))
    .join('')
  return (
    <svg
      className={css.qr}
      viewBox={`0 0 ${size} ${size}`}
      role="img"
      aria-label="QR code for your authenticator app"
      shapeRendering="crispEdges"
    >
      <rect width={size} height={size} fill="#fff" />
      <path d={path} fill="#000" />
    </svg>
  )
}
