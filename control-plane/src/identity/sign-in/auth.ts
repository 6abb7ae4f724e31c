// Configures better-auth for what we use: email and password, browser logins in a cookie, reset by a one-use link.
// Sign-up, social providers and its own rate limits, mail, tables and telemetry are off; our app functions do the rest
// (docs/decisions/0007-sign-in-library-on-our-tables.md).
import { PEOPLE } from '@berth/shared'
import { isAPIError } from 'better-auth/api'
import { betterAuth } from 'better-auth/minimal'
import { mailReset } from '../../app/people/sign-in.ts'
import type { Context } from '../../context.ts'
import { isStorageFull, isStoreUnavailable } from '../../store/engine/faults.ts'
import type { Identity } from '../identity.ts'
import { type Asked, from as askedFrom, ourTables, requestOrigin } from './adapter.ts'

/** Paths below /api/auth that the library answers; all others do not exist. */
export const AUTH_PATHS: Readonly<Record<string, 'GET' | 'POST'>> = {
  '/sign-in/email': 'POST',
  '/sign-out': 'POST',
  '/get-session': 'GET',
  '/change-password': 'POST',
  '/request-password-reset': 'POST',
  '/reset-password': 'POST',
}

/** Paths that prove the caller by the current password. */
const BY_PASSWORD = ['/sign-in/email', '/change-password']

function build(ctx: Context, secret: string) {
  const { origin, protocol } = new URL(ctx.baseUrl)
  const secure = protocol === 'https:'
  // a browser accepts `__Host-` cookies only from this exact hostname, over https, for every path
  const name = (word: string) => `${secure ? '__Host-' : ''}berth_${word}`
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
    },
    session: {
      modelName: 'browserSessions',
      fields: { token: 'tokenHash', ipAddress: 'address' },
      expiresIn: PEOPLE.sessionMs / 1_000,
      updateAge: PEOPLE.sessionRenewMs / 1_000,
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
      },
      defaultCookieAttributes: { secure, httpOnly: true, sameSite: 'lax', path: '/' },
      // otherwise off under test runners
      disableOriginCheck: false,
      disableCSRFCheck: false,
      ipAddress: { ipAddressHeaders: ['x-berth-address'] },
    },
    rateLimit: { enabled: false },
    telemetry: { enabled: false },
    logger: { disabled: true },
    onAPIError: {
      onError: (error) => {
        if (isAPIError(error) || isStorageFull(error) || isStoreUnavailable(error)) return
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
  return {
    async answer(request, from) {
      const showsPassword = BY_PASSWORD.some((path) => request.url.split('?')[0]?.endsWith(path))
      const asked: Asked = { ...from, showsPassword, passwords: new Map() }
      const answer = await requestOrigin.run(asked, () => auth().handler(request))
      if (answer.status >= 500 && asked.fault !== undefined) throw asked.fault
      return answer
    },
    async findSession(cookie) {
      const headers = new Headers({ cookie })
      const asked: Asked = { ...askedFrom(), showsPassword: false, passwords: new Map() }
      const look = () => auth().api.getSession({ headers, query: { disableRefresh: true } })
      const found = await requestOrigin.run(asked, look).catch((error: unknown) => {
        throw asked.fault ?? error
      })
      if (!found) return undefined
      return { userId: Number(found.user.id), sessionId: Number(found.session.id) }
    },
  }
}
