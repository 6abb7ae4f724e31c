// Sign-in with the OpenID Connect provider of the installation: discovery, the exchange of the code, and the check of
// the ID token. The library adds state, PKCE and nonce. Every request goes to checked addresses; the operator's own
// setting may name a private one.
import { createPublicKey, type JsonWebKey } from 'node:crypto'
import { AppError } from '@berth/shared'
import {
  createAuthorizationURL,
  type OAuth2Tokens,
  type OAuthProvider,
  verifyProviderIdToken,
} from 'better-auth/oauth2'
import { z } from 'zod'
import { admitProviderUser, PROVIDER } from '../../app/people/provider-sign-in.ts'
import type { OidcConfig } from '../../config.ts'
import type { Context } from '../../context.ts'
import { createGuard, type Guard, OutboundRefusal } from '../../forges/addresses.ts'
import { RequestError, sendRequest } from '../../forges/requests.ts'
import { from, keepFault } from './adapter.ts'

const Discovered = z.object({
  issuer: z.string(),
  authorization_endpoint: z.url(),
  token_endpoint: z.url(),
  jwks_uri: z.url(),
  userinfo_endpoint: z.url().optional(),
  token_endpoint_auth_methods_supported: z.array(z.string()).optional(),
  id_token_signing_alg_values_supported: z.array(z.string()).optional(),
})
type Discovered = z.infer<typeof Discovered>

const Tokens = z.object({ id_token: z.string(), access_token: z.string().optional() })
const Keys = z.object({ keys: z.array(z.record(z.string(), z.unknown())).max(100) })
const Claims = z.object({
  sub: z.string().min(1).max(255),
  email: z.string().max(254).optional(),
  email_verified: z.union([z.boolean(), z.stringbool()]).optional(),
  name: z.string().optional(),
  preferred_username: z.string().optional(),
})
type Claims = z.infer<typeof Claims>

/** Only signatures with a public key: with a shared secret, everybody who knows it could sign. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'EdDSA']
const DISCOVERY_MS = 10 * 60_000

/** The log gets the reason; the person gets what to do. */
function failed(ctx: Context, { name }: OidcConfig, reason: string): AppError {
  ctx.log.warn({ reason }, 'the sign-in provider failed')
  const message = `${name} did not answer as expected. Try again; if it stays, an administrator finds the reason in the log of Berth.`
  return new AppError('provider_refused', message, { reason: 'provider_failed' })
}

class ProviderClient {
  readonly #ctx: Context
  readonly #config: OidcConfig
  readonly #guard: Guard
  #known: { at: number; document: Discovered } | undefined

  constructor(ctx: Context, config: OidcConfig) {
    this.#ctx = ctx
    this.#config = config
    const own = new URL(config.issuer).hostname.toLowerCase()
    this.#guard = createGuard({
      privateHosts: [own, ...ctx.config.privateGitHosts],
      allowLoopback: ctx.config.allowLocalRepositories,
    })
  }

  async #ask<T>(
    what: string,
    schema: z.ZodType<T>,
    asked: Pick<Parameters<typeof sendRequest>[1], 'method' | 'url' | 'headers' | 'body'>,
  ): Promise<T> {
    const fail = (reason: string) => failed(this.#ctx, this.#config, `${what}: ${reason}`)
    const answer = await sendRequest(this.#guard, asked).catch((error: unknown) => {
      const isOurs = error instanceof RequestError || error instanceof OutboundRefusal
      throw isOurs ? fail(error.message) : error
    })
    if (answer.status !== 200) throw fail(`answered ${answer.status}`)
    let json: unknown
    try {
      json = JSON.parse(answer.text)
    } catch {
      throw fail('the answer is not JSON')
    }
    const read = schema.safeParse(json)
    if (!read.success) throw fail(`the answer lacks ${read.error.issues[0]?.path.join('.')}`)
    return read.data
  }

  async discover(): Promise<Discovered> {
    const now = this.#ctx.clock.now()
    if (this.#known && now - this.#known.at < DISCOVERY_MS) return this.#known.document
    const { issuer } = this.#config
    const url = new URL(`${issuer}/.well-known/openid-configuration`)
    const document = await this.#ask('discovery', Discovered, { method: 'GET', url })
    if (document.issuer.replace(/\/+$/, '') !== issuer) {
      throw failed(this.#ctx, this.#config, `discovery: the issuer is ${document.issuer}`)
    }
    this.#known = { at: now, document }
    return document
  }

  async exchange(code: string, verifier: string, redirectUri: string): Promise<OAuth2Tokens> {
    const { clientId, clientSecret } = this.#config
    const document = await this.discover()
    const methods = document.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
    const isBasic = methods.includes('client_secret_basic')
    const form = new URLSearchParams({
      grant_type: 'authorization_code',
      code,
      code_verifier: verifier,
      redirect_uri: redirectUri,
      ...(isBasic ? {} : { client_id: clientId, client_secret: clientSecret }),
    })
    const pair = `${encodeURIComponent(clientId)}:${encodeURIComponent(clientSecret)}`
    const { id_token, access_token } = await this.#ask('token', Tokens, {
      method: 'POST',
      url: new URL(document.token_endpoint),
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        ...(isBasic ? { authorization: `Basic ${Buffer.from(pair).toString('base64')}` } : {}),
      },
      body: Buffer.from(form.toString()),
    })
    return { idToken: id_token, accessToken: access_token }
  }

  /** The verified claims; those of the user come from the userinfo endpoint if the ID token has none. */
  async claims(tokens: OAuth2Tokens, nonce: string | undefined): Promise<Claims> {
    const document = await this.discover()
    const { keys } = await this.#ask('keys', Keys, {
      method: 'GET',
      url: new URL(document.jwks_uri),
    })
    const offered = document.id_token_signing_alg_values_supported ?? ['RS256']
    const provider = {
      idToken: {
        issuer: document.issuer,
        audience: this.#config.clientId,
        algorithms: ALGORITHMS.filter((one) => offered.includes(one)),
        jwks: (header: { kid?: string }) => {
          const jwk = keys.find(({ kid }) => header.kid === undefined || kid === header.kid)
          if (!jwk) throw new Error('the key is not known')
          return createPublicKey({ key: jwk as JsonWebKey, format: 'jwk' })
        },
      },
    } as unknown as OAuthProvider
    const token = tokens.idToken ?? ''
    const isGood = nonce !== undefined && (await verifyProviderIdToken(provider, token, nonce))
    if (!isGood) throw failed(this.#ctx, this.#config, 'the ID token is not valid')
    const claims = this.#readClaims(JSON.parse(atobUrl(token.split('.')[1] ?? '')))
    if (claims.email !== undefined || !document.userinfo_endpoint || !tokens.accessToken) {
      return claims
    }
    const more = await this.#ask('userinfo', Claims, {
      method: 'GET',
      url: new URL(document.userinfo_endpoint),
      headers: { authorization: `Bearer ${tokens.accessToken}` },
    })
    // another subject would be another person
    if (more.sub !== claims.sub) throw failed(this.#ctx, this.#config, 'userinfo: another subject')
    return { ...claims, ...more }
  }

  #readClaims(payload: unknown): Claims {
    const read = Claims.safeParse(payload)
    if (read.success) return read.data
    const field = read.error.issues[0]?.path.join('.')
    throw failed(this.#ctx, this.#config, `the ID token has no usable ${field}`)
  }
}

const atobUrl = (text: string): string => Buffer.from(text, 'base64url').toString('utf8')

/** The subject of another issuer is another person. */
const subjectOf = (issuer: string, sub: string): string => `${issuer}#${sub}`

export function createProvider(ctx: Context, config: OidcConfig): OAuthProvider<Claims> {
  const client = new ProviderClient(ctx, config)
  return {
    id: PROVIDER,
    name: config.name,
    issuer: config.issuer,
    requiresIdTokenNonce: true,
    disableSignUp: true, // admitProviderUser makes accounts
    accountSubject: ({ profile }) => subjectOf(config.issuer, profile.sub),
    async createAuthorizationURL({ state, codeVerifier, redirectURI, idTokenNonce }) {
      const { authorization_endpoint } = await keepFault(client.discover())
      return createAuthorizationURL({
        id: PROVIDER,
        options: { clientId: config.clientId },
        authorizationEndpoint: authorization_endpoint,
        state,
        codeVerifier,
        redirectURI,
        scopes: ['openid', 'email', 'profile'],
        ...(idTokenNonce === undefined ? {} : { nonce: idTokenNonce }),
      })
    },
    validateAuthorizationCode: ({ code, codeVerifier = '', redirectURI }) =>
      keepFault(client.exchange(code, codeVerifier, redirectURI)),
    async getUserInfo({ expectedIdTokenNonce, ...tokens }) {
      const claims = await keepFault(client.claims(tokens, expectedIdTokenNonce))
      const known = {
        subject: subjectOf(config.issuer, claims.sub),
        email: claims.email,
        isVerified: claims.email_verified === true,
        name: claims.name ?? claims.preferred_username,
      }
      const { email, name } = await keepFault(admitProviderUser(ctx, known, from()))
      return { user: { email, name, emailVerified: true }, data: claims }
    },
  }
}
