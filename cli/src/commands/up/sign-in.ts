// Who is asking: the login that is there, or a new one with one approval on a terminal.
import { Me } from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import { credentialsPath, normalizeBaseUrl, readCredentials } from '../../client/credentials.ts'
import { connect, findBaseUrl } from '../../client/login.ts'
import type { Context } from '../../context.ts'
import { CliError, EXIT } from '../../terminal/exit.ts'
import { logInForUp } from '../people/login.ts'
import { askText, mayAsk } from '../prompt.ts'

export interface Session {
  /** null: a dry run without a login. */
  api: Api | null
  me: Me | null
  baseUrl: string | null
}

type Organization = Me['organizations'][number]

/** `role`: the user's role cannot. `scope`: this login cannot, a wider one can. */
export function mayCreateProject(organization: Organization): 'yes' | 'role' | 'scope' {
  if (organization.permissions.includes('project:write')) return 'yes'
  return organization.role === 'admin' || organization.role === 'owner' ? 'scope' : 'role'
}

/** Every answer that a login needs without a terminal, in one error. */
function cannotSignIn(baseUrl: string | undefined): CliError {
  const needs = baseUrl === undefined ? 'BERTH_URL (or --url URL) and BERTH_TOKEN' : 'BERTH_TOKEN'
  return new CliError(
    EXIT.notLoggedIn,
    `not logged in${baseUrl === undefined ? '' : ` to ${baseUrl}`}; without a terminal berth up does not ask`,
    `set ${needs}, or log in first: berth login --url ${baseUrl ?? 'URL'}`,
  )
}

async function open(context: Context): Promise<Session> {
  // not context.connect(), which remembers a refusal
  const api = await connect(context.globals, context.io)
  const { value: me } = await api.get('/api/me', Me)
  return { api, me, baseUrl: api.baseUrl }
}

export async function signIn(context: Context, isDryRun: boolean): Promise<Session> {
  const { globals, io } = context
  const stored = await readCredentials(credentialsPath(io.env))
  const known = await findBaseUrl(globals, io, stored)
  const isGiven = Boolean(io.env.BERTH_TOKEN || io.env.BERTH_TOKEN_FILE)
  if (isGiven || (known !== undefined && stored[known])) return open(context)
  if (isDryRun) return { api: null, me: null, baseUrl: known ?? null }
  if (!mayAsk(context)) throw cannotSignIn(known)
  const asked = known ?? normalizeBaseUrl(await askText(context, 'Address of your control plane'))
  await logInForUp(asked, context)
  return open({ ...context, globals: { ...globals, url: asked } })
}

/** For a login that lacks the scope: one more approval, where someone can give it. */
export async function widen(session: Session, context: Context): Promise<Session> {
  const { baseUrl } = session
  const isGiven = Boolean(context.io.env.BERTH_TOKEN || context.io.env.BERTH_TOKEN_FILE)
  if (baseUrl === null || isGiven || !mayAsk(context)) {
    throw new CliError(
      EXIT.notLoggedIn,
      'this login lacks the scope admin, which making a project needs',
      isGiven
        ? 'give a token with the scope admin'
        : `berth login --scope admin --url ${baseUrl ?? 'URL'}`,
    )
  }
  await context.screen.note('Making a project needs the scope admin, which this login lacks.')
  await logInForUp(baseUrl, context)
  return open({ ...context, globals: { ...context.globals, url: baseUrl } })
}
