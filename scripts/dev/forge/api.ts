// The part of Gitea's API that Berth uses, so that the forge of `npm start` is connected like any other.
import { deliver, payloadOf, pullJson, repositoryJson } from './deliveries.ts'
import type { Hook, Repository, State } from './state.ts'

export interface Called {
  method: string
  /** Below /api/v1. */
  path: string
  query: URLSearchParams
  body: Record<string, unknown>
}

export interface Reply {
  status: number
  json?: unknown
}

type Route = (called: Called, repository: Repository, words: string[]) => Reply | Promise<Reply>

const ok = (json: unknown): Reply => ({ status: 200, json })
const made = (json: unknown): Reply => ({ status: 201, json })
const GONE: Reply = { status: 204 }
const NOT_FOUND: Reply = { status: 404, json: { message: 'Not Found' } }
const PAGE = 50

function page<T>(items: T[], query: URLSearchParams): T[] {
  const size = Math.min(Number(query.get('limit')) || PAGE, PAGE)
  const from = (Math.max(Number(query.get('page')) || 1, 1) - 1) * size
  return items.slice(from, from + size)
}

const hookJson = ({ id, url, active, events }: Hook) => ({
  id,
  type: 'gitea',
  active,
  events,
  config: { url, content_type: 'json' },
})

/** Takes the fields that a request has, as Gitea does: a hook's secret stays if none is sent. */
function writeHook(hook: Hook, body: Called['body']): Hook {
  const config = (body.config ?? {}) as { url?: string; secret?: string }
  if (config.url !== undefined) hook.url = config.url
  if (config.secret !== undefined) hook.secret = config.secret
  if (typeof body.active === 'boolean') hook.active = body.active
  if (Array.isArray(body.events)) hook.events = body.events.map(String)
  return hook
}

export function makeApi(
  state: State,
  url: string,
  /** The newest commit of the default branch. */
  findHead: (repository: Repository) => Promise<{ branch: string; sha: string } | undefined>,
): (called: Called) => Promise<Reply> {
  /** A list with `GET`, `POST`, and `GET`, `PATCH` and `DELETE` of one. */
  const hooks: Route = async ({ method, query, body }, repository, [id, verb]) => {
    const found = repository.hooks.find((one) => String(one.id) === id)
    if (id === undefined) {
      if (method === 'GET') return ok(page(repository.hooks, query).map(hookJson))
      const blank = { id: state.nextId(), url: '', secret: '', active: true, events: [] }
      const hook = writeHook(blank, body)
      repository.hooks.push(hook)
      return made(hookJson(hook))
    }
    if (!found) return NOT_FOUND
    if (verb === 'tests') {
      const head = await findHead(repository)
      if (!head) return NOT_FOUND
      const change = { branch: head.branch, before: head.sha, after: head.sha }
      // Gitea does not wait for it either
      deliver(found, payloadOf(repository, { kind: 'push', change }, url)).catch(() => {})
      return GONE
    }
    if (method === 'PATCH') return ok(hookJson(writeHook(found, body)))
    if (method === 'DELETE') {
      repository.hooks = repository.hooks.filter((one) => one !== found)
      return GONE
    }
    return ok(hookJson(found))
  }

  const keys: Route = ({ method, query, body }, repository, [id]) => {
    const json = ({ id, title, key }: Repository['keys'][number]) => ({
      id,
      title,
      key,
      read_only: true,
    })
    if (id !== undefined) {
      const found = repository.keys.find((one) => String(one.id) === id)
      if (!found) return NOT_FOUND
      if (method !== 'DELETE') return ok(json(found))
      repository.keys = repository.keys.filter((one) => one !== found)
      return GONE
    }
    if (method === 'GET') return ok(page(repository.keys, query).map(json))
    const key = { id: state.nextId(), title: String(body.title), key: String(body.key) }
    repository.keys.push(key)
    return made(json(key))
  }

  const pulls: Route = ({ query }, repository, [number]) => {
    const json = (pull: Repository['pulls'][number]) => pullJson(repository, pull, url)
    if (number === undefined) {
      const open = repository.pulls.filter((one) => one.state === 'open')
      return ok(page(open, query).map(json))
    }
    const found = repository.pulls.find((one) => String(one.number) === number)
    return found ? ok(json(found)) : NOT_FOUND
  }

  const statuses: Route = ({ body }, repository, [sha = '']) => {
    const field = (name: string): string => String(body[name] ?? '')
    const status = {
      id: state.nextId(),
      sha,
      state: field('state'),
      context: field('context'),
      description: field('description'),
      target_url: field('target_url'),
    }
    repository.statuses.push(status)
    return made(status)
  }

  const issues: Route = ({ method, body }, repository, [first, second]) => {
    const text = String(body.body ?? '')
    if (first === 'comments') {
      const found = repository.comments.find((one) => String(one.id) === second)
      if (!found) return NOT_FOUND
      if (method === 'PATCH') found.body = text
      return ok(found)
    }
    const number = Number(first)
    if (second !== 'comments') return NOT_FOUND
    if (method === 'GET') return ok(repository.comments.filter((one) => one.number === number))
    const comment = { id: state.nextId(), number, body: text }
    repository.comments.push(comment)
    return made(comment)
  }

  const routes: Record<string, Route> = { hooks, keys, pulls, statuses, issues }

  return async (called) => {
    const [first = '', ...rest] = called.path.split('/').filter(Boolean)
    if (first === 'version') return ok({ version: '1.22.0' })
    if (first === 'user' && rest[0] === undefined) return ok({ id: 1, login: 'you' })
    const search = called.query.get('q')?.toLowerCase() ?? ''
    const known = state.repositories.filter((one) => one.name.toLowerCase().includes(search))
    const list = page(known, called.query).map((one) => repositoryJson(one, url))
    if (first === 'user' && rest[0] === 'repos') return ok(list)
    if (first !== 'repos') return NOT_FOUND
    if (rest[0] === 'search') return ok({ ok: true, data: list })
    const repository = state.find(rest.slice(0, 2).join('/'))
    if (!repository) return NOT_FOUND
    const [name, ...words] = rest.slice(2)
    if (name === undefined) return ok(repositoryJson(repository, url))
    const reply = await (routes[name]?.(called, repository, words) ?? NOT_FOUND)
    if (called.method !== 'GET') state.save()
    return reply
  }
}
