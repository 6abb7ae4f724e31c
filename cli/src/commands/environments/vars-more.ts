// berth vars generate, forks, export, history. No value is ever printed: generated ones are made on the server.
import { GENERATED } from '@berth/shared'
import {
  type ProjectLevel,
  ProjectVariable,
  Variable,
  VariableChange,
  type VariableLevel,
} from '@berth/shared/api'
import { findProject, findTarget, targetName } from '../../client/resolve.ts'
import { type Context, compose, flagOn, flagText, type Invocation } from '../../context.ts'
import { EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { formatAgo } from '../../terminal/format.ts'
import { cleanText } from '../../terminal/text.ts'
import {
  type ChangeBody,
  type ChangeChoice,
  environmentPath,
  LEVEL_WORDS,
  parseChange,
  parseLevel,
  projectPath,
  sendChange,
} from './variable-change.ts'

interface Asked {
  body: ChangeBody
  change: ChangeChoice
}

function parseGenerate(invocation: Invocation): Asked {
  const { args, flags } = invocation
  const given = flagText(flags, 'length')
  const length = given === undefined ? undefined : Number(given)
  const { least, most } = GENERATED
  if (length !== undefined && !(Number.isInteger(length) && length >= least && length <= most)) {
    throw usage(`--length takes a number from ${least} to ${most}`)
  }
  const one = {
    ...(length === undefined ? {} : { length }),
    ...(flagOn(flags, 'replace') ? { replace: true as const } : {}),
  }
  return {
    body: { generate: Object.fromEntries(args.map((key) => [key, one])) },
    change: parseChange(invocation),
  }
}

const send = ({ body, change }: Asked, context: Context): Promise<ExitCode> =>
  sendChange(body, change, context)

export const varsGenerate = compose(parseGenerate, send)

function parseForks(invocation: Invocation): Asked {
  const { args, flags } = invocation
  const change = parseChange(invocation)
  if (change.level === undefined) throw usage('which level?', '--for project or --for previews')
  const isOn = !flagOn(flags, 'off')
  return { body: { forks: Object.fromEntries(args.map((key) => [key, isOn])) }, change }
}

export const varsForks = compose(parseForks, send)

interface Key {
  key: string
  level: VariableLevel
}

async function readKeys(level: ProjectLevel | undefined, context: Context) {
  const api = await context.connect()
  if (level === undefined) {
    const target = await findTarget(api, context, 'read')
    const { items } = await api.list(environmentPath(target), Variable)
    return {
      keys: items.map(({ key, level: from }): Key => ({ key, level: from })),
      of: targetName(target),
    }
  }
  const project = await findProject(api, context, 'read')
  const { items } = await api.list(projectPath(project), ProjectVariable, { query: { level } })
  const keys = items.map(({ key }): Key => ({ key, level }))
  return { keys, of: `${LEVEL_WORDS[level]} of ${project.name}` }
}

/** A template: `vars import` reads it back and leaves out keys without a value. */
async function performExport(level: ProjectLevel | undefined, context: Context): Promise<ExitCode> {
  const { screen } = context
  const { keys, of } = await readKeys(level, context)
  if (screen.json) {
    await screen.printJson(keys)
    return EXIT.done
  }
  await screen.print(cleanText(`# Variables of ${of}. Values are never exported.`))
  for (const from of ['project', 'previews', 'manual', 'environment'] as const) {
    const own = keys.filter((one) => one.level === from)
    if (own.length === 0) continue
    await screen.print(`\n# ${from}`)
    for (const { key } of own) await screen.print(cleanText(`${key}=`))
  }
  return EXIT.done
}

export const varsExport = compose(parseLevel, performExport)

interface HistoryOptions {
  key: string | undefined
  level: ProjectLevel | undefined
  limit: number
}

const MOST = 1_000

function parseHistory(invocation: Invocation): HistoryOptions {
  const given = flagText(invocation.flags, 'limit')
  const limit = given === undefined ? 30 : Number(given)
  if (!(Number.isInteger(limit) && limit >= 1 && limit <= MOST)) {
    throw usage(`--limit takes a number from 1 to ${MOST}`)
  }
  return { key: invocation.args[0], level: parseLevel(invocation), limit }
}

const did = (one: VariableChange): string =>
  [
    one.set.length > 0 && `set ${one.set.join(', ')}`,
    one.unset.length > 0 && `unset ${one.unset.join(', ')}`,
    one.forks_on.length > 0 && `forks get ${one.forks_on.join(', ')}`,
    one.forks_off.length > 0 && `forks no longer get ${one.forks_off.join(', ')}`,
  ]
    .filter(Boolean)
    .join('; ')

async function performHistory(
  { key, level, limit }: HistoryOptions,
  context: Context,
): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const path =
    level === undefined
      ? environmentPath(await findTarget(api, context, 'read'))
      : projectPath(await findProject(api, context, 'read'))
  const query = { ...(key === undefined ? {} : { key }), ...(level === undefined ? {} : { level }) }
  const { items, raw } = await api.list(`${path}/history`, VariableChange, { query, limit })
  const where = ({ level: at, environment }: VariableChange): string =>
    environment?.identifier ?? at
  await screen.printList({
    rows: items,
    raw,
    header: ['WHEN', 'BY', 'WHERE', 'CHANGE'],
    human: (one) => [formatAgo(one.at, io.now()), one.by.name ?? one.by.type, where(one), did(one)],
    plain: (one) => [one.at, one.by.name ?? one.by.type, one.level, where(one), did(one)],
    empty: 'No changes of variables yet.',
  })
  return EXIT.done
}

export const varsHistory = compose(parseHistory, performHistory)
