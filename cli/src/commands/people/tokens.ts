// berth token: list, create, revoke. A token is printed once, only to stdout, by the command that created it.
import { randomUUID } from 'node:crypto'
import { SCOPES, type Scope, Token, TokenCreate, TokenCreated } from '@berth/shared/api'
import { removeAt } from '../../client/api.ts'
import { type Context, compose, flagList, flagText, type Invocation } from '../../context.ts'
import { CliError, EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { formatAgo, formatUntil, parseCount, parseDuration } from '../../terminal/format.ts'
import { cleanText } from '../../terminal/text.ts'
import { confirmYes } from '../prompt.ts'
import { findOrganization } from './orgs.ts'

const DAY = 86_400_000

async function performTokenList(_: unknown, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const { items, raw } = await api.list('/api/tokens', Token, { query: { per_page: 100 } })
  await screen.printList({
    rows: items,
    raw,
    header: ['ID', 'NAME', 'KIND', 'ENDS IN', 'SCOPES', 'USED', 'EXPIRES'],
    human: (token) => [
      String(token.id),
      { text: token.name, style: 'bold' },
      token.kind,
      `…${token.hint}`,
      token.scopes.join(' '),
      token.last_used_at === null ? 'never' : formatAgo(token.last_used_at, io.now()),
      formatUntil(token.expires_at, io.now()),
    ],
    plain: (token) => [
      String(token.id),
      token.name,
      token.kind,
      token.hint,
      token.scopes.join(','),
      token.last_used_at ?? '',
      token.expires_at ?? '',
    ],
    empty: 'You have no tokens.',
  })
  return EXIT.done
}

export const tokenList = compose(() => undefined, performTokenList)

function parseTokenCreate({ args, flags }: Invocation): TokenCreate {
  const scopes = flagList(flags, 'scope').flatMap((word) => word.split(','))
  const wrong = scopes.find((scope) => !SCOPES.includes(scope as Scope))
  if (wrong !== undefined) throw usage(`--scope takes ${SCOPES.join(', ')}, got '${wrong}'`)
  const ms = parseDuration('--expires', flagText(flags, 'expires') ?? '', 365 * DAY)
  const checked = TokenCreate.safeParse({
    name: args[0],
    scopes: [...new Set(scopes)],
    expires_in_days: Math.ceil(ms / DAY),
  })
  if (checked.success) return checked.data
  throw usage(`NAME ${checked.error.issues[0]?.message ?? 'is not valid'}`)
}

async function performTokenCreate(body: TokenCreate, context: Context): Promise<ExitCode> {
  const { screen, io, globals } = context
  const api = await context.connect()
  // bound to the named organization; otherwise it has all access of its owner
  const isBound = Boolean(globals.org || io.env.BERTH_ORG)
  const organization = isBound ? { organization_id: (await findOrganization(api)).id } : {}
  const { value, raw } = await api.post('/api/tokens', TokenCreated, {
    body: { ...body, ...organization },
    idempotencyKey: randomUUID(),
    expect: 201,
  })
  const mark = screen.err.paint('green', '✓')
  const life = formatUntil(value.expires_at, io.now())
  const what = `Token ${value.name} (id ${value.id}), scopes ${value.scopes.join(' ')}, ${life}`
  await screen.note(`${mark} ${cleanText(what)}. It is shown this once:`)
  if (screen.json) await screen.printJson(raw)
  else if (screen.human) await screen.print(cleanText(value.token))
  else {
    const cells = [String(value.id), value.name, value.token, value.expires_at ?? '-']
    await screen.print(cells.map(cleanText).join('\t'))
  }
  return EXIT.done
}

export const tokenCreate = compose(parseTokenCreate, performTokenCreate)

async function performTokenRevoke({ id }: { id: number }, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const { items } = await api.list('/api/tokens', Token, { query: { per_page: 100 } })
  const token = items.find((one) => one.id === id)
  if (!token) throw new CliError(EXIT.notFound, `you have no token ${id}`, 'berth token list')
  const what = `Revoke ${token.kind} ${token.name} (id ${id})?`
  await confirmYes(context, what)
  await removeAt(api, `/api/tokens/${id}`)
  await screen.note(`${screen.err.paint('green', '✓')} Revoked ${cleanText(token.name)}`)
  if (screen.json) await screen.printJson({ revoked: id })
  else if (!screen.human) await screen.print(String(id))
  return EXIT.done
}

export const tokenRevoke = compose(
  ({ args }: Invocation) => ({ id: parseCount('ID', args[0] ?? '', 4_294_967_295) }),
  performTokenRevoke,
)
