// berth vars: list, set, unset. Values come from an argument, a file or stdin and go into one request; they are never
// printed, not even in an error. The hint comes from the server.
import { randomUUID } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { Variable, VariablesPatched } from '@berth/shared/api'
import { findTarget, type Target, targetName } from '../../client/resolve.ts'
import { type Context, compose, flagOn, flagText, type Invocation } from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { formatAgo } from '../../terminal/format.ts'
import { cleanText } from '../../terminal/text.ts'
import { askSecret, mayAsk } from '../prompt.ts'
import { readVariableFile } from './variable-file.ts'

const pathOf = (target: Target): string => `/api/environments/${target.environment.id}/variables`

async function performVarsList(_: unknown, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const target = await findTarget(api, context, 'read')
  const { items, raw } = await api.list(pathOf(target), Variable)
  await screen.printList({
    rows: items,
    raw,
    header: ['KEY', 'UPDATED', 'BY', ''],
    human: (variable) => [
      { text: variable.key, style: 'bold' },
      formatAgo(variable.updated_at, io.now()),
      variable.updated_by.name,
      variable.changed_since_deployment ? 'not deployed yet' : '',
    ],
    plain: (variable) => [
      variable.key,
      variable.updated_at,
      variable.updated_by.name,
      variable.changed_since_deployment ? 'changed' : 'deployed',
    ],
    empty: `No variables in ${targetName(target)} yet: berth vars set KEY=VALUE`,
  })
  if (screen.human && items.length > 0) await screen.note('(values are never shown)')
  return EXIT.done
}

export const varsList = compose(() => undefined, performVarsList)

interface VarsSetOptions {
  /** Values from the arguments. */
  given: Map<string, string>
  fromStdin: string | undefined
  /** Keys whose values the user types without echo. */
  asked: string[]
  file: string | undefined
  dryRun: boolean
}

const HOW = 'give KEY=VALUE, KEY=- or --stdin to read stdin, or --from-file FILE'

function parseVarsSet({ args, flags }: Invocation): VarsSetOptions {
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
  return { given, fromStdin: stdin[0], asked, file, dryRun: flagOn(flags, 'dryRun') }
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

async function collectValues(options: VarsSetOptions, context: Context) {
  const { io } = context
  const [unanswered] = options.asked
  if (unanswered !== undefined && !mayAsk(context)) {
    throw usage(`${cleanText(unanswered)} has no value`, HOW)
  }
  const values = options.file === undefined ? new Map() : await readVariables(options.file)
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
  return sendChange({ set: Object.fromEntries(values) }, context)
}

export const varsSet = compose(parseVarsSet, performVarsSet)

export const varsUnset = compose(
  ({ args }: Invocation) => ({ unset: [...new Set(args)] }),
  (body, context) => sendChange(body, context),
)

async function sendChange(
  body: { set: Record<string, string> } | { unset: string[] },
  context: Context,
): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const target = await findTarget(api, context, 'change')
  const { value, raw } = await api.change('PATCH', pathOf(target), VariablesPatched, {
    body,
    idempotencyKey: randomUUID(),
    expect: 200,
  })
  if (screen.json) await screen.printJson(raw)
  const where = targetName(target)
  const say = async (verb: string, keys: string[], more = '') => {
    if (keys.length === 0) return
    const mark = screen.err.paint('green', '✓')
    await screen.note(`${mark} ${cleanText(`${verb} ${keys.join(', ')}${more}`)}`)
  }
  await say('Set', value.set, ` on ${where}`)
  await say('Unset', value.unset, ` on ${where}`)
  await say('Unchanged', value.unchanged)
  if (value.missing.length > 0) {
    await screen.note(cleanText(`  ${value.missing.join(', ')} was not set`))
  }
  if (value.variables_changed && value.hint !== null) {
    const mark = screen.err.paint('yellow', '!')
    const next = `Apply with: berth deploy -p ${target.project.name} -e ${target.environment.identifier}`
    await screen.say(`${mark} ${cleanText(`${value.hint}. ${next}`)}`)
  }
  return EXIT.done
}
