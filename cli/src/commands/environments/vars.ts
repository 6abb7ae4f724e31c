// berth vars: list, set, import, unset. Values come from an argument, a file or stdin and go into one request; they are
// never printed, not even in an error.
import { readFile, stat } from 'node:fs/promises'
import { type ProjectLevel, ProjectVariable, Variable } from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import { findProject, findTarget, targetName } from '../../client/resolve.ts'
import { type Context, compose, flagOn, flagText, type Invocation } from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { formatAgo } from '../../terminal/format.ts'
import { cleanText } from '../../terminal/text.ts'
import { askSecret, mayAsk } from '../prompt.ts'
import {
  type ChangeChoice,
  environmentPath,
  LEVEL_WORDS,
  parseChange,
  parseLevel,
  projectPath,
  sendChange,
} from './variable-change.ts'
import { readVariableFile } from './variable-file.ts'

const STATES = { true: 'changed', false: 'deployed' } as const

async function performVarsList(level: ProjectLevel | undefined, context: Context) {
  const { screen, io } = context
  const api = await context.connect()
  if (level !== undefined) return listLevel(level, api, context)
  const target = await findTarget(api, context, 'read')
  const { items, raw } = await api.list(environmentPath(target), Variable)
  await screen.printList({
    rows: items,
    raw,
    header: ['KEY', 'FROM', 'UPDATED', 'BY', ''],
    human: (variable) => [
      { text: variable.key, style: 'bold' },
      [variable.level, ...variable.shadows.map((far) => `over ${far}`)].join(', '),
      formatAgo(variable.updated_at, io.now()),
      variable.updated_by.name,
      variable.changed_since_deployment ? 'not deployed yet' : '',
    ],
    plain: (variable) => [
      variable.key,
      variable.updated_at,
      variable.updated_by.name,
      STATES[`${variable.changed_since_deployment}`],
      variable.level,
      variable.shadows.join(','),
    ],
    empty: `No variables in ${targetName(target)} yet: berth vars set KEY=VALUE`,
  })
  if (screen.human && items.length > 0) await screen.note('(values are never shown)')
  return EXIT.done
}

async function listLevel(level: ProjectLevel, api: Api, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const project = await findProject(api, context, 'read')
  const { items, raw } = await api.list(projectPath(project), ProjectVariable, { query: { level } })
  const shadows = ({ shadowed_by: by }: ProjectVariable): string[] =>
    by.map((one) => one.environment?.identifier ?? `all ${one.level}`)
  await screen.printList({
    rows: items,
    raw,
    header: ['KEY', 'FORKS', 'UPDATED', 'BY', 'SHADOWED IN'],
    human: (variable) => [
      { text: variable.key, style: 'bold' },
      variable.forks ? 'yes' : '',
      formatAgo(variable.updated_at, io.now()),
      variable.updated_by.name,
      shadows(variable).join(', '),
    ],
    plain: (variable) => [
      variable.key,
      variable.updated_at,
      variable.updated_by.name,
      variable.forks ? 'forks' : '-',
      shadows(variable).join(','),
    ],
    empty: `No variables for ${LEVEL_WORDS[level]} of ${project.name} yet: berth vars set KEY=VALUE --for ${level}`,
  })
  if (screen.human && items.length > 0) await screen.note('(values are never shown)')
  return EXIT.done
}

export const varsList = compose(parseLevel, performVarsList)

interface VarsSetOptions {
  /** Values from the arguments. */
  given: Map<string, string>
  fromStdin: string | undefined
  /** Keys whose values the user types without echo. */
  asked: string[]
  file: string | undefined
  dryRun: boolean
  /** Keys without a value are left out, because an exported template has only such. */
  skipsEmpty: boolean
  /** Undefined: the switches stay as they are. */
  forks: boolean | undefined
  change: ChangeChoice
}

const HOW = 'give KEY=VALUE, KEY=- or --stdin to read stdin, or --from-file FILE'

function parseVarsSet(invocation: Invocation): VarsSetOptions {
  const { args, flags } = invocation
  const given = new Map<string, string>()
  const stdin: string[] = []
  const asked: string[] = []
  const named = new Set<string>()
  for (const word of args) {
    const at = word.indexOf('=')
    const key = at < 0 ? word : word.slice(0, at)
    if (named.has(key)) throw usage(`${cleanText(key)} is there twice`)
    named.add(key)
    if (at < 0 && !flagOn(flags, 'stdin')) asked.push(key)
    else if (at < 0 || word.slice(at + 1) === '-') stdin.push(key)
    else given.set(key, word.slice(at + 1))
  }
  if (stdin.length > 1) throw usage('stdin has one value only: set one KEY from it at a time')
  if (flagOn(flags, 'stdin') && stdin.length === 0) throw usage('--stdin needs one KEY', HOW)
  const file = flagText(flags, 'fromFile')
  if (named.size === 0 && file === undefined) throw usage('nothing to set', HOW)
  if (file === '-' && stdin.length > 0) throw usage('stdin has one use only: a value or the file')
  const change = parseChange(invocation)
  const forks = typeof flags.forks === 'boolean' ? flags.forks : undefined
  if (forks !== undefined && change.level === undefined) {
    throw usage('--forks needs --for project or --for previews')
  }
  return {
    given,
    fromStdin: stdin[0],
    asked,
    file,
    dryRun: flagOn(flags, 'dryRun'),
    skipsEmpty: false,
    forks,
    change,
  }
}

/** `berth vars import FILE`: as `vars set --from-file`, without keys that have no value. */
function parseVarsImport(invocation: Invocation): VarsSetOptions {
  const [file = '-'] = invocation.args
  const options = parseVarsSet({
    ...invocation,
    args: [],
    flags: { ...invocation.flags, fromFile: file },
  })
  return { ...options, skipsEmpty: true }
}

export async function readVariables(file: string): Promise<Map<string, string>> {
  try {
    if ((await stat(file)).size > CLIENT.stdinBytes) throw usage(`${file} is larger than 1 MiB`)
    return readVariableFile(await readFile(file, 'utf8'), file)
  } catch (error) {
    if (error instanceof CliError) throw error
    throw usage(`cannot read ${file} (${(error as NodeJS.ErrnoException).code ?? 'error'})`)
  }
}

async function readGiven(file: string, { io }: Context): Promise<Map<string, string>> {
  if (file !== '-') return readVariables(file)
  if (io.stdin.isTTY) throw usage('the file is read from stdin, which is a terminal', HOW)
  return readVariableFile(await io.stdin.read(CLIENT.stdinBytes), 'stdin')
}

async function collectValues(options: VarsSetOptions, context: Context) {
  const { io } = context
  const [unanswered] = options.asked
  if (unanswered !== undefined && !mayAsk(context)) {
    throw usage(`${cleanText(unanswered)} has no value`, HOW)
  }
  const values = options.file === undefined ? new Map() : await readGiven(options.file, context)
  if (options.skipsEmpty) {
    const empty = [...values.keys()].filter((key) => values.get(key) === '')
    for (const key of empty) values.delete(key)
    if (empty.length > 0) {
      await context.screen.note(`Left out, because they have no value: ${empty.join(', ')}`)
    }
  }
  for (const [key, value] of options.given) values.set(key, value)
  if (options.fromStdin !== undefined) {
    if (io.stdin.isTTY) throw usage('the value is read from stdin, which is a terminal', HOW)
    values.set(options.fromStdin, (await io.stdin.read(CLIENT.stdinBytes)).replace(/\r?\n$/, ''))
  }
  if (options.dryRun) for (const key of options.asked) values.set(key, '')
  else for (const key of options.asked) values.set(key, await askSecret(context, `${key}: `))
  return values
}

async function performVarsSet(options: VarsSetOptions, context: Context): Promise<ExitCode> {
  const values = await collectValues(options, context)
  if (values.size === 0) throw usage('nothing to set: the file has no variables')
  if (options.dryRun) {
    if (context.screen.json) await context.screen.printJson([...values.keys()])
    else for (const key of values.keys()) await context.screen.print(cleanText(key))
    return EXIT.done
  }
  if (options.given.size > 0 && context.screen.human) {
    await context.screen.note(
      'Your shell keeps KEY=VALUE in its history; KEY=- and --from-file do not.',
    )
  }
  const set = Object.fromEntries(values)
  const { forks } = options
  const switches = Object.fromEntries([...values.keys()].map((key) => [key, forks === true]))
  const body = forks === undefined ? { set } : { set, forks: switches }
  return sendChange(body, options.change, context)
}

export const varsSet = compose(parseVarsSet, performVarsSet)
export const varsImport = compose(parseVarsImport, performVarsSet)

export const varsUnset = compose(
  (invocation: Invocation) => ({
    body: { unset: [...new Set(invocation.args)] },
    change: parseChange(invocation),
  }),
  ({ body, change }, context) => sendChange(body, change, context),
)
