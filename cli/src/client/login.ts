// Which installation a command talks to, and with which token. A token is sent only to the base URL it was given for:
// BERTH_TOKEN needs BERTH_URL, a stored token belongs to its entry.
import { readFile, stat } from 'node:fs/promises'
import { CLIENT } from '../limits/client.ts'
import { CliError, EXIT, usage } from '../terminal/exit.ts'
import type { Io } from '../terminal/io.ts'
import type { Api } from './api.ts'
import {
  type Credentials,
  credentialsPath,
  normalizeBaseUrl,
  readCredentials,
} from './credentials.ts'
import type { ClientName, Connection } from './http.ts'
import { readLink } from './repository.ts'

export interface SessionFlags {
  url: string | undefined
  org: string | undefined
  cacert: string | undefined
  verbose: boolean
}

const LOGIN_HINT = 'berth login --url https://deploy.example.com'

/** The named address, else that of the current context: the one chosen or logged in to last. */
export function chooseBaseUrl(
  flags: Pick<SessionFlags, 'url'>,
  env: Io['env'],
  stored: Credentials,
): string | undefined {
  const named = flags.url || env.BERTH_URL
  if (named) return normalizeBaseUrl(named)
  const [latest] = Object.entries(stored).sort(([, a], [, b]) => (a.used_at < b.used_at ? 1 : -1))
  return latest?.[0]
}

/**
 * The same, with the address of the folder's link before the current one. It came with the checkout, so it counts only
 * where the user has logged in already: it chooses among known addresses and never adds one.
 */
export async function findBaseUrl(
  flags: Pick<SessionFlags, 'url'>,
  io: Pick<Io, 'env' | 'cwd'>,
  stored: Credentials,
): Promise<string | undefined> {
  const isNamed = Boolean(flags.url || io.env.BERTH_URL)
  const linked = isNamed ? undefined : (await readLink(io.cwd))?.url
  return chooseBaseUrl({ url: linked ?? flags.url }, io.env, stored)
}

/** Tokens travel in a header, so other characters in them are a mistake; the value is not quoted. */
export function checkToken(text: string, source: string): string {
  const token = text.trim()
  if (!/^[\x21-\x7e]+$/.test(token) || token.length > CLIENT.tokenBytes) {
    throw usage(`${source} does not hold a token`)
  }
  return token
}

async function readTokenFile(path: string): Promise<string> {
  try {
    const { size } = await stat(path)
    if (size > CLIENT.tokenBytes * 2) throw usage(`BERTH_TOKEN_FILE (${path}) is no token file`)
    return checkToken(await readFile(path, 'utf8'), `BERTH_TOKEN_FILE (${path})`)
  } catch (error) {
    if (error instanceof CliError) throw error
    const { code } = error as NodeJS.ErrnoException
    throw new CliError(EXIT.notLoggedIn, `BERTH_TOKEN_FILE (${path}) cannot be read (${code})`)
  }
}

export interface Identity {
  baseUrl: string
  token: string
  /** Where it is stored, so that a new one can replace it; null: it was given. */
  stored: string | null
  /** Chosen by `berth orgs use`. */
  organizationId?: number
  /** The user is logged in elsewhere too, so a command says what it changed. */
  isOneOfSeveral?: boolean
}

export async function findIdentity(flags: SessionFlags, io: Io): Promise<Identity> {
  const given = await givenToken(io)
  if (given !== undefined) {
    const named = flags.url || io.env.BERTH_URL
    if (!named) {
      throw usage(
        'BERTH_TOKEN is set, but not the server it is for',
        'set BERTH_URL, or give --url',
      )
    }
    return { baseUrl: normalizeBaseUrl(named), token: given, stored: null }
  }
  const path = credentialsPath(io.env)
  const stored = await readCredentials(path)
  const baseUrl = await findBaseUrl(flags, io, stored)
  if (baseUrl === undefined) throw new CliError(EXIT.notLoggedIn, 'not logged in', LOGIN_HINT)
  const entry = stored[baseUrl]
  if (!entry) {
    const known = Object.keys(stored)
    const others = known.length > 0 ? ` (logged in to: ${known.join(', ')})` : ''
    const hint = `berth login --url ${baseUrl}`
    throw new CliError(EXIT.notLoggedIn, `not logged in to ${baseUrl}${others}`, hint)
  }
  const refreshable = entry.refresh_token !== null
  return {
    baseUrl,
    token: entry.access_token,
    stored: refreshable ? path : null,
    ...(entry.organization_id ? { organizationId: entry.organization_id } : {}),
    isOneOfSeveral: Object.keys(stored).length > 1,
  }
}

async function givenToken(io: Io): Promise<string | undefined> {
  if (io.env.BERTH_TOKEN) return checkToken(io.env.BERTH_TOKEN, 'BERTH_TOKEN')
  if (io.env.BERTH_TOKEN_FILE) return readTokenFile(io.env.BERTH_TOKEN_FILE)
  return undefined
}

/** Adds a private authority to those that Node trusts. Verification cannot be switched off. */
export async function trustAuthority(flags: SessionFlags, env: Io['env']): Promise<void> {
  const path = flags.cacert || env.BERTH_CACERT
  if (!path) return
  try {
    const pem = await readFile(path, 'utf8')
    if (!pem.includes('-----BEGIN CERTIFICATE-----')) throw new Error('no certificate inside')
    await addAuthority(pem, env)
  } catch (error) {
    throw usage(`--cacert ${path} is not a readable PEM file (${(error as Error).message})`)
  }
}

async function addAuthority(pem: string, env: Io['env']): Promise<void> {
  const tls = await import('node:tls')
  if (typeof tls.setDefaultCACertificates === 'function') {
    return tls.setDefaultCACertificates([...tls.getCACertificates('default'), pem])
  }
  // before Node 22.19 our own list replaces Node's, so the authorities that Node would add are added here
  const https = await import('node:https')
  const more = env.NODE_EXTRA_CA_CERTS ? [await readFile(env.NODE_EXTRA_CA_CERTS, 'utf8')] : []
  https.globalAgent.options.ca = [...tls.rootCertificates, ...more, pem]
}

/** `onChange`: called once, before the first request that changes something, where several servers are known. */
export async function connect(
  flags: SessionFlags,
  io: Io,
  onChange?: (baseUrl: string) => Promise<void>,
): Promise<Api> {
  await trustAuthority(flags, io.env)
  const identity = await findIdentity(flags, io)
  const api = await connectAs(identity, flags, io)
  return identity.isOneOfSeveral && onChange ? announce(api, onChange) : api
}

function announce(api: Api, onChange: (baseUrl: string) => Promise<void>): Api {
  let said: Promise<void> | undefined
  const say = (): Promise<void> => {
    said ??= onChange(api.baseUrl)
    return said
  }
  return {
    ...api,
    async ask(method, path, options) {
      if (method !== 'GET') await say()
      return api.ask(method, path, options)
    },
    async post(path, schema, options) {
      await say()
      return api.post(path, schema, options)
    },
    async change(method, path, schema, options) {
      await say()
      return api.change(method, path, schema, options)
    },
  }
}

/** For callers that connect often; trustAuthority adds the authority once. */
export async function connectAs(
  identity: Identity,
  flags: SessionFlags,
  io: Io,
  client: ClientName = 'cli',
): Promise<Api> {
  // loads every schema, so only for commands that need it
  const { createApi } = await import('./api.ts')
  const debug = flags.verbose || io.env.BERTH_DEBUG === 'api'
  const organization = flags.org || io.env.BERTH_ORG
  const { baseUrl, token, stored, organizationId: chosen = null } = identity
  const connection: Connection = {
    baseUrl,
    token,
    io,
    debug,
    client,
    organizationId: organization ? null : chosen,
  }
  if (stored !== null) {
    connection.renew = async (expired) => {
      const { renewToken } = await import('./oauth.ts')
      return renewToken(connection, stored, expired)
    }
  }
  if (!organization) return createApi(connection)
  const organizationId = /^[1-9]\d{0,9}$/.test(organization)
    ? Number(organization)
    : await findOrganization(createApi(connection), organization)
  return createApi({ ...connection, organizationId })
}

async function findOrganization(api: Api, word: string): Promise<number> {
  const { Me } = await import('@berth/shared/api')
  const { value: me } = await api.get('/api/me', Me)
  const found = me.organizations.find((o) => o.slug === word || o.name === word)
  if (found) return found.id
  const known = me.organizations.slice(0, CLIENT.candidates).map((o) => o.slug)
  throw new CliError(
    EXIT.notFound,
    `no organization '${word}'`,
    known.length > 0 ? `yours: ${known.join(', ')}` : undefined,
  )
}
