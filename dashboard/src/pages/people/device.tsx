// A client asks to act as the signed-in user. Opening the page decides nothing; a button does.
import { useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change } from '../../api.ts'
import { ActButton } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { Text } from '../../components/forms/field.tsx'
import { Form, text } from '../../components/forms/form.tsx'
import { Facts, Page, Section } from '../../components/page.tsx'
import { Note } from '../../components/states.tsx'
import { Time } from '../../components/time.tsx'

type Device = Awaited<ReturnType<typeof api.device.describe.mutate>>
const ENDS = {
  approved: 'Approved. You can close this page.',
  denied: 'Denied. The CLI got no access.',
} as const

export function DevicePage() {
  const { code } = useSearch({ strict: false }) as { code?: string }
  const [device, setDevice] = useState<Device>()
  const [end, setEnd] = useState<keyof typeof ENDS>()
  return (
    <Page title="Log in to the CLI">
      {end ? (
        <Note kind={end === 'approved' ? 'ok' : 'info'}>{ENDS[end]}</Note>
      ) : device ? (
        <Decision device={device} onEnd={setEnd} onBack={() => setDevice(undefined)} />
      ) : (
        <Section title="Enter the code">
          <Form
            submit="Continue"
            send={async (data) => {
              const user_code = text(data, 'user_code').trim()
              setDevice(await change(api.device.describe.mutate({ user_code })))
            }}
          >
            <Text
              label="Code"
              name="user_code"
              defaultValue={code}
              hint="The CLI shows it, such as BCDF-GHJK."
              autoComplete="off"
              autoCapitalize="characters"
              spellCheck={false}
              required
            />
          </Form>
        </Section>
      )}
    </Page>
  )
}

function Decision({
  device,
  onEnd,
  onBack,
}: {
  device: Device
  onEnd(end: keyof typeof ENDS): void
  onBack(): void
}) {
  const { user_code } = device
  return (
    <Section title="Did you start this?">
      <Facts
        of={[
          ['Code', <code key="c">{device.user_code}</code>],
          ['Device', device.device_name],
          ['Address', device.address],
          ['Requested', <Time key="t" at={device.started_at} />],
          ['Scopes', device.scopes.join(', ')],
        ]}
      />
      <p>Approve only a login that you started on your own machine.</p>
      <div className="row">
        <ActButton
          kind="main"
          act={async () => {
            await api.device.approve.mutate({ user_code })
            onEnd('approved')
          }}
        >
          Approve
        </ActButton>
        <ActButton
          act={async () => {
            await api.device.deny.mutate({ user_code })
            onEnd('denied')
          }}
        >
          Deny
        </ActButton>
        <Button kind="quiet" onClick={onBack}>
          Use another code
        </Button>
      </div>
    </Section>
  )
}
