// Sign-in, sign-out and passwords of users in a browser, for every gateway: the limits and locks around the library,
// and its answers in our words. Cookies stay as the library wrote them; only they hold a session's token.
import { AppError, PEOPLE } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { From } from '../../domain/core/access.ts'
import type { PasskeyUsed } from '../../identity/passkeys.ts'
import { finishByPasskey } from './factors/second-step.ts'
import { PROVIDER } from './provider-sign-in.ts'
import { admitReset, admitSignIn, forgetWrongPasswords } from './sign-in.ts'

interface Browser extends From {
  cookie: string | undefined
  userAgent: string | undefined
}

export async function askLibrary(
  ctx: Context,
  asked: Request,
  from: From,
  provenUser?: number,
): Promise<Response> {
  const answer = await ctx.identity.answer(asked, from, provenUser)
  if (answer.status >= 500) throw new Error(`the sign-in library answered ${answer.status}`)
  return answer
}

/** Counts the try by address and by account before checking the password; a right password is not counted. */
export async function answerSignIn(
  ctx: Context,
  email: string,
  asked: Request,
  from: From,
): Promise<Response> {
  const { signIns } = ctx.quotas.narrow
  await signIns.take(from.address)
  await admitSignIn(ctx, email)
  const answer = await askLibrary(ctx, asked, from)
  if (answer.ok) {
    await signIns.giveBack(from.address)
    await forgetWrongPasswords(ctx, email)
  }
  return answer
}

const underWay = new WeakMap<Context, Set<Promise<unknown>>>()

/** Returns its answer before looking anything up, so that its timing does not reveal who has an account. */
export async function beginReset(
  ctx: Context,
  email: string,
  asked: Request,
  from: From,
): Promise<string> {
  await ctx.quotas.narrow.links.take(from.address)
  const resets = underWay.get(ctx) ?? new Set()
  underWay.set(ctx, resets)
  if (resets.size >= PEOPLE.resetsUnderWay) {
    throw new AppError('unavailable', 'Too many resets are under way. Try again in a moment.')
  }
  const work = (async () => {
    if (await admitReset(ctx, email)) await ctx.identity.answer(asked, from)
  })()
    .catch((error: unknown) => ctx.log.error({ err: error }, 'a password reset failed'))
    .finally(() => resets.delete(work))
  resets.add(work)
  return 'If there is an account with this address, a link is on its way to it.'
}

/** Call this before the database closes. */
export const finishResets = async (ctx: Context): Promise<void> => {
  await Promise.allSettled(underWay.get(ctx) ?? [])
}

/** Builds the request that the page would send; the calling code must have checked that the page sent it. */
function requestOf(ctx: Context, path: string, browser: Browser, body?: object): Request {
  const { origin } = new URL(ctx.baseUrl)
  const headers = new Headers({ origin, 'x-berth-address': browser.address })
  if (browser.cookie !== undefined) headers.set('cookie', browser.cookie)
  if (browser.userAgent !== undefined) headers.set('user-agent', browser.userAgent)
  if (body) headers.set('content-type', 'application/json')
  return new Request(`${origin}/api/auth${path}`, {
    method: body ? 'POST' : 'GET',
    headers,
    ...(body ? { body: JSON.stringify(body) } : {}),
  })
}

const WRONG = 'The e-mail address or the password is wrong.'
const STALE =
  'This link was used, replaced, or is older than an hour. Ask for a new one where you sign in.'

/**
 * Returns the cookies that begin the session; with a second factor, the session waits for it (session.get says so).
 */
export async function signIn(
  ctx: Context,
  asked: { email: string; password: string },
  browser: Browser,
): Promise<string[]> {
  const { email, password } = asked
  const request = requestOf(ctx, '/sign-in/email', browser, { email, password })
  const answer = await answerSignIn(ctx, email, request, browser)
  if (!answer.ok) throw new AppError('sign_in_failed', WRONG)
  return answer.headers.getSetCookie()
}

/** Finishes a sign-in that waits for its second factor, or begins a session without a password. */
export async function signInByPasskey(
  ctx: Context,
  response: PasskeyUsed,
  browser: Browser,
): Promise<string[]> {
  const asked = { cookie: browser.cookie, response }
  const { userId, isDone } = await finishByPasskey(ctx, asked, browser)
  if (isDone) return []
  const request = requestOf(ctx, '/sign-in/passkey', browser, {})
  const answer = await askLibrary(ctx, request, browser, userId)
  if (!answer.ok) throw new AppError('passkey_refused', 'Your account is disabled.')
  return answer.headers.getSetCookie()
}

/** Returns the provider's address to open, and the cookies that recognize the answer. */
export async function beginProviderSignIn(
  ctx: Context,
  next: string,
  browser: Browser,
): Promise<{ url: string; cookies: string[] }> {
  if (!ctx.config.oidc) throw new AppError('not_found', 'There is no sign-in provider here.')
  const { origin } = new URL(ctx.baseUrl)
  const body = {
    provider: PROVIDER,
    callbackURL: `${origin}${next}`,
    errorCallbackURL: `${origin}/login`,
    disableRedirect: true,
  }
  const answer = await askLibrary(ctx, requestOf(ctx, '/sign-in/social', browser, body), browser)
  if (!answer.ok) throw new AppError('provider_refused', 'The sign-in could not begin. Try again.')
  const { url } = (await answer.json()) as { url: string }
  return { url, cookies: answer.headers.getSetCookie() }
}

/** Returns the cookies that end the session; an ended session is no error. */
export async function signOut(ctx: Context, browser: Browser): Promise<string[]> {
  const answer = await askLibrary(ctx, requestOf(ctx, '/sign-out', browser, {}), browser)
  return answer.headers.getSetCookie()
}

/** Use extends a session; the caller must pass the cookies on. */
export async function renewSession(ctx: Context, browser: Browser): Promise<string[]> {
  const answer = await askLibrary(ctx, requestOf(ctx, '/get-session', browser), browser)
  return answer.headers.getSetCookie()
}

export const requestReset = (ctx: Context, email: string, browser: Browser): Promise<string> =>
  beginReset(ctx, email, requestOf(ctx, '/request-password-reset', browser, { email }), browser)

export async function resetPassword(
  ctx: Context,
  asked: { token: string; password: string },
  browser: Browser,
): Promise<void> {
  await ctx.quotas.narrow.links.take(browser.address)
  const body = { token: asked.token, newPassword: asked.password }
  const answer = await askLibrary(ctx, requestOf(ctx, '/reset-password', browser, body), browser)
  if (!answer.ok) throw new AppError('reset_link_invalid', STALE)
}

/** Ends every other session; returns the cookies of the new one. */
export async function changePassword(
  ctx: Context,
  asked: { email: string; currentPassword: string; newPassword: string },
  browser: Browser,
): Promise<string[]> {
  const { email, currentPassword, newPassword } = asked
  const body = { currentPassword, newPassword, revokeOtherSessions: true }
  const request = requestOf(ctx, '/change-password', browser, body)
  // wrong passwords count here as at sign-in
  const answer = await answerSignIn(ctx, email, request, browser)
  if (!answer.ok) throw new AppError('sign_in_failed', 'The current password is wrong.')
  return answer.headers.getSetCookie()
}
