// berth login, logout, whoami. Login uses the device flow: a code that is approved in a browser anywhere; --with-token
// reads a token from stdin instead (arguments are visible to every process of the machine). A token is verified with
// the server before it is stored.
import { hostname } from 'node:os'
import { Me, type TokenAnswer } from '@berth/shared/api'
import { createApi } from '../../client/api.ts'
import {
  credentialsPath,
  type Entry,
  readCredentials,
  updateCredentials,
} from '../../client/credentials.ts'
import type { Connection } from '../../client/http.ts'
import { checkToken, chooseBaseUrl, trustAuthority } from '../../client/login.ts'
import { awaitApproval, refresh, revokeToken, startDeviceLogin } from '../../client/oauth.ts'
import {
  type Context,
  compose,
  flagList,
  flagOn,
  flagText,
  type Invocation,
} from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { browserCommand } from '../../terminal/browser.ts'
import { EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { formatUntil } from '../../terminal/format.ts'
import { renderTable } from '../../terminal/terminal.ts'
import { cleanText } from '../../terminal/text.ts'

const WITH_TOKEN = 'berth login --with-token --url https://deploy.example.com < token-file'
const DEVICE = 'berth login --url https://deploy.example.com'
/** The scopes for everyday use; others are requested by name. */
const SCOPES = ['read', 'deploy', 'write', 'ssh'] as const

interface LoginOptions {
  withToken: boolean
  scopes: string[]
  name: string | undefined
  /** false: the user opens the page manually. */
  browser: boolean
  /** Gives back scopes that no role of the user can use. */
  fitsRole?: true
}

function parseLogin({ flags }: Invocation): LoginOptions {
  const withToken = flagOn(flags, 'withToken')
  const more = flagList(flags, 'scope')
  if (withToken && more.length > 0) {
    throw usage(
      '--scope has no meaning with --with-token',
      'a token has the scopes it was made with',
    )
  }
  return {
    withToken,
    scopes: [...new Set([...SCOPES, ...more])],
    name: flagText(flags, 'name'),
    browser: flags.browser !== false,
  }
}

async function performLogin(options: LoginOptions, context: Context): Promise<ExitCode> {
  const { io, globals, screen } = context
  const path = credentialsPath(io.env)
  const baseUrl = chooseBaseUrl(globals, io.env, await readCredentials(path))
  const how = options.withToken ? WITH_TOKEN : DEVICE
  if (baseUrl === undefined) throw usage('which server?', `name it with --url: ${how}`)
  if (options.withToken && io.stdin.isTTY) {
    throw usage('--with-token reads the token from stdin, which is a terminal', WITH_TOKEN)
  }
  const raw = await logIn(baseUrl, options, context)
  if (io.env.BERTH_TOKEN || io.env.BERTH_TOKEN_FILE) {
    await screen.warn('BERTH_TOKEN or BERTH_TOKEN_FILE is set and is used instead of it')
  }
  if (screen.json) await screen.printJson(raw)
  return EXIT.done
}

/** Stores a login that the server has verified; the answer is the user, as the API shows it. */
async function logIn(baseUrl: string, options: LoginOptions, context: Context): Promise<unknown> {
  const { io, globals, screen } = context
  const path = credentialsPath(io.env)
  const given = options.withToken
    ? checkToken(await io.stdin.read(CLIENT.tokenBytes * 2), 'stdin')
    : null
  await trustAuthority(globals, io.env)
  const debug = globals.verbose || io.env.BERTH_DEBUG === 'api'
  const connection: Connection = { baseUrl, token: given, organizationId: null, io, debug }
  let tokens = given === null ? await logInByDevice(options, context, connection) : null
  const { value: me, raw } = await createApi({
    ...connection,
    token: tokens?.access_token ?? given,
  }).get('/api/me', Me)
  if (tokens && options.fitsRole && !isAdministrator(me)) {
    tokens = await refresh(connection, tokens.refresh_token, SCOPES)
  }
  const token = tokens?.access_token ?? given
  await updateCredentials(path, io, (before) => ({
    ...before,
    [baseUrl]: {
      access_token: token ?? '',
      refresh_token: tokens?.refresh_token ?? null,
      expires_at: me.token.expires_at,
      user: { id: me.id, name: me.name, email: me.email },
      used_at: new Date(io.now()).toISOString(),
    },
  }))
  const mark = screen.err.paint('green', '✓')
  await screen.note(`${mark} Logged in to ${baseUrl} as ${cleanText(`${me.name} (${me.email})`)}`)
  await screen.note(`  Token saved in ${path}`)
  return raw
}

const isAdministrator = (me: Me): boolean =>
  me.is_platform_admin || me.organizations.some(({ role }) => role === 'admin' || role === 'owner')

/** One approval for everything that `up` may have to do; what the role cannot use is given back. */
export async function logInForUp(baseUrl: string, context: Context): Promise<void> {
  const scopes = [...SCOPES, 'admin']
  const options = { withToken: false, scopes, name: undefined, browser: true }
  await logIn(baseUrl, { ...options, fitsRole: true }, context)
}

/** Always shows address and code, because the user cannot continue without them. */
async function logInByDevice(
  options: LoginOptions,
  { io }: Context,
  connection: Connection,
): Promise<TokenAnswer> {
  const name = options.name ?? hostname()
  const started = await startDeviceLogin(connection, { scopes: options.scopes, name })
  const minutes = Math.round(started.expires_in / 60)
  const page = started.verification_uri_complete
  const words = options.browser ? browserCommand(io, page) : undefined
  const lines = [
    `First copy your one-time code: ${started.user_code}`,
    words
      ? `Your browser opens ${started.verification_uri}; if not, open it yourself and enter the code.`
      : `Open ${started.verification_uri} in any browser, sign in and enter it.`,
    `Waiting for approval, ${minutes} minutes at most…`,
  ]
  await io.stderr.write(`${lines.map(cleanText).join('\n')}\n`)
  if (words) io.launch(words)
  return awaitApproval(connection, started)
}

export const login = compose(parseLogin, performLogin)

const parseLogout = ({ flags }: Invocation): { all: boolean } => ({
  all: flagOn(flags, 'all'),
})

async function performLogout(options: { all: boolean }, context: Context): Promise<ExitCode> {
  const { io, globals, screen } = context
  const path = credentialsPath(io.env)
  await trustAuthority(globals, io.env)
  const before = await readCredentials(path)
  const named = chooseBaseUrl(globals, io.env, before)
  const ending = Object.entries(before).filter(([url]) => options.all || url === named)
  // before the lock, so that an unresponsive server does not block other commands
  for (const [url, entry] of ending) await endLogin(url, entry, context)
  const gone = ending.map(([url]) => url)
  await updateCredentials(path, io, (now) =>
    gone.length === 0
      ? undefined
      : Object.fromEntries(Object.entries(now).filter(([url]) => !gone.includes(url))),
  )
  if (gone.length === 0) await screen.note('Nothing to do: not logged in')
  if (io.env.BERTH_TOKEN || io.env.BERTH_TOKEN_FILE) {
    await screen.warn('BERTH_TOKEN or BERTH_TOKEN_FILE is still set')
  }
  if (screen.json) await screen.printJson({ logged_out: gone })
  return EXIT.done
}

/** Ends a login created here on the server. A token that was passed in may be in use elsewhere and stays valid. */
export async function endLogin(baseUrl: string, entry: Entry, context: Context): Promise<void> {
  const { io, globals, screen } = context
  if (entry.refresh_token === null) {
    await screen.note(`Logged out of ${baseUrl}`)
    await screen.note('  The token itself lives on until it expires; revoke it in the dashboard')
    return
  }
  const debug = globals.verbose || io.env.BERTH_DEBUG === 'api'
  const connection = { baseUrl, token: null, organizationId: null, io, debug }
  const reported = await revokeToken(connection, entry.refresh_token)
  await screen.note(`Logged out of ${baseUrl}`)
  if (!reported) {
    await screen.warn(`${baseUrl} could not be told; the login lives on there until it is revoked`)
  }
}

export const logout = compose(parseLogout, performLogout)

async function performWhoami(_: unknown, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const { value: me, raw, headers } = await api.get('/api/me', Me)
  if (screen.json) {
    await screen.printJson(raw)
    return EXIT.done
  }
  if (!screen.human) {
    const cells = [String(me.id), me.name, me.email, api.baseUrl, me.token.scopes.join(',')]
    await screen.print(cells.map(cleanText).join('\t'))
    return EXIT.done
  }
  const version = headers.get('berth-version')
  const server = version === null ? '' : ` (v${version})`
  await screen.print(cleanText(`${me.name} <${me.email}>  at ${api.baseUrl}${server}`))
  const { token } = me
  const life = formatUntil(token.expires_at, io.now())
  const scopes = token.scopes.join(' ')
  await screen.print(cleanText(`Token    ${token.kind} "${token.name}", scopes ${scopes}, ${life}`))
  const rows = me.organizations.map((organization) => [
    String(organization.id),
    organization.name,
    organization.role,
    String(organization.project_count),
  ])
  const header = ['ORG', 'NAME', 'ROLE', 'PROJECTS']
  await screen.print(renderTable(header, rows, screen.width, screen.out.paint).join('\n'))
  return EXIT.done
}

export const whoami = compose(() => undefined, performWhoami)
