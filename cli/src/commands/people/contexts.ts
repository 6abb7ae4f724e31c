// berth context: the control planes that this user is logged in to. The current one is that of the last `use` or login;
// a flag, a variable or a folder's link chooses another one for one command and changes nothing here.
import {
  type Credentials,
  credentialsPath,
  readCredentials,
  updateCredentials,
} from '../../client/credentials.ts'
import { chooseBaseUrl, trustAuthority } from '../../client/login.ts'
import { type Context, compose, type Invocation } from '../../context.ts'
import { CliError, EXIT, type ExitCode } from '../../terminal/exit.ts'
import { suggest } from '../../terminal/suggest.ts'
import { endLogin } from './login.ts'

const hostOf = (url: string): string => new URL(url).host

/** By address, or by its hostname where only one has it. */
function matchContext(word: string, stored: Credentials): string {
  const urls = Object.keys(stored)
  const bare = word.replace(/\/+$/, '')
  const found = urls.filter((url) => url === bare || hostOf(url) === bare)
  const [only, another] = found
  if (only !== undefined && another === undefined) return only
  const hint =
    another === undefined ? suggest(bare, urls, 'contexts') : `one of: ${found.join(', ')}`
  const message = another === undefined ? `no context '${word}'` : `'${word}' fits several contexts`
  throw new CliError(EXIT.notFound, message, hint ?? 'berth login --url URL makes one')
}

const currentOf = (stored: Credentials): string | undefined =>
  chooseBaseUrl({ url: undefined }, {}, stored)

async function performList(_: unknown, { io, screen }: Context): Promise<ExitCode> {
  const stored = await readCredentials(credentialsPath(io.env))
  const current = currentOf(stored)
  const rows = Object.entries(stored)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([url, entry]) => ({ url, user: entry.user.email, current: url === current }))
  await screen.printList({
    rows,
    raw: rows,
    header: ['', 'CONTROL PLANE', 'USER'],
    human: (row) => [row.current ? '*' : '', { text: row.url, style: 'bold' }, row.user],
    plain: (row) => [row.url, row.user, row.current ? 'current' : ''],
    empty: 'Not logged in anywhere. Start with: berth login --url URL',
  })
  return EXIT.done
}

export const contextList = compose(() => undefined, performList)

const parseName = ({ args }: Invocation): { name: string } => ({ name: args[0] ?? '' })

async function performUse({ name }: { name: string }, { io, screen }: Context): Promise<ExitCode> {
  const path = credentialsPath(io.env)
  let url = ''
  await updateCredentials(path, io, (before) => {
    url = matchContext(name, before)
    const entry = before[url]
    if (!entry) return undefined
    // later than every other one, also where the clock of an earlier login was ahead
    const newest = Object.values(before).reduce(
      (at, one) => Math.max(at, Date.parse(one.used_at)),
      0,
    )
    const at = Math.max(io.now(), newest + 1)
    return { ...before, [url]: { ...entry, used_at: new Date(at).toISOString() } }
  })
  await screen.note(`${screen.err.paint('green', '✓')} Commands now go to ${url}`)
  if (io.env.BERTH_URL) await screen.warn('BERTH_URL is set and is used instead of it')
  if (screen.json) await screen.printJson({ url })
  return EXIT.done
}

export const contextUse = compose(parseName, performUse)

async function performRemove({ name }: { name: string }, context: Context): Promise<ExitCode> {
  const { io, globals, screen } = context
  const path = credentialsPath(io.env)
  const stored = await readCredentials(path)
  const url = matchContext(name, stored)
  const entry = stored[url]
  await trustAuthority(globals, io.env)
  // before the lock, so that an unresponsive server does not block other commands
  if (entry) await endLogin(url, entry, context)
  await updateCredentials(path, io, ({ [url]: _, ...rest }) => rest)
  const next = currentOf(await readCredentials(path))
  if (next !== undefined) await screen.note(`Commands now go to ${next}`)
  if (screen.json) await screen.printJson({ removed: url, current: next ?? null })
  return EXIT.done
}

export const contextRemove = compose(parseName, performRemove)
