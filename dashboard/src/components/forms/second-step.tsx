// The second step of a sign-in: a code of the app, a passkey, or a recovery code.
import { useState } from 'react'
import { api } from '../../api.ts'
import { askPasskey } from '../../passkeys.ts'
import { ActButton } from '../act.tsx'
import { Button } from '../button.tsx'
import { Text } from './field.tsx'
import { Form, text } from './form.tsx'

export type Awaiting = NonNullable<Awaited<ReturnType<typeof api.session.get.query>>['awaiting']>
type PasskeyAnswer = Parameters<typeof api.session.signInByPasskey.mutate>[0]['response']

export async function signInWithPasskey(): Promise<void> {
  const options = await api.session.passkeyOptions.mutate()
  const response = await askPasskey<PasskeyAnswer>(options)
  await api.session.signInByPasskey.mutate({ response })
}

interface SecondStepProps {
  awaiting: Awaiting
  onDone(): void
  /** Back to the password. */
  onBack(): void
}

export function SecondStep({ awaiting, onDone, onBack }: SecondStepProps) {
  const [isRecovery, chooseRecovery] = useState(!awaiting.app && !awaiting.passkey)
  const passkey = awaiting.passkey && (
    <ActButton
      kind={awaiting.app ? 'plain' : 'main'}
      act={async () => {
        await signInWithPasskey()
        onDone()
      }}
    >
      Use a passkey
    </ActButton>
  )
  const send = async (data: FormData) => {
    await api.session.secondFactor.mutate({ code: text(data, 'code') })
    onDone()
  }
  return (
    <>
      {isRecovery ? (
        <Form key="recovery" label="Enter a recovery code" submit="Continue" send={send}>
          <Text
            label="Recovery code"
            name="code"
            hint="One of the codes you saved. Each works once."
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
            autoFocus
            required
          />
        </Form>
      ) : (
        <>
          {awaiting.app && (
            <Form key="app" label="Enter a code" submit="Continue" send={send}>
              <Text
                label="6-digit code"
                name="code"
                hint="From your authenticator app."
                inputMode="numeric"
                autoComplete="one-time-code"
                pattern="[0-9 ]*"
                maxLength={7}
                autoFocus
                required
              />
            </Form>
          )}
          {passkey}
        </>
      )}
      <div className="row spread">
        <Button kind="quiet" small onClick={onBack}>
          Back
        </Button>
        {awaiting.recovery_code && (awaiting.app || awaiting.passkey) && (
          <Button kind="quiet" small onClick={() => chooseRecovery(!isRecovery)}>
            {isRecovery ? 'Use another method' : 'Use a recovery code'}
          </Button>
        )}
      </div>
    </>
  )
}
