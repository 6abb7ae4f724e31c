// berth notify: channels of notifications of an organization. The address of a receiver is a secret: it is typed or read
// from stdin, never an argument, and never printed. The signing secret of a webhook is printed once.
import { randomUUID } from 'node:crypto'
import { CHANNEL_KINDS, type ChannelKind, HAPPENING_NAMES, type Happening } from '@berth/shared'
import { Channel, ChannelMade, type ChannelRule, Notification } from '@berth/shared/api'
import { type Api, removeAt } from '../../client/api.ts'
import { findProject } from '../../client/resolve.ts'
import {
  type Context,
  compose,
  type Flags,
  flagList,
  flagOn,
  flagText,
  type Invocation,
} from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { formatAgo, parseCount } from '../../terminal/format.ts'
import { suggest } from '../../terminal/suggest.ts'
import { cleanText } from '../../terminal/text.ts'
import { findOrganization } from '../people/orgs.ts'
import { askSecret, confirmYes, mayAsk } from '../prompt.ts'

/** Short words for --on; every full name works too. */
const WORDS: Record<string, readonly Happening[]> = {
  failed: ['deployment.failed'],
  recovered: ['deployment.recovered'],
  succeeded: ['deployment.succeeded'],
  waiting: ['deployment.waiting'],
  approval: ['approval.needed'],
  task: ['task.failed'],
  degraded: ['environment.degraded', 'environment.recovered'],
  server: ['server.offline', 'server.online', 'server.problem'],
  all: HAPPENING_NAMES,
}

function parseHappenings(given: readonly string[]): Happening[] {
  const words = given.flatMap((one) => one.split(',')).map((one) => one.trim())
  const found = words.flatMap((word) => {
    const full = HAPPENING_NAMES.find((name) => name === word)
    const some = full ? [full] : WORDS[word]
    if (some) return some
    throw usage(
      `--on ${cleanText(word)} is not known`,
      `use ${[...Object.keys(WORDS), ...HAPPENING_NAMES].join(', ')}`,
    )
  })
  return [...new Set(found)]
}

interface Chosen {
  happenings: Happening[]
  environmentType: ChannelRule['environment_type']
}

const parseChosen = (flags: Flags): Chosen => ({
  happenings: parseHappenings(flagList(flags, 'on')),
  environmentType: (flagText(flags, 'environments') ?? null) as Chosen['environmentType'],
})

/** The rule that -p, --environments and --on describe; undefined if none of them was given. */
async function ruleOf(api: Api, context: Context, { happenings, environmentType }: Chosen) {
  const isForProject = context.globals.project !== undefined
  if (!isForProject && happenings.length === 0 && environmentType === null) return undefined
  const project = isForProject ? await findProject(api, context, 'change') : undefined
  const isNarrow = project !== undefined || environmentType !== null
  const usual: Happening[] = ['deployment.failed', 'deployment.recovered', 'task.failed']
  const everywhere: Happening[] = [...usual, 'server.offline', 'server.online', 'server.problem']
  return {
    project_id: project?.id ?? null,
    environment_type: environmentType,
    happenings: happenings.length > 0 ? happenings : isNarrow ? usual : everywhere,
  }
}

const HOW = 'type it when asked, or pipe it in with --url-stdin'

async function readUrl(fromStdin: boolean, context: Context): Promise<string> {
  const { io } = context
  if (!fromStdin) {
    if (!mayAsk(context)) throw usage('the address of the receiver is missing', HOW)
    return (await askSecret(context, 'Address of the receiver (https://…): ')).trim()
  }
  if (io.stdin.isTTY) throw usage('the address is read from stdin, which is a terminal', HOW)
  return (await io.stdin.read(CLIENT.stdinBytes)).trim()
}

const channelsPath = async (api: Api): Promise<string> =>
  `/api/organizations/${(await findOrganization(api)).id}/channels`

async function findChannel(api: Api, word: string): Promise<Channel> {
  const { items } = await api.list(await channelsPath(api), Channel)
  const found = items.find((one) => one.name === word || String(one.id) === word)
  if (found) return found
  const names = items.map(({ name }) => name)
  throw new CliError(EXIT.notFound, `no channel '${word}'`, suggest(word, names, 'channels'))
}

const stateOf = ({ broken_at, failing_since }: Channel): string =>
  broken_at ? 'broken' : failing_since ? 'failing' : 'ok'

const targetOf = ({ target, recipients }: Channel): string => target ?? recipients.join(',')

const describeRule = ({ project_id, environment_type, happenings }: ChannelRule): string =>
  [
    happenings.length === HAPPENING_NAMES.length ? 'everything' : happenings.join(','),
    environment_type ? `of ${environment_type} environments` : '',
    project_id ? `of project ${project_id}` : '',
  ]
    .filter(Boolean)
    .join(' ')

async function performList(_: unknown, context: Context): Promise<ExitCode> {
  const { screen, io, globals } = context
  const api = await context.connect()
  const project = globals.project ? await findProject(api, context, 'read') : undefined
  const query = { project_id: project?.id }
  const { items, raw } = await api.list(await channelsPath(api), Channel, { query })
  await screen.printList({
    rows: items,
    raw,
    header: ['ID', 'CHANNEL', 'KIND', 'TO', 'STATE', 'LAST', 'SENDS'],
    human: (one) => [
      String(one.id),
      { text: one.name, style: 'bold' },
      one.kind,
      targetOf(one),
      stateOf(one),
      formatAgo(one.last_delivered_at, io.now()),
      one.rules.map(describeRule).join('; '),
    ],
    plain: (one) => [
      String(one.id),
      one.name,
      one.kind,
      targetOf(one),
      stateOf(one),
      one.last_delivered_at ?? '',
      one.rules.map(describeRule).join('; '),
    ],
    empty: 'No channels yet: berth notify add slack',
  })
  for (const { name, broken_at, error } of items) {
    if (!broken_at) continue
    const what = `${name} is broken: ${error ?? 'it failed for long'}`
    await screen.note(cleanText(`${what} Correct it, then run: berth notify test ${name}`))
  }
  return EXIT.done
}

export const notifyList = compose(() => undefined, performList)

interface AddOptions extends Chosen {
  kind: ChannelKind
  name: string
  recipients: string[]
  fromStdin: boolean
}

function parseAdd({ args, flags }: Invocation): AddOptions {
  const kind = CHANNEL_KINDS.find((one) => one === args[0])
  if (!kind) throw usage('KIND is not valid', `use ${CHANNEL_KINDS.join(', ')}`)
  const recipients = flagList(flags, 'to').flatMap((one) => one.split(','))
  if (kind === 'email' && recipients.length === 0) {
    throw usage('--to is missing', 'give one or more addresses: --to ops@example.com')
  }
  if (kind !== 'email' && recipients.length > 0) throw usage('--to is only for e-mail channels')
  const fromStdin = flagOn(flags, 'urlStdin')
  return {
    kind,
    name: flagText(flags, 'name') ?? kind,
    recipients,
    fromStdin,
    ...parseChosen(flags),
  }
}

async function performAdd(options: AddOptions, context: Context): Promise<ExitCode> {
  const { kind, name, recipients } = options
  const url = kind === 'email' ? undefined : await readUrl(options.fromStdin, context)
  if (url === '') throw usage('the address is empty', HOW)
  const api = await context.connect()
  const rule = await ruleOf(api, context, options)
  const { value, raw } = await api.post(await channelsPath(api), ChannelMade, {
    body: {
      name,
      kind,
      ...(url === undefined ? { recipients } : { url }),
      ...(rule ? { rules: [rule] } : {}),
    },
    idempotencyKey: randomUUID(),
    expect: 201,
  })
  const { screen } = context
  const mark = screen.err.paint('green', '✓')
  const text = `${value.name} gets notifications at ${targetOf(value)}. Try it: berth notify test ${value.name}`
  await screen.note(`${mark} ${cleanText(text)}`)
  await printMade(context, value, raw)
  return EXIT.done
}

async function printMade({ screen }: Context, made: ChannelMade, raw: unknown): Promise<void> {
  if (screen.json) return screen.printJson(raw)
  if (made.secret !== null && screen.human) {
    await screen.note('Signing secret (copy it now, it is not shown again):')
  }
  const shown = made.secret ?? (screen.human ? undefined : String(made.id))
  if (shown !== undefined) await screen.print(cleanText(shown))
}

export const notifyAdd = compose(parseAdd, performAdd)

interface EditOptions extends Chosen {
  word: string
  name: string | undefined
  recipients: string[]
  fromStdin: boolean
  isUrlAsked: boolean
}

const parseEdit = ({ args, flags }: Invocation): EditOptions => ({
  word: args[0] ?? '',
  name: flagText(flags, 'name'),
  recipients: flagList(flags, 'to').flatMap((one) => one.split(',')),
  fromStdin: flagOn(flags, 'urlStdin'),
  isUrlAsked: flagOn(flags, 'newUrl'),
  ...parseChosen(flags),
})

async function performEdit(options: EditOptions, context: Context): Promise<ExitCode> {
  const { screen } = context
  const { word, name, recipients, fromStdin, isUrlAsked } = options
  const url = fromStdin || isUrlAsked ? await readUrl(fromStdin, context) : undefined
  const api = await context.connect()
  const { id } = await findChannel(api, word)
  const rule = await ruleOf(api, context, options)
  const body = {
    ...(name === undefined ? {} : { name }),
    ...(url === undefined ? {} : { url }),
    ...(recipients.length > 0 ? { recipients } : {}),
    ...(rule ? { rules: [rule] } : {}),
  }
  if (Object.keys(body).length === 0) {
    throw usage('nothing to change', 'add --name, --on, --environments, --to, --new-url or -p')
  }
  const { value, raw } = await api.change('PATCH', `/api/channels/${id}`, Channel, {
    body,
    idempotencyKey: randomUUID(),
    expect: 200,
  })
  const mark = screen.err.paint('green', '✓')
  await screen.note(
    `${mark} ${cleanText(`${value.name} sends ${value.rules.map(describeRule).join('; ')}`)}`,
  )
  if (screen.json) await screen.printJson(raw)
  else if (!screen.human) await screen.print(String(value.id))
  return EXIT.done
}

export const notifyEdit = compose(parseEdit, performEdit)

const parseWord = ({ args }: Invocation): { word: string } => ({ word: args[0] ?? '' })

async function performRemove({ word }: { word: string }, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const { id, name } = await findChannel(api, word)
  await confirmYes(context, `Remove the channel ${name} and its history?`)
  await removeAt(api, `/api/channels/${id}`)
  await screen.note(`${screen.err.paint('green', '✓')} Removed ${cleanText(name)}`)
  if (screen.json) await screen.printJson({ removed: id })
  else if (!screen.human) await screen.print(String(id))
  return EXIT.done
}

export const notifyRemove = compose(parseWord, performRemove)

async function performRotate({ word }: { word: string }, context: Context): Promise<ExitCode> {
  const api = await context.connect()
  const { id, name } = await findChannel(api, word)
  await confirmYes(context, `Give ${name} a new signing secret?`)
  const path = `/api/channels/${id}/rotate_secret`
  const { value, raw } = await api.post(path, ChannelMade, {
    idempotencyKey: randomUUID(),
    expect: 200,
  })
  const until = value.previous_secret_until
  if (until) await context.screen.note(`The former secret signs too until ${until}.`)
  await printMade(context, value, raw)
  return EXIT.done
}

export const notifyRotate = compose(parseWord, performRotate)

const MARKS = { delivered: '✓', waiting: '…', given_up: '✗', skipped: '-' } as const

const resultOf = (one: Notification): string =>
  one.error ?? (one.answer_status === null ? '' : `${one.answer_status} ${one.answer ?? ''}`.trim())

async function performTest({ word }: { word: string }, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const { id, name } = await findChannel(api, word)
  const { value, raw } = await api.post(`/api/channels/${id}/test`, Notification.array(), {
    idempotencyKey: randomUUID(),
    expect: 200,
  })
  const isDelivered = value.every(({ status }) => status === 'delivered')
  if (screen.json) await screen.printJson(raw)
  else {
    for (const one of value) {
      const [to, result] = [cleanText(one.recipient ?? name), cleanText(resultOf(one))]
      const words = one.status === 'delivered' ? 'delivered' : result
      await screen.print(
        screen.human ? `${MARKS[one.status]} ${to}: ${words}` : [one.status, to, result].join('\t'),
      )
    }
  }
  return isDelivered ? EXIT.done : EXIT.error
}

export const notifyTest = compose(parseWord, performTest)

interface LedgerOptions {
  word: string
  status: string | undefined
  limit: number
}

const parseLedger = ({ args, flags }: Invocation): LedgerOptions => ({
  word: args[0] ?? '',
  status: flagText(flags, 'status'),
  limit: parseCount('--limit', flagText(flags, 'limit') ?? '20', 1_000),
})

async function performLedger(options: LedgerOptions, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const { id, name } = await findChannel(api, options.word)
  const query = { status: options.status, per_page: Math.min(options.limit, 100) }
  const { items, raw } = await api.list(`/api/channels/${id}/notifications`, Notification, {
    query,
    limit: options.limit,
  })
  await screen.printList({
    rows: items,
    raw,
    header: ['ID', '', 'WHAT', 'TO', 'WHEN', 'TRIES', 'RESULT'],
    human: (one) => [
      String(one.id),
      MARKS[one.status],
      { text: one.title, style: 'bold' },
      one.recipient ?? name,
      formatAgo(one.created_at, io.now()),
      String(one.tries),
      resultOf(one),
    ],
    plain: (one) => [
      String(one.id),
      one.status,
      one.happening,
      one.title,
      one.created_at,
      String(one.tries),
      resultOf(one),
    ],
    empty: `Nothing was sent to ${name} yet.`,
  })
  return EXIT.done
}

export const notifyDeliveries = compose(parseLedger, performLedger)

function parseReplay({ args }: Invocation): { id: number } {
  return { id: parseCount('ID', args[0] ?? '', 0x7fff_ffff) }
}

async function performReplay({ id }: { id: number }, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const { value, raw } = await api.post(`/api/notifications/${id}/replay`, Notification, {
    idempotencyKey: randomUUID(),
    expect: 202,
  })
  const mark = screen.err.paint('green', '✓')
  await screen.note(`${mark} ${cleanText(`Sends "${value.title}" again as ${value.id}`)}`)
  if (screen.json) await screen.printJson(raw)
  else if (!screen.human) await screen.print(String(value.id))
  return EXIT.done
}

export const notifyReplay = compose(parseReplay, performReplay)
