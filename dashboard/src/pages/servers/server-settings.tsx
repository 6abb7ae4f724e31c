// The settings of a server: its name and address, what builds may use, and the limits of environments; saved together.
import { api, change } from '../../api.ts'
import { Check, Text } from '../../components/forms/field.tsx'
import { Form, isChecked, text } from '../../components/forms/form.tsx'
import { LimitFields, readLimits } from '../../components/forms/limits-form.tsx'
import { useSteadyKey } from '../../components/forms/unsaved.tsx'
import { Section } from '../../components/page.tsx'
import type { Server } from '../../data.ts'
import { usePermission } from '../../organization.ts'
import { BuildFields, readSettings } from './build-settings.tsx'

export function ServerSettings({ server: s }: { server: Server }) {
  const reason = usePermission('server:write')
    ? undefined
    : 'Your role does not let you change servers.'
  const [key, track] = useSteadyKey([
    s.name,
    s.hostname,
    s.ssh_port,
    s.shell_enabled,
    s.paused,
    s.settings,
    s.limits,
  ])
  const isFixed = reason !== undefined
  return (
    <Section title="Settings">
      <Form
        key={key}
        submit="Save changes"
        done="Saved."
        reason={reason}
        label="Settings"
        onDirty={track}
        send={(data) =>
          change(
            api.server.update.mutate({
              server_id: s.id,
              name: text(data, 'name').trim(),
              hostname: text(data, 'hostname').trim(),
              ssh_port: Number(text(data, 'ssh_port')),
              shell_enabled: isChecked(data, 'shell_enabled'),
              paused: isChecked(data, 'paused'),
              settings: readSettings(data),
              limits: readLimits(data),
            }),
          )
        }
      >
        <Text label="Name" name="name" defaultValue={s.name} maxLength={64} required />
        <Text label="Host name or address" name="hostname" defaultValue={s.hostname} required />
        <Text
          label="SSH port"
          name="ssh_port"
          type="number"
          min={1}
          max={65535}
          defaultValue={s.ssh_port}
        />
        <Check
          label="Paused"
          name="paused"
          defaultChecked={s.paused}
          hint="Takes no new tasks. Running services keep running."
        />
        <Check
          label="Allow certificates for the whole server"
          name="shell_enabled"
          defaultChecked={s.shell_enabled}
          hint="The server must allow them too. A shell in one environment does not need this."
        />
        <h3>Builds</h3>
        <BuildFields server={s} isFixed={isFixed} />
        <h3>Environment limits</h3>
        <p className="muted">
          Each environment may use this much of the server. A project may have lower limits.
        </p>
        <LimitFields now={s.limits} usual={s.default_limits} isFixed={isFixed} />
      </Form>
    </Section>
  )
}
