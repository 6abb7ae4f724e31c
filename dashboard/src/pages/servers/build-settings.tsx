// What builds may use of a server, and how many tasks it runs together. An empty field means the default for its size.
import { Text } from '../../components/forms/field.tsx'
import { text } from '../../components/forms/form.tsx'
import type { Server } from '../../data.ts'

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
    label: 'Build memory (MiB)',
    unit: MiB,
    word: ' MiB',
    min: 64,
    step: '1',
    hint: 'Also for the steps of a manual deployment.',
  },
  {
    key: 'build_cpus',
    label: 'Build processors',
    unit: 1,
    word: '',
    min: 0.1,
    step: 'any',
    hint: '',
  },
  {
    key: 'build_timeout_ms',
    label: 'Build time (minutes)',
    unit: MINUTE_MS,
    word: ' minutes',
    min: 1,
    step: 'any',
    hint: '',
  },
  {
    key: 'build_slots',
    label: 'Concurrent builds',
    unit: 1,
    word: '',
    min: 1,
    step: '1',
    hint: 'Others wait in line.',
  },
  {
    key: 'task_slots',
    label: 'Other concurrent tasks',
    unit: 1,
    word: '',
    min: 1,
    step: '1',
    hint: 'Actions, removals, and deployments apart from their build.',
  },
]

const shown = (value: number | null | undefined, unit: number): number | undefined =>
  value == null ? undefined : Number((value / unit).toFixed(2))

function read(data: FormData, name: string, unit: number): number | null {
  const written = text(data, name).trim()
  if (written === '') return null
  return unit === 1 ? Number(written) : Math.round(Number(written) * unit)
}

export const readSettings = (data: FormData): Settings =>
  Object.fromEntries(
    FIELDS.map(({ key, unit }) => [key, read(data, `settings.${key}`, unit)]),
  ) as Settings

export function BuildFields({ server: s, isFixed }: { server: Server; isFixed: boolean }) {
  return FIELDS.map(({ key, label, unit, word, min, step, hint }) => {
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
        readOnly={isFixed}
      />
    )
  })
}
