// The interface of every forge: open pull requests, one of them, a commit status, one comment on a pull request, a check
// of the token, and the repository's deploy keys and webhooks (setup.ts). Each forge's file knows paths and shapes; this
// one has shared types, calls with errors, and bounded paging. Tokens are sent only in a header.
import { checkRef, checkRepositoryUrl, FORGE_API, type Sensitive } from '@berth/shared'
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

export interface ForgeRepository {
  externalId: string
  fullName: string
  /** It has no commit, so a forge that tests with the newest one has nothing to send. */
  isEmpty: boolean
}

/** A deploy key of a repository, as the forge lists it. */
interface ForgeKey {
  id: string
  /** The OpenSSH line; forges keep or drop its comment. */
  line: string
  readOnly: boolean
}

/** A webhook of a repository, as the forge lists it. */
export interface ForgeWebhook {
  id: string
  url: string
  active: boolean
  /** Whether it sends pushes and pull requests. */
  sendsEvents: boolean
  /** What the forge says about its last deliveries; null if they arrived, or if it says nothing. */
  failure: string | null
}

/** What a repository needs so that Berth can read it and hear about it. */
export interface RepositorySetup {
  /** The text of a small file of a branch; undefined if the branch has no such file. */
  readFile(path: string, branch: string): Promise<string | undefined>
  listKeys(): Promise<ForgeKey[]>
  /** Adds a key that may only read. */
  addKey(key: { title: string; line: string }): Promise<string>
  /** Removing one that is gone already is no error. */
  removeKey(id: string): Promise<void>
  listWebhooks(): Promise<ForgeWebhook[]>
  /** Creates it, or changes or replaces the one with this id; returns the id that it has now. */
  putWebhook(hook: { id: string | null; url: string; secret: string }): Promise<string>
  removeWebhook(id: string): Promise<void>
  /** Asks the forge to send one delivery now; false if this forge cannot. */
  testWebhook(id: string): Promise<boolean>
}

/** A repository in a list. */
export interface ListedRepository {
  fullName: string
  description: string
  isPrivate: boolean | null
  isArchived: boolean
  defaultBranch: string | null
  webUrl: string
  sshUrl: string
  httpsUrl: string
  /** Whether the token's account may add keys and webhooks; null if the forge does not say. */
  canAdmin: boolean | null
  updatedAt: number | null
}

interface RepositoryPage {
  repositories: ListedRepository[]
  /** Where the next page starts, in the forge's own terms; null after the last. */
  next: string | null
}

/** What a token opens, without a repository. */
export interface ForgeAccount {
  readonly provider: ForgeProvider
  /** The name of the token's account; empty if the token belongs to no account. */
  findAccount(): Promise<{ name: string; provider: ForgeProvider }>
  listRepositories(asked: {
    search: string
    size: number
    from: string | null
  }): Promise<RepositoryPage>
}

export interface ForgeClient extends RepositorySetup {
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

interface RefusalDetails {
  retryAfterMs?: number
  /** The status of the forge's answer; 0 if there was none. */
  status?: number
  /** The permission that the forge itself names. */
  wanted?: string
}

export class ForgeError extends Error {
  override readonly name = 'ForgeError'
  readonly trouble: ForgeTrouble
  readonly retryAfterMs: number | undefined
  readonly status: number
  readonly wanted: string | undefined
  constructor(trouble: ForgeTrouble, message: string, details: RefusalDetails = {}) {
    super(message)
    this.trouble = trouble
    this.retryAfterMs = details.retryAfterMs
    this.status = details.status ?? 0
    this.wanted = details.wanted
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
    const { text, host, ...received } = await this.#send(method, path, body)
    return { ...received, json: parse(text, host) }
  }

  /** Returns undefined if it does not exist. */
  async findText(path: string): Promise<string | undefined> {
    try {
      return (await this.#send('GET', path)).text
    } catch (error) {
      if (error instanceof ForgeError && error.trouble === 'not_found') return undefined
      throw error
    }
  }

  async #send(
    method: OutgoingRequest['method'],
    path: string,
    body?: unknown,
  ): Promise<Omit<Answer, 'json'> & { text: string; host: string }> {
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
      return { status, headers: received.headers, text: received.text, host: url.host }
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

  /** For removals: one that is gone already is as wanted. */
  async remove(path: string): Promise<void> {
    try {
      await this.call('DELETE', path)
    } catch (error) {
      if (!(error instanceof ForgeError && error.trouble === 'not_found')) throw error
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
    const retryAfterMs = Number.isFinite(after) && after > 0 ? after * 1_000 : RETRY_MS
    const message = `${host} asks for a pause (${status}).`
    return new ForgeError('unavailable', message, { retryAfterMs, status })
  }
  if (status === 401 || status === 403) {
    const named = headers['x-accepted-github-permissions'] ?? headers['x-accepted-oauth-scopes']
    const wanted = String(named ?? '')
      .replaceAll(/[^\w:;,= -]+/g, '')
      .slice(0, 200)
    const message = `${host} rejected the token (${status}).`
    return new ForgeError('token_rejected', message, { status, ...(wanted ? { wanted } : {}) })
  }
  if (status === 404 || status === 410) {
    const message = `${host} does not know it, or not with this token (${status}).`
    return new ForgeError('not_found', message, { status })
  }
  if (status >= 500) {
    return new ForgeError('unavailable', `${host} has trouble (${status}).`, { status })
  }
  // a short text of the forge helps; it is shown as data
  const word = text.slice(0, 200).replaceAll(/[^\x20-\x7e]+/g, ' ')
  return new ForgeError('refused', `${host} refused it (${status}): ${word}`, { status })
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

/** GitHub, Gitea and GitLab send the bytes of a file as base64. */
export const decodeFile = (json: Json | undefined): string | undefined =>
  json && json.encoding === 'base64'
    ? Buffer.from(asText(json.content), 'base64').toString('utf8')
    : undefined

/** Unknown counts as a fork: both ids must be present and equal. */
export const differs = (head: unknown, base: unknown): boolean =>
  asId(head) === '' || asId(head) !== asId(base)

/** The same as for deliveries, so that both store the same title. */
const INVISIBLE = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]+/gu
const shown = (text: string, most: number): string =>
  text.replaceAll(INVISIBLE, ' ').trim().slice(0, most)

const linkOf = (url: string): string =>
  /^https?:\/\/[\x21-\x7e]+$/.test(url) && url.length <= FORGE_API.urlCharacters ? url : ''

/** Every pull request passes through here: bounds texts, checks branch names, validates links. */
export function checked(p: Omit<ForgePullRequest, 'usable'>): ForgePullRequest {
  return {
    ...p,
    title: shown(p.title, FORGE_API.titleCharacters),
    author: shown(p.author, FORGE_API.nameCharacters),
    url: linkOf(p.url),
    usable: p.number > 0 && checkRef(p.headBranch).ok && checkRef(p.baseBranch).ok,
  }
}

const ANYWHERE = { allowFile: false, allowLoopbackHttp: true }

/** The same for a listed repository: an address that a project could not have is left out. */
export function checkedRepository(r: ListedRepository): ListedRepository {
  const clonable = (url: string): string => (checkRepositoryUrl(url, ANYWHERE).ok ? url : '')
  const branch = r.defaultBranch ?? ''
  return {
    ...r,
    fullName: shown(r.fullName, FORGE_API.nameCharacters),
    description: shown(r.description, FORGE_API.titleCharacters),
    defaultBranch: checkRef(branch).ok ? branch : null,
    webUrl: linkOf(r.webUrl),
    sshUrl: clonable(r.sshUrl),
    httpsUrl: clonable(r.httpsUrl),
  }
}

const FULL_SHA = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/
export const fullSha = (value: unknown): string | null =>
  FULL_SHA.test(asText(value)) ? asText(value) : null

export const encodePath = (path: string): string =>
  path.split('/').map(encodeURIComponent).join('/')
