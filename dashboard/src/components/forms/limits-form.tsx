// The limits of one environment, for a project or a server. An empty field means the default for the server's size.
import type { Limits } from '@berth/shared/api'
import { Text } from './field.tsx'
import { text } from './form.tsx'

const MiB = 1_024 ** 2
const GiB = 1_024 ** 3

const shown = (value: number | null, unit: number): number | undefined =>
  value === null ? undefined : Number((value / unit).toFixed(2))

/** Null for an empty field. */
const read = (data: FormData, name: string, unit: number): number | null => {
  const written = text(data, name).trim()
  if (written === '') return null
  return unit === 1 ? Number(written) : Math.round(Number(written) * unit)
}

export const readLimits = (data: FormData): Limits => ({
  memory_bytes: read(data, 'limits.memory_bytes', MiB),
  cpus: read(data, 'limits.cpus', 1),
  pids: read(data, 'limits.pids', 1),
  disk_bytes: read(data, 'limits.disk_bytes', GiB),
})

interface Props {
  now: Limits
  /** The defaults; null if unknown here. */
  usual: Limits | null
  isFixed: boolean
}

export function LimitFields({ now, usual, isFixed }: Props) {
  const byDefault = (value: number | null | undefined, unit = 1, name = ''): string =>
    value == null ? '' : `Default: ${shown(value, unit)}${name}.`
  return (
    <>
      <Text
        label="Memory (MiB)"
        name="limits.memory_bytes"
        type="number"
        min={64}
        defaultValue={shown(now.memory_bytes, MiB)}
        hint={byDefault(usual?.memory_bytes, MiB, ' MiB')}
        readOnly={isFixed}
      />
      <Text
        label="Processors"
        name="limits.cpus"
        type="number"
        min={0.1}
        step="any"
        defaultValue={now.cpus ?? undefined}
        hint={byDefault(usual?.cpus)}
        readOnly={isFixed}
      />
      <Text
        label="Processes"
        name="limits.pids"
        type="number"
        min={64}
        defaultValue={now.pids ?? undefined}
        hint={byDefault(usual?.pids)}
        readOnly={isFixed}
      />
      <Text
        label="Disk (GiB)"
        name="limits.disk_bytes"
        type="number"
        min={0.1}
        step="any"
        defaultValue={shown(now.disk_bytes, GiB)}
        hint={byDefault(usual?.disk_bytes, GiB, ' GiB')}
        readOnly={isFixed}
      />
    </>
  )
}
