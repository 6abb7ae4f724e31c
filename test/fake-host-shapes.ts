// The APIs of the five kinds of repository host as far as the platform uses them, by their makers' documentation:
// paths, header of the token, shapes of answers, accepted bodies.
import type { IncomingMessage } from 'node:http'
import { type Called, type FakeHost, type FakePull, pageOf, type Reply } from './fake-host.ts'

export interface Shape {
  repoPath: string
  authorized(headers: IncomingMessage['headers'], token: string): boolean
  /** Undefined: the real host knows no such call. */
  answer(host: FakeHost, called: Called): Reply | undefined
}

const ok = (json: unknown, headers: Record<string, string> = {}): Reply => ({
  status: 200,
  json,
  headers,
})
const made = (json: unknown): Reply => ({ status: 201, json })
const bad = (message: string): Reply => ({ status: 422, json: { message } })
const MISSING: Reply = { status: 404, json: { message: 'Not Found' } }

const openPulls = (host: FakeHost): FakePull[] =>
  [...host.pulls.values()].filter((p) => p.state === 'open').sort((a, b) => a.number - b.number)
const text = (value: unknown): string => String(value ?? '')

function keepStatus(
  host: FakeHost,
  sha: string,
  body: Record<string, unknown>,
  names: {
    context: string
    url: string
    states: string[]
  },
): Reply {
  const state = text(body.state)
  if (!/^[0-9a-f]{40}$/.test(sha)) return bad('no such commit')
  if (!names.states.includes(state)) return bad(`unknown state ${state}`)
  if (text(body[names.context]) === '' || !URL.canParse(text(body[names.url])))
    return bad('incomplete')
  if (text(body.description).length > 140) return bad('description is too long')
  host.statuses.push({
    sha,
    state,
    context: text(body[names.context]),
    description: text(body.description),
    url: text(body[names.url]),
  })
  return made({ id: host.statuses.length, state })
}

function addComment(host: FakeHost, number: number, body: string): { id: number } {
  const id = 9_000 + host.comments.length
  host.comments.push({ id, number, text: body, version: 0 })
  return { id }
}

// ---- GitHub and Gitea -------------------------------------------------------------------------------------------

const githubPull = (host: FakeHost, p: FakePull): object => ({
  number: p.number,
  title: p.title,
  html_url: `${host.url}/acme/shop/pull/${p.number}`,
  user: { id: 5, login: 'ada' },
  state: p.state === 'open' ? 'open' : 'closed',
  merged: p.state === 'merged',
  merged_at: p.state === 'merged' ? new Date(p.updatedAt).toISOString() : null,
  draft: p.draft,
  head: {
    ref: p.headBranch,
    sha: p.headSha,
    repo_id: p.fromFork ? 2 : 1,
    repo: p.fromFork ? { id: 2, full_name: 'mallory/shop' } : { id: 1, full_name: 'acme/shop' },
  },
  base: { ref: p.baseBranch, repo_id: 1, repo: { id: 1, full_name: 'acme/shop' } },
  updated_at: new Date(p.updatedAt).toISOString(),
})

function answerLikeGitHub(prefix: string, sizeName: string, withLinks: boolean): Shape['answer'] {
  return (host, { method, path, query, body }) => {
    if (!path.startsWith(`${prefix}/repos/acme/shop`)) return undefined
    const rest = path.slice(`${prefix}/repos/acme/shop`.length)
    if (rest === '') return ok({ id: 1, full_name: 'acme/shop', permissions: { push: true } })
    const size = Number(query.get(sizeName) ?? 30)
    const page = Number(query.get('page') ?? 1)
    const list = <T>(items: T[]): Reply => {
      const more = items.length > page * size
      return ok(
        pageOf(items, page, size),
        withLinks && more ? { link: `<${host.url}>; rel="next"` } : {},
      )
    }
    if (rest === '/pulls' && method === 'GET' && query.get('state') === 'open') {
      return list(openPulls(host).map((p) => githubPull(host, p)))
    }
    const pull = /^\/pulls\/(\d+)$/.exec(rest)
    if (pull && method === 'GET') {
      const found = host.pulls.get(Number(pull[1]))
      return found ? ok(githubPull(host, found)) : MISSING
    }
    const status = /^\/statuses\/(\w+)$/.exec(rest)
    if (status && method === 'POST') {
      const states = ['error', 'failure', 'pending', 'success']
      return keepStatus(host, text(status[1]), body, {
        context: 'context',
        url: 'target_url',
        states,
      })
    }
    const comments = /^\/issues\/(\d+)\/comments$/.exec(rest)
    if (comments) {
      const number = Number(comments[1])
      if (method === 'POST') return made(addComment(host, number, text(body.body)))
      const own = host.comments.filter((c) => c.number === number)
      const shown = own.map((c) => ({ id: c.id, body: c.text }))
      return prefix === '/api/v1' ? ok(shown) : list(shown)
    }
    const comment = /^\/issues\/comments\/(\d+)$/.exec(rest)
    if (comment && method === 'PATCH') return edit(host, Number(comment[1]), text(body.body))
    return undefined
  }
}

function edit(host: FakeHost, id: number, body: string): Reply {
  const comment = host.comments.find((c) => c.id === id)
  if (!comment) return MISSING
  comment.text = body
  comment.version += 1
  return ok({ id })
}

// ---- GitLab -----------------------------------------------------------------------------------------------------

const gitlabPull = (host: FakeHost, p: FakePull): object => ({
  id: 70_000 + p.number,
  iid: p.number,
  title: p.title,
  web_url: `${host.url}/acme/shop/-/merge_requests/${p.number}`,
  author: { id: 5, username: 'ada' },
  state: p.state === 'open' ? 'opened' : p.state,
  draft: p.draft,
  source_branch: p.headBranch,
  target_branch: p.baseBranch,
  sha: p.headSha,
  source_project_id: p.fromFork ? 2 : 1,
  target_project_id: 1,
  updated_at: new Date(p.updatedAt).toISOString(),
})

const answerGitLab: Shape['answer'] = (host, { method, path, query, body }) => {
  const prefix = '/api/v4/projects/acme%2Fshop'
  if (!path.startsWith(prefix)) return undefined
  const rest = path.slice(prefix.length)
  if (rest === '') return ok({ id: 1, path_with_namespace: 'acme/shop' })
  const list = <T>(items: T[]): Reply => {
    const [size, page] = [Number(query.get('per_page') ?? 20), Number(query.get('page') ?? 1)]
    const next = items.length > page * size ? String(page + 1) : ''
    return ok(pageOf(items, page, size), { 'x-next-page': next })
  }
  if (rest === '/merge_requests' && method === 'GET' && query.get('state') === 'opened') {
    return list(openPulls(host).map((p) => gitlabPull(host, p)))
  }
  const pull = /^\/merge_requests\/(\d+)$/.exec(rest)
  if (pull && method === 'GET') {
    const found = host.pulls.get(Number(pull[1]))
    return found ? ok(gitlabPull(host, found)) : MISSING
  }
  const status = /^\/statuses\/(\w+)$/.exec(rest)
  if (status && method === 'POST') {
    const last = host.statuses.filter((s) => s.sha === status[1]).at(-1)
    if (last?.state === text(body.state)) {
      const event = last.state === 'pending' ? 'enqueue' : 'run'
      const message = `Cannot transition status via :${event} from :${last.state} (Reason(s): Status cannot transition via "${event}")`
      return { status: 400, json: { message } }
    }
    const states = ['pending', 'running', 'success', 'failed', 'canceled', 'skipped']
    return keepStatus(host, text(status[1]), body, { context: 'name', url: 'target_url', states })
  }
  const notes = /^\/merge_requests\/(\d+)\/notes$/.exec(rest)
  if (notes) {
    const number = Number(notes[1])
    if (method === 'POST') return made(addComment(host, number, text(body.body)))
    const own = host.comments.filter((c) => c.number === number)
    return list(own.map((c) => ({ id: c.id, body: c.text })))
  }
  const note = /^\/merge_requests\/\d+\/notes\/(\d+)$/.exec(rest)
  if (note && method === 'PUT') return edit(host, Number(note[1]), text(body.body))
  return undefined
}

// ---- Bitbucket --------------------------------------------------------------------------------------------------

const cloudPull = (host: FakeHost, p: FakePull): object => ({
  id: p.number,
  title: p.title,
  links: { html: { href: `${host.url}/acme/shop/pull-requests/${p.number}` } },
  author: { nickname: 'ada' },
  state: { open: 'OPEN', merged: 'MERGED', closed: 'DECLINED' }[p.state],
  draft: p.draft,
  source: {
    branch: { name: p.headBranch },
    commit: { hash: p.headSha.slice(0, 12) },
    repository: p.fromFork ? null : { uuid: '{1}' },
  },
  destination: { branch: { name: p.baseBranch }, repository: { uuid: '{1}' } },
  updated_on: new Date(p.updatedAt).toISOString(),
})

const answerCloud: Shape['answer'] = (host, { method, path, query, body }) => {
  const prefix = '/2.0/repositories/acme/shop'
  if (!path.startsWith(prefix)) return undefined
  const rest = path.slice(prefix.length)
  if (rest === '') return ok({ uuid: '{1}', full_name: 'acme/shop' })
  const list = <T>(items: T[]): Reply => {
    const [size, page] = [Number(query.get('pagelen') ?? 10), Number(query.get('page') ?? 1)]
    const more = items.length > page * size ? { next: 'http://169.254.169.254/' } : {}
    return ok({ values: pageOf(items, page, size), ...more })
  }
  if (rest === '/pullrequests' && method === 'GET' && query.get('state') === 'OPEN') {
    return Number(query.get('pagelen')) > 50
      ? bad('pagelen')
      : list(openPulls(host).map((p) => cloudPull(host, p)))
  }
  const pull = /^\/pullrequests\/(\d+)$/.exec(rest)
  if (pull && method === 'GET') {
    const found = host.pulls.get(Number(pull[1]))
    return found ? ok(cloudPull(host, found)) : MISSING
  }
  const status = /^\/commit\/(\w+)\/statuses\/build$/.exec(rest)
  if (status && method === 'POST') {
    const states = ['INPROGRESS', 'SUCCESSFUL', 'FAILED', 'STOPPED']
    if (text(body.key).length > 40) return bad('key is too long')
    return keepStatus(host, text(status[1]), body, { context: 'key', url: 'url', states })
  }
  const comments = /^\/pullrequests\/(\d+)\/comments$/.exec(rest)
  if (comments) {
    const number = Number(comments[1])
    const raw = text((body.content as { raw?: unknown } | undefined)?.raw)
    if (method === 'POST') return raw ? made(addComment(host, number, raw)) : bad('content')
    const own = host.comments.filter((c) => c.number === number)
    return list(own.map((c) => ({ id: c.id, content: { raw: c.text }, deleted: false })))
  }
  const comment = /^\/pullrequests\/\d+\/comments\/(\d+)$/.exec(rest)
  const raw = text((body.content as { raw?: unknown } | undefined)?.raw)
  if (comment && method === 'PUT' && raw) return edit(host, Number(comment[1]), raw)
  return undefined
}

const serverPull = (host: FakeHost, p: FakePull): object => ({
  id: p.number,
  version: 0,
  title: p.title,
  links: { self: [{ href: `${host.url}/projects/ACME/repos/shop/pull-requests/${p.number}` }] },
  author: { user: { name: 'ada' } },
  state: { open: 'OPEN', merged: 'MERGED', closed: 'DECLINED' }[p.state],
  draft: p.draft,
  fromRef: {
    displayId: p.headBranch,
    latestCommit: p.headSha,
    repository: { id: p.fromFork ? 2 : 1 },
  },
  toRef: { displayId: p.baseBranch, repository: { id: 1 } },
  updatedDate: p.updatedAt,
})

const answerServer: Shape['answer'] = (host, { method, path, query, body }) => {
  const prefix = '/rest/api/1.0/projects/acme/repos/shop'
  if (!path.startsWith(prefix)) return undefined
  const rest = path.slice(prefix.length)
  if (rest === '') return ok({ id: 1, slug: 'shop', project: { key: 'ACME' } })
  const list = <T>(items: T[]): Reply => {
    const [limit, start] = [Number(query.get('limit') ?? 25), Number(query.get('start') ?? 0)]
    const isLastPage = items.length <= start + limit
    const next = isLastPage ? null : start + limit
    return ok({ values: items.slice(start, start + limit), isLastPage, nextPageStart: next })
  }
  if (rest === '/pull-requests' && method === 'GET' && query.get('state') === 'OPEN') {
    return list(openPulls(host).map((p) => serverPull(host, p)))
  }
  const pull = /^\/pull-requests\/(\d+)$/.exec(rest)
  if (pull && method === 'GET') {
    const found = host.pulls.get(Number(pull[1]))
    return found ? ok(serverPull(host, found)) : MISSING
  }
  const status = /^\/commits\/(\w+)\/builds$/.exec(rest)
  if (status && method === 'POST') {
    const states = ['INPROGRESS', 'SUCCESSFUL', 'FAILED', 'CANCELLED', 'UNKNOWN']
    return keepStatus(host, text(status[1]), body, { context: 'key', url: 'url', states })
  }
  const activities = /^\/pull-requests\/(\d+)\/activities$/.exec(rest)
  if (activities && method === 'GET') {
    const own = host.comments.filter((c) => c.number === Number(activities[1]))
    const shown = own.map((c) => ({ action: 'COMMENTED', comment: { id: c.id, text: c.text } }))
    return list([{ action: 'OPENED' }, ...shown])
  }
  const comments = /^\/pull-requests\/(\d+)\/comments$/.exec(rest)
  if (comments && method === 'POST') {
    return made({ ...addComment(host, Number(comments[1]), text(body.text)), version: 0 })
  }
  const one = /^\/pull-requests\/\d+\/comments\/(\d+)$/.exec(rest)
  if (!one) return undefined
  const comment = host.comments.find((c) => c.id === Number(one[1]))
  if (!comment) return MISSING
  if (method === 'GET') return ok({ id: comment.id, version: comment.version, text: comment.text })
  if (method !== 'PUT') return undefined
  if (body.version !== comment.version) return { status: 409, json: { message: 'version' } }
  return edit(host, comment.id, text(body.text))
}

const bearer = (headers: IncomingMessage['headers'], token: string): boolean =>
  headers.authorization === `Bearer ${token}`

export const SHAPES = {
  github: {
    repoPath: '/acme/shop.git',
    authorized: (h, token) =>
      bearer(h, token) &&
      h['user-agent'] !== undefined &&
      h['x-github-api-version'] === '2022-11-28',
    answer: answerLikeGitHub('/api/v3', 'per_page', false),
  },
  gitlab: {
    repoPath: '/acme/shop.git',
    authorized: (h, token) => h['private-token'] === token,
    answer: answerGitLab,
  },
  gitea: {
    repoPath: '/acme/shop.git',
    authorized: (h, token) => h.authorization === `token ${token}`,
    answer: answerLikeGitHub('/api/v1', 'limit', true),
  },
  bitbucket_cloud: { repoPath: '/acme/shop.git', authorized: bearer, answer: answerCloud },
  bitbucket_server: { repoPath: '/scm/acme/shop.git', authorized: bearer, answer: answerServer },
} satisfies Record<string, Shape>
