// Configures better-auth for what we use: email and password, one OpenID Connect provider, browser logins in a cookie,
// reset by a one-use link. Sign-up and its own rate limits, mail, tables and telemetry are off; our app functions do
// the rest, and second factors are ours (docs/decisions/0007-sign-in-library-on-our-tables.md, 0055-two-factors.md).
import { AppError, PEOPLE } from '@berth/shared'
import { APIError, createAuthEndpoint, isAPIError } from 'better-auth/api'
import { setSessionCookie } from 'better-auth/cookies'
import { betterAuth } from 'better-auth/minimal'
import { mailReset } from '../../app/people/sign-in.ts'
import type { Context } from '../../context.ts'
import type { From } from '../../domain/core/access.ts'
import { isStorageFull, isStoreUnavailable } from '../../store/engine/faults.ts'
import type { BrowserLogin, Identity } from '../identity.ts'
import { type Asked, from as askedFrom, ourTables, requestOrigin } from './adapter.ts'
import { createProvider } from './provider.ts'

/** Paths below /api/auth that the library answers; all others do not exist. */
export const AUTH_PATHS: Readonly<Record<string, 'GET' | 'POST'>> = {
  '/sign-in/email': 'POST',
  '/sign-out': 'POST',
  '/get-session': 'GET',
  '/change-password': 'POST',
  '/request-password-reset': 'POST',
  '/reset-password': 'POST',
  '/callback/oidc': 'GET',
}

/** Begins a session for the user whom a passkey proved. Only our own code reaches it: AUTH_PATHS does not list it. */
const passkeySignIn = {
  id: 'passkey-sign-in',
  endpoints: {
    signInPasskey: createAuthEndpoint('/sign-in/passkey', { method: 'POST' }, async (c) => {
      const userId = requestOrigin.getStore()?.provenUser
      const { internalAdapter } = c.context
      const user = userId === undefined ? null : await internalAdapter.findUserById(String(userId))
      const session = user && (await internalAdapter.createSession(user.id))
      if (!user || !session) throw new APIError('UNAUTHORIZED')
      await setSessionCookie(c, { session, user })
      return c.json({ status: true })
    }),
  },
}

/** Paths that prove the caller by the current password. */
const BY_PASSWORD = ['/sign-in/email', '/change-password']

function build(ctx: Context, secret: string) {
  const { origin, protocol } = new URL(ctx.baseUrl)
  const secure = protocol === 'https:'
  // a browser accepts `__Host-` cookies only from this exact hostname, over https, for every path
  const name = (word: string) => `${secure ? '__Host-' : ''}berth_${word}`
  const { oidc } = ctx.config
  const providers = {
    id: 'providers',
    init: () => ({ context: { socialProviders: oidc ? [createProvider(ctx, oidc)] : [] } }),
  }
  return betterAuth({
    appName: 'Berth',
    baseURL: origin,
    basePath: '/api/auth',
    secret,
    trustedOrigins: [origin],
    database: ourTables(ctx),
    user: { modelName: 'users' },
    account: {
      modelName: 'accounts',
      fields: { providerId: 'provider', accountId: 'subject', password: 'passwordHash' },
      updateAccountOnSignIn: false, // the provider's tokens are used once and kept nowhere
    },
    session: {
      modelName: 'browserSessions',
      fields: { token: 'tokenHash', ipAddress: 'address' },
      expiresIn: PEOPLE.sessionMs / 1_000,
      updateAge: PEOPLE.sessionRenewMs / 1_000,
      additionalFields: {
        verifiedAt: { type: 'number', required: false, input: false },
        lastUsedAt: { type: 'number', required: false, input: false },
      },
    },
    verification: {
      modelName: 'verifications',
      storeIdentifier: 'hashed',
      disableCleanup: true, // the hourly sweep does it
    },
    emailAndPassword: {
      enabled: true,
      disableSignUp: true,
      minPasswordLength: PEOPLE.passwordChars,
      maxPasswordLength: PEOPLE.passwordMaxChars,
      resetPasswordTokenExpiresIn: PEOPLE.resetMs / 1_000,
      sendResetPassword: async ({ user, token }) => {
        const { name, email } = user
        await mailReset(ctx, { id: Number(user.id), name, email }, token, askedFrom())
      },
    },
    advanced: {
      database: { generateId: 'serial', validateSchema: false },
      useSecureCookies: false, // its prefix would be `__Secure-`
      cookiePrefix: 'berth',
      cookies: {
        session_token: { name: name('session') },
        session_data: { name: name('session_data') },
        dont_remember: { name: name('dont_remember') },
        state: { name: name('state') },
      },
      defaultCookieAttributes: { secure, httpOnly: true, sameSite: 'lax', path: '/' },
      // otherwise off under test runners
      disableOriginCheck: false,
      disableCSRFCheck: false,
      ipAddress: { ipAddressHeaders: ['x-berth-address'] },
    },
    plugins: [passkeySignIn, providers],
    rateLimit: { enabled: false },
    telemetry: { enabled: false },
    logger: { disabled: true },
    onAPIError: {
      errorURL: `${origin}/login`,
      onError: (error) => {
        if (isAPIError(error) || error instanceof AppError) return
        if (isStorageFull(error) || isStoreUnavailable(error)) return
        ctx.log.error({ err: error }, 'the sign-in library failed')
      },
    },
  })
}

export function createIdentity(context: () => Context, secret: string): Identity {
  let built: ReturnType<typeof build> | undefined
  const auth = () => {
    built ??= build(context(), secret)
    return built
  }
  const find = async (
    cookie: string,
    seeksAwaiting: boolean,
  ): Promise<BrowserLogin | undefined> => {
    const headers = new Headers({ cookie })
    const asked: Asked = { ...plain(askedFrom()), seeksAwaiting }
    const look = () => auth().api.getSession({ headers, query: { disableRefresh: true } })
    const found = await requestOrigin.run(asked, look).catch((error: unknown) => {
      throw asked.fault ?? error
    })
    if (!found) return undefined
    const { session, user } = found
    return {
      userId: Number(user.id),
      sessionId: Number(session.id),
      verifiedAt: session.verifiedAt ?? 0,
      lastUsedAt: session.lastUsedAt ?? null,
    }
  }
  return {
    async answer(request, from, provenUser) {
      const path = new URL(request.url).pathname
      const isPath = (end: string) => path.endsWith(end)
      const asked: Asked = {
        ...plain(from),
        showsPassword: BY_PASSWORD.some(isPath),
        method: isPath('/callback/oidc')
          ? 'provider'
          : provenUser === undefined
            ? 'password'
            : 'passkey',
        isSignedIn: isPath('/change-password'),
        provenUser,
      }
      const answer = await requestOrigin.run(asked, () => auth().handler(request))
      if (asked.fault !== undefined && (answer.status >= 500 || asked.fault instanceof AppError)) {
        throw asked.fault
      }
      return answer
    },
    findSession: (cookie) => find(cookie, false),
    findAwaiting: (cookie) => find(cookie, true),
  }
}

const plain = (from: From): Asked => ({
  ...from,
  showsPassword: false,
  method: 'password',
  isSignedIn: false,
  seeksAwaiting: false,
  passwords: new Map(),
})
