// What the platform wants of a repository host, whoever makes it: the open pull requests, one of them, a status on a
// commit, one comment on a pull request, and whether a token works. Each host's file knows paths and shapes; this one
// the words they share, one call with its errors, and paging with a bound. Tokens go into a header and nowhere else.
import { checkRef, HOST_API, type Sensitive } from '@berth/shared'
import { type Guard, OutboundRefusal } from '../addresses.ts'
import { type OutgoingRequest, RequestError, sendRequest } from '../requests.ts'

export const HOST_PROVIDERS = [
  'github',
  'gitlab',
  'gitea',
  'forgejo',
  'bitbucket_cloud',
  'bitbucket_server',
] as const
export type HostProvider = (typeof HOST_PROVIDERS)[number]

export interface HostPullRequest {
  number: number
  title: string
  url: string
  author: string
  state: 'open' | 'merged' | 'closed'
  draft: boolean
  headBranch: string
  /** Null: the host tells only a part of it. */
  headSha: string | null
  /** Where the head stands in the base repository; null: only as its branch. */
  headRef: string | null
  baseBranch: string
  fromFork: boolean
  /** The host's time of its last change. */
  updatedAt: number
  /** False: a branch of it has a name that must not reach git. It is there, and nothing is done with it. */
  usable: boolean
}

export interface PullRequestList {
  pullRequests: HostPullRequest[]
  /** False: there are more than we look at, so that nothing follows from one that is missing. */
  complete: boolean
}

export interface CommitStatus {
  sha: string
  state: 'pending' | 'running' | 'success' | 'failure' | 'stopped'
  /** Told apart from other statuses of the commit by it. */
  context: string
  description: string
  url: string
}

export interface HostComment {
  number: number
  /** One word that finds the comment again. */
  marker: string
  body: string
  /** What the host called it when it was made. */
  knownId: string | null
}

export interface HostRepository {
  externalId: string
  fullName: string
}

export interface HostClient {
  readonly provider: HostProvider
  /** Throws HostError when the token does not open the repository. */
  findRepository(): Promise<HostRepository>
  listOpenPullRequests(): Promise<PullRequestList>
  findPullRequest(number: number): Promise<HostPullRequest | undefined>
  setStatus(status: CommitStatus): Promise<void>
  /** Made, or edited in place; gives the host's name of it. */
  putComment(comment: HostComment): Promise<string>
}

export type HostTrouble = 'token_rejected' | 'not_found' | 'refused' | 'unavailable' | 'not_allowed'

export class HostError extends Error {
  override readonly name = 'HostError'
  readonly trouble: HostTrouble
  readonly retryAfterMs: number | undefined
  constructor(trouble: HostTrouble, message: string, retryAfterMs?: number) {
    super(message)
    this.trouble = trouble
    this.retryAfterMs = retryAfterMs
  }
}

export interface HostAddress {
  /** Of the API, without a trailing slash. */
  base: string
  /** acme/shop; groups may be nested. */
  path: string
}

export interface HostAccess extends HostAddress {
  guard: Guard
  token: Sensitive<string>
  signal: AbortSignal
}

/** JSON of the host; shapes are looked at where they are used. */
export type Json = Record<string, unknown>

export interface Answer {
  status: number
  json: unknown
  headers: Record<string, string | string[] | undefined>
}

const RETRY_MS = 60_000

export class HostApi {
  readonly #access: HostAccess
  readonly #headers: (token: string) => Record<string, string>

  constructor(access: HostAccess, headers: (token: string) => Record<string, string>) {
    this.#access = access
    this.#headers = headers
  }

  /** `path` starts with a slash; every part of it that came from outside was encoded by the caller. */
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
      if (error instanceof OutboundRefusal) throw new HostError('not_allowed', error.message)
      if (!(error instanceof RequestError)) throw error
      const trouble = error.trouble === 'not_allowed' ? 'not_allowed' : 'unavailable'
      throw new HostError(trouble, error.message)
    })
    const { status } = received
    if (status >= 200 && status < 300) {
      return { status, headers: received.headers, json: parse(received.text, url.host) }
    }
    throw refusalOf(status, received.headers, url.host, received.text)
  }

  /** Undefined instead of an error when there is no such thing. */
  async find(path: string): Promise<Json | undefined> {
    try {
      return asObject((await this.call('GET', path)).json)
    } catch (error) {
      if (error instanceof HostError && error.trouble === 'not_found') return undefined
      throw error
    }
  }

  /** Page by page, until one is the last. `page` counts from 1 and gives the items and whether there is more. */
  async list(
    fetchPage: (page: number) => Promise<{ items: Json[]; more: boolean }>,
  ): Promise<{ items: Json[]; complete: boolean }> {
    const items: Json[] = []
    for (let page = 1; page <= HOST_API.pages; page++) {
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
    throw new HostError('unavailable', `${host} answered with something that is not JSON.`)
  }
}

function refusalOf(
  status: number,
  headers: Answer['headers'],
  host: string,
  text: string,
): HostError {
  const after = Number(headers['retry-after'])
  const isLimited =
    status === 429 || (status === 403 && String(headers['x-ratelimit-remaining'] ?? '') === '0')
  if (isLimited) {
    const ms = Number.isFinite(after) && after > 0 ? after * 1_000 : RETRY_MS
    return new HostError('unavailable', `${host} asks for a pause (${status}).`, ms)
  }
  if (status === 401 || status === 403) {
    return new HostError('token_rejected', `${host} rejected the token (${status}).`)
  }
  if (status === 404 || status === 410) {
    return new HostError(
      'not_found',
      `${host} does not know it, or not with this token (${status}).`,
    )
  }
  if (status >= 500) return new HostError('unavailable', `${host} has trouble (${status}).`)
  // a short word of the host helps; it is data and is shown as such
  const word = text.slice(0, 200).replaceAll(/[^\x20-\x7e]+/g, ' ')
  return new HostError('refused', `${host} refused it (${status}): ${word}`)
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

/** Unknown = fork: both ids must be there and equal. */
export const differs = (head: unknown, base: unknown): boolean =>
  asId(head) === '' || asId(head) !== asId(base)

/** As deliveries are read, so that one and the same title is not two. */
const INVISIBLE = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]+/gu
const shown = (text: string, most: number): string =>
  text.replaceAll(INVISIBLE, ' ').trim().slice(0, most)

/** Every pull request passes here: texts are bounded, names of branches checked, links are links. */
export function checked(p: Omit<HostPullRequest, 'usable'>): HostPullRequest {
  const isLink = /^https?:\/\/[\x21-\x7e]+$/.test(p.url) && p.url.length <= HOST_API.urlCharacters
  return {
    ...p,
    title: shown(p.title, HOST_API.titleCharacters),
    author: shown(p.author, HOST_API.nameCharacters),
    url: isLink ? p.url : '',
    usable: p.number > 0 && checkRef(p.headBranch).ok && checkRef(p.baseBranch).ok,
  }
}

const FULL_SHA = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/
export const fullSha = (value: unknown): string | null =>
  FULL_SHA.test(asText(value)) ? asText(value) : null

export const encodePath = (path: string): string =>
  path.split('/').map(encodeURIComponent).join('/')
