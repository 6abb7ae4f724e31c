// berth server set: what builds may use of a server, how many tasks it runs together, and its name. `default` gives a
// setting back to the server's size.
import { randomUUID } from 'node:crypto'
import { SERVER_SETTINGS } from '@berth/shared'
import { Server, ServerPatch, type ServerSettingsPatch } from '@berth/shared/api'
import { type Context, compose, type Flags, flagText, type Invocation } from '../../context.ts'
import { EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { formatBytes, parseCount, parseDuration } from '../../terminal/format.ts'
import { cleanText } from '../../terminal/text.ts'
import { invalidInput } from '../projects/projects.ts'
import { findServer } from './servers.ts'

interface ServerSetOptions {
  name: string
  body: ServerPatch
}

const { lowest, highest } = SERVER_SETTINGS

const UNITS: Record<string, number> = { k: 1_024, m: 1_024 ** 2, g: 1_024 ** 3, t: 1_024 ** 4 }

/** 512m, 8g, 1.5g; a bare number is refused, because its unit is ambiguous. */
function parseSize(flag: string, text: string): number {
  const [, number, unit = ''] = /^(\d{1,9}(?:\.\d{1,3})?)([kmgt])i?b?$/i.exec(text) ?? []
  if (number === undefined) {
    const least = formatBytes(lowest.build_memory_bytes)
    throw usage(`${flag} takes a size such as 512m or 8g (at least ${least}), got '${text}'`)
  }
  return Math.round(Number(number) * (UNITS[unit.toLowerCase()] ?? 1))
}

function parseProcessors(flag: string, text: string): number {
  const value = Number(text)
  if (!/^\d{1,3}(\.\d{1,2})?$/.test(text) || value <= 0) {
    const range = `from ${lowest.build_cpus} to ${highest.build_cpus}`
    throw usage(`${flag} takes a number of processors such as 2 or 1.5 (${range}), got '${text}'`)
  }
  return value
}

const SETTINGS: readonly {
  flag: string
  key: keyof ServerSettingsPatch
  read: (flag: string, text: string) => number
}[] = [
  { flag: 'buildMemory', key: 'build_memory_bytes', read: parseSize },
  { flag: 'buildCpus', key: 'build_cpus', read: parseProcessors },
  {
    flag: 'buildTimeout',
    key: 'build_timeout_ms',
    read: (flag, text) => parseDuration(flag, text, highest.build_timeout_ms),
  },
  {
    flag: 'buildSlots',
    key: 'build_slots',
    read: (flag, text) => parseCount(flag, text, highest.build_slots),
  },
  {
    flag: 'taskSlots',
    key: 'task_slots',
    read: (flag, text) => parseCount(flag, text, highest.task_slots),
  },
]

const written = (flag: string): string =>
  `--${flag.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)}`

function readSettings(flags: Flags): ServerSettingsPatch {
  const asked: ServerSettingsPatch = {}
  for (const { flag, key, read } of SETTINGS) {
    const text = flagText(flags, flag)
    if (text === undefined) continue
    asked[key] = text === 'default' ? null : read(written(flag), text)
  }
  return asked
}

function parseServerSet({ args, flags }: Invocation): ServerSetOptions {
  const settings = readSettings(flags)
  const name = flagText(flags, 'name')
  const hasSettings = Object.keys(settings).length > 0
  if (!hasSettings && name === undefined) {
    throw usage('nothing to change', 'berth help server set lists the settings')
  }
  const checked = ServerPatch.safeParse({
    ...(name === undefined ? {} : { name }),
    ...(hasSettings ? { settings } : {}),
  })
  if (!checked.success) {
    const issues = checked.error.issues.map((issue) => ({
      ...issue,
      path: issue.path[0] === 'settings' ? [flagOf(issue.path[1])] : issue.path,
    }))
    throw invalidInput(issues)
  }
  return { name: args[0] ?? '', body: checked.data }
}

const flagOf = (key: PropertyKey | undefined): string =>
  written(SETTINGS.find((one) => one.key === key)?.flag ?? 'settings')

async function performServerSet(options: ServerSetOptions, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const { id } = await findServer(api, options.name, 'change')
  const { value, raw } = await api.change('PATCH', `/api/servers/${id}`, Server, {
    body: options.body,
    idempotencyKey: randomUUID(),
    expect: 200,
  })
  await screen.note(`${screen.err.paint('green', '✓')} Saved ${cleanText(value.name)}`)
  if (screen.json) await screen.printJson(raw)
  return EXIT.done
}

export const serverSet = compose(parseServerSet, performServerSet)
