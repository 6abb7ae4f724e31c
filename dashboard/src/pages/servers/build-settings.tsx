// What builds may use of a server, and how many tasks it runs together. An empty field means the default for its size.
import { api, change } from '../../api.ts'
import { Text } from '../../components/forms/field.tsx'
import { Form, text } from '../../components/forms/form.tsx'
import { Section } from '../../components/page.tsx'
import type { Server } from '../../data.ts'
import { usePermission } from '../../organization.ts'

const MiB = 1_024 ** 2
const MINUTE_MS = 60_000

type Settings = Server['settings']

const FIELDS: readonly {
  key: keyof Settings
  label: string
  unit: number
  /** After the default. */
  word: string
  min: number
  step: string
  hint: string
}[] = [
  {
    key: 'build_memory_bytes',
    label: 'Memory of a build (MiB)',
    unit: MiB,
    word: ' MiB',
    min: 64,
    step: '1',
    hint: 'Also of the steps of a manual deployment.',
  },
  {
    key: 'build_cpus',
    label: 'Processors of a build',
    unit: 1,
    word: '',
    min: 0.1,
    step: 'any',
    hint: '',
  },
  {
    key: 'build_timeout_ms',
    label: 'Time of a build (minutes)',
    unit: MINUTE_MS,
    word: ' minutes',
    min: 1,
    step: 'any',
    hint: '',
  },
  {
    key: 'build_slots',
    label: 'Builds at a time',
    unit: 1,
    word: '',
    min: 1,
    step: '1',
    hint: 'Others wait; a waiting build takes no place of other tasks.',
  },
  {
    key: 'task_slots',
    label: 'Other tasks at a time',
    unit: 1,
    word: '',
    min: 1,
    step: '1',
    hint: 'Actions, removals, and deployments outside of their build.',
  },
]

const shown = (value: number | null | undefined, unit: number): number | undefined =>
  value == null ? undefined : Number((value / unit).toFixed(2))

function read(data: FormData, name: string, unit: number): number | null {
  const written = text(data, name).trim()
  if (written === '') return null
  return unit === 1 ? Number(written) : Math.round(Number(written) * unit)
}

export function BuildSettings({ server: s }: { server: Server }) {
  const reason = usePermission('server:write')
    ? undefined
    : 'Your role does not let you change servers.'
  const send = (data: FormData) => {
    const entries = FIELDS.map(({ key, unit }) => [key, read(data, `settings.${key}`, unit)])
    const settings = Object.fromEntries(entries) as Settings
    return change(api.server.update.mutate({ server_id: s.id, settings }))
  }
  return (
    <Section title="Builds and slots">
      <p className="muted">
        What one build may use of this server, and how many tasks run together. A change counts for
        the next build.
      </p>
      <Form submit="Save" done="Saved." label="Builds and slots" reason={reason} send={send}>
        {FIELDS.map(({ key, label, unit, word, min, step, hint }) => {
          const usual = shown(s.default_settings?.[key], unit)
          const byDefault = usual === undefined ? '' : `Default: ${usual}${word}. `
          return (
            <Text
              key={key}
              label={label}
              name={`settings.${key}`}
              type="number"
              min={min}
              step={step}
              defaultValue={shown(s.settings[key], unit)}
              hint={`${byDefault}${hint}`.trim()}
              readOnly={reason !== undefined}
            />
          )
        })}
      </Form>
    </Section>
  )
}
