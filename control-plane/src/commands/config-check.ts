// `berth-server config check`: every setting with its value and its source, and everything that is wrong. Secrets are
// shown as "set".
import { type Config, toConfig } from '../config.ts'
import { type ReadSettings, readSettings } from '../settings/read.ts'
import { formatValue } from '../settings/setting.ts'
import { type CommandContext, takesJson } from './command.ts'

type Row = ReadSettings['rows'][number]

export async function configCheck({ args, env, print }: CommandContext): Promise<number> {
  const json = takesJson(args)
  const read = readSettings(env)
  print(json ? asJson(read) : asText(read))
  return read.problems.length === 0 ? 0 : 1
}

/** The name in the file where there is one: that is what an operator edits. */
const nameOf = ({ setting }: Row): string => setting.key ?? setting.variable

function sourceOf({ source, setting }: Row): string {
  switch (source.kind) {
    case 'default':
      return 'default'
    case 'environment':
      return `environment, ${setting.variable}`
    case 'file':
      return source.line === undefined ? source.path : `${source.path}:${source.line}`
  }
}

function shownOf(row: Row, config: Config | undefined): string {
  const { name, setting, value, source } = row
  if (row.isWrong) return 'wrong'
  if (setting.secret) return source.kind === 'default' ? 'not set' : 'set'
  if (source.kind !== 'default') return formatValue(value)
  // a default that depends on another setting is known only to the configuration
  const effective = Object.entries(config ?? {}).find(([field]) => field === name)?.[1]
  if (typeof effective === 'string' && effective !== '') return effective
  return setting.without
}

function asText(read: ReadSettings): string {
  const config = read.problems.length === 0 ? toConfig(read) : undefined
  const cells = read.rows.map((row) => [nameOf(row), shownOf(row, config), sourceOf(row)] as const)
  const widest = (column: 0 | 1): number => Math.max(...cells.map((row) => row[column].length))
  const lines = cells.map(([name, value, source]) =>
    `${name.padEnd(widest(0))}  ${value.padEnd(Math.min(widest(1), 50))}  ${source}`.trimEnd(),
  )
  return [
    read.file === undefined ? 'No settings file.' : `Settings file: ${read.file}`,
    '',
    ...lines,
    '',
    ...read.warnings.map((one) => `warning: ${one}`),
    ...read.problems.map((one) => `problem: ${one}`),
    verdict(read),
  ].join('\n')
}

function verdict({ problems }: ReadSettings): string {
  if (problems.length === 0)
    return 'The settings are fine. `berth-server doctor` checks what they name.'
  const count = problems.length === 1 ? 'one problem' : `${problems.length} problems`
  return `The control plane does not start with these settings: ${count}.`
}

function asJson(read: ReadSettings): string {
  const config = read.problems.length === 0 ? toConfig(read) : undefined
  const settings = read.rows.map((row) => ({
    key: row.setting.key ?? null,
    variable: row.setting.variable,
    value: shownOf(row, config),
    secret: row.setting.secret,
    source: row.source.kind,
    ...(row.source.kind === 'file' ? { file: row.source.path, line: row.source.line ?? null } : {}),
  }))
  const { file = null, problems, warnings } = read
  return JSON.stringify({ file, settings, problems, warnings }, null, 2)
}
