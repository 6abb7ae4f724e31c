// The interface of every forge: open pull requests, one of them, a commit status, one comment on a pull request, and a
// check of the token. Each forge's file knows paths and shapes; this one has shared types, calls with errors, and
// bounded paging. Tokens are sent only in a header.
import { checkRef, FORGE_API, type Sensitive } from '@berth/shared'
import { type Guard, OutboundRefusal } from '../addresses.ts'
import { type OutgoingRequest, RequestError, sendRequest } from '../requests.ts'

export const FORGE_PROVIDERS = [
  'github',
  'gitlab',
  'gitea',
  'forgejo',
  'bitbucket_cloud',
  'bitbucket_server',
] as const
export type ForgeProvider = (typeof FORGE_PROVIDERS)[number]

export interface ForgePullRequest {
  number: number
  title: string
  url: string
  author: string
  state: 'open' | 'merged' | 'closed'
  draft: boolean
  headBranch: string
  /** Null if the forge reports only a part of it. */
  headSha: string | null
  /** The ref of the head in the base repository; null if it is only a branch. */
  headRef: string | null
  baseBranch: string
  fromFork: boolean
  /** When it last changed, by the forge's clock. */
  updatedAt: number
  /** False if a branch has a name that must not reach git. The pull request is listed, but never used. */
  usable: boolean
}

interface PullRequestList {
  pullRequests: ForgePullRequest[]
  /** False if there are more than we read; a missing one then proves nothing. */
  complete: boolean
}

interface CommitStatus {
  sha: string
  state: 'pending' | 'running' | 'success' | 'failure' | 'stopped'
  /** Distinguishes it from other statuses of the commit. */
  context: string
  description: string
  url: string
}

interface ForgeComment {
  number: number
  /** A word that identifies our comment. */
  marker: string
  body: string
  /** The id that the forge gave it. */
  knownId: string | null
}

interface ForgeRepository {
  externalId: string
  fullName: string
}

export interface ForgeClient {
  readonly provider: ForgeProvider
  /** Throws ForgeError if the token does not open the repository. */
  findRepository(): Promise<ForgeRepository>
  listOpenPullRequests(): Promise<PullRequestList>
  findPullRequest(number: number): Promise<ForgePullRequest | undefined>
  setStatus(status: CommitStatus): Promise<void>
  /** Creates or edits the comment; returns the forge's id of it. */
  putComment(comment: ForgeComment): Promise<string>
}

type ForgeTrouble = 'token_rejected' | 'not_found' | 'refused' | 'unavailable' | 'not_allowed'

export class ForgeError extends Error {
  override readonly name = 'ForgeError'
  readonly trouble: ForgeTrouble
  readonly retryAfterMs: number | undefined
  constructor(trouble: ForgeTrouble, message: string, retryAfterMs?: number) {
    super(message)
    this.trouble = trouble
    this.retryAfterMs = retryAfterMs
  }
}

export interface ForgeAddress {
  /** Base address of the API, without a trailing slash. */
  base: string
  /** acme/shop; groups may be nested. */
  path: string
}

export interface ForgeAccess extends ForgeAddress {
  guard: Guard
  token: Sensitive<string>
  signal: AbortSignal
}

/** JSON of the forge; shapes are checked where they are used. */
export type Json = Record<string, unknown>

interface Answer {
  status: number
  json: unknown
  headers: Record<string, string | string[] | undefined>
}

const RETRY_MS = 60_000

export class ForgeApi {
  readonly #access: ForgeAccess
  readonly #headers: (token: string) => Record<string, string>

  constructor(access: ForgeAccess, headers: (token: string) => Record<string, string>) {
    this.#access = access
    this.#headers = headers
  }

  /** `path` starts with a slash; the caller has encoded every part that came from outside. */
  async call(method: OutgoingRequest['method'], path: string, body?: unknown): Promise<Answer> {
    const { base, guard, token, signal } = this.#access
    const url = new URL(base + path)
    const headers = this.#headers(token.reveal())
    const received = await sendRequest(guard, {
      method,
      url,
      headers,
      signal,
      ...(body === undefined ? {} : { body }),
    }).catch((error: unknown) => {
      if (error instanceof OutboundRefusal) throw new ForgeError('not_allowed', error.message)
      if (!(error instanceof RequestError)) throw error
      const trouble = error.trouble === 'not_allowed' ? 'not_allowed' : 'unavailable'
      throw new ForgeError(trouble, error.message)
    })
    const { status } = received
    if (status >= 200 && status < 300) {
      return { status, headers: received.headers, json: parse(received.text, url.host) }
    }
    throw refusalOf(status, received.headers, url.host, received.text)
  }

  /** Returns undefined if it does not exist. */
  async find(path: string): Promise<Json | undefined> {
    try {
      return asObject((await this.call('GET', path)).json)
    } catch (error) {
      if (error instanceof ForgeError && error.trouble === 'not_found') return undefined
      throw error
    }
  }

  /** Reads page by page until the last. `page` counts from 1 and returns the items and whether there is more. */
  async list(
    fetchPage: (page: number) => Promise<{ items: Json[]; more: boolean }>,
  ): Promise<{ items: Json[]; complete: boolean }> {
    const items: Json[] = []
    for (let page = 1; page <= FORGE_API.pages; page++) {
      const got = await fetchPage(page)
      items.push(...got.items)
      if (!got.more) return { items, complete: true }
    }
    return { items, complete: false }
  }
}

function parse(text: string, host: string): unknown {
  if (text === '') return {}
  try {
    return JSON.parse(text) as unknown
  } catch {
    throw new ForgeError('unavailable', `${host} answered with something that is not JSON.`)
  }
}

function refusalOf(
  status: number,
  headers: Answer['headers'],
  host: string,
  text: string,
): ForgeError {
  const after = Number(headers['retry-after'])
  const isLimited =
    status === 429 || (status === 403 && String(headers['x-ratelimit-remaining'] ?? '') === '0')
  if (isLimited) {
    const ms = Number.isFinite(after) && after > 0 ? after * 1_000 : RETRY_MS
    return new ForgeError('unavailable', `${host} asks for a pause (${status}).`, ms)
  }
  if (status === 401 || status === 403) {
    return new ForgeError('token_rejected', `${host} rejected the token (${status}).`)
  }
  if (status === 404 || status === 410) {
    return new ForgeError(
      'not_found',
      `${host} does not know it, or not with this token (${status}).`,
    )
  }
  if (status >= 500) return new ForgeError('unavailable', `${host} has trouble (${status}).`)
  // a short text of the forge helps; it is shown as data
  const word = text.slice(0, 200).replaceAll(/[^\x20-\x7e]+/g, ' ')
  return new ForgeError('refused', `${host} refused it (${status}): ${word}`)
}

export const asObject = (value: unknown): Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {}
export const asList = (value: unknown): Json[] => (Array.isArray(value) ? value.map(asObject) : [])
export const asText = (value: unknown): string => (typeof value === 'string' ? value : '')
export const asId = (value: unknown): string =>
  typeof value === 'number' || typeof value === 'string' ? String(value) : ''
export const asCount = (value: unknown): number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 0
export const asTime = (value: unknown): number => {
  const ms = typeof value === 'number' ? value : Date.parse(asText(value))
  return Number.isFinite(ms) ? ms : 0
}

/** Unknown counts as a fork: both ids must be present and equal. */
export const differs = (head: unknown, base: unknown): boolean =>
  asId(head) === '' || asId(head) !== asId(base)

/** The same as for deliveries, so that both store the same title. */
const INVISIBLE = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]+/gu
const shown = (text: string, most: number): string =>
  text.replaceAll(INVISIBLE, ' ').trim().slice(0, most)

/** Every pull request passes through here: bounds texts, checks branch names, validates links. */
export function checked(p: Omit<ForgePullRequest, 'usable'>): ForgePullRequest {
  const isLink = /^https?:\/\/[\x21-\x7e]+$/.test(p.url) && p.url.length <= FORGE_API.urlCharacters
  return {
    ...p,
    title: shown(p.title, FORGE_API.titleCharacters),
    author: shown(p.author, FORGE_API.nameCharacters),
    url: isLink ? p.url : '',
    usable: p.number > 0 && checkRef(p.headBranch).ok && checkRef(p.baseBranch).ok,
  }
}

const FULL_SHA = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/
export const fullSha = (value: unknown): string | null =>
  FULL_SHA.test(asText(value)) ? asText(value) : null

export const encodePath = (path: string): string =>
  path.split('/').map(encodeURIComponent).join('/')
