// Basic Auth for an environment or a whole project: own, inherited, or none. The password is write-only.
import { useState } from 'react'
import { Secret, Select, Text } from './field.tsx'
import { Form, text } from './form.tsx'

type Mode = 'own' | 'inherit' | 'off'
type Asked = { mode: 'own'; username: string; password: string } | { mode: 'inherit' | 'off' }

interface Props {
  now: { mode: Mode; enabled: boolean; username: string | null }
  /** An environment may inherit its project's. */
  inherits: boolean
  reason?: string | undefined
  send(asked: Asked): Promise<unknown>
  onDirty?: (isDirty: boolean) => void
}

export function BasicAuthForm({ now, inherits, reason, send, onDirty }: Props) {
  const [mode, setMode] = useState<Mode>(now.mode)
  return (
    <Form
      submit="Save changes"
      done="Saved."
      clears
      reason={reason}
      label="Basic Auth"
      {...(onDirty ? { onDirty } : {})}
      send={(data) =>
        send(
          mode === 'own'
            ? { mode, username: text(data, 'username'), password: text(data, 'password') }
            : { mode },
        )
      }
    >
      <Select
        label="Basic Auth"
        name="mode"
        value={mode}
        hint={now.enabled ? `Visitors sign in as ${now.username}.` : 'The address is public.'}
        onChange={(event) => setMode(event.currentTarget.value as Mode)}
      >
        {inherits && <option value="inherit">Inherit from project</option>}
        <option value="own">Own user and password</option>
        <option value="off">None</option>
      </Select>
      {mode === 'own' && (
        <>
          <Text
            label="User"
            name="username"
            defaultValue={now.username ?? ''}
            maxLength={64}
            required
          />
          <Secret
            label="Password"
            name="password"
            hint="8 to 72 characters."
            maxLength={72}
            required
          />
        </>
      )}
    </Form>
  )
}
