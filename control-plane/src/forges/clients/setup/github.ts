// Deploy keys, webhooks and lists of repositories at GitHub, Gitea and Forgejo, whose paths agree and whose bodies differ.
import { FORGE_API } from '@berth/shared'
import {
  asId,
  asList,
  asObject,
  asText,
  asTime,
  checkedRepository,
  decodeFile,
  encodePath,
  type ForgeAccount,
  type ForgeApi,
  ForgeError,
  type ForgeProvider,
  type ForgeWebhook,
  type Json,
  type ListedRepository,
  type RepositorySetup,
} from '../forge.ts'

interface Dialect {
  /** Name of the parameter with the size of a page. */
  sizeName: 'per_page' | 'limit'
  /** What a new webhook needs besides its address, secret and events. */
  kind: Json
  events: readonly string[]
  /** The same events as the forge lists them. */
  listed: readonly string[]
  /** Path below a webhook that sends a delivery now. */
  test: string
  /** Whether a change of a webhook takes the secret. */
  changesSecret: boolean
}

export const GITHUB: Dialect = {
  sizeName: 'per_page',
  kind: { name: 'web' },
  events: ['push', 'pull_request'],
  listed: ['push', 'pull_request'],
  test: 'pings',
  changesSecret: true,
}

/** `pull_request` would also mean comments, labels and reviews; new commits have an event of their own. */
export const GITEA: Dialect = {
  sizeName: 'limit',
  kind: { type: 'gitea' },
  events: ['push', 'pull_request_only', 'pull_request_sync'],
  listed: ['push', 'pull_request', 'pull_request_sync'],
  test: 'tests',
  changesSecret: false, // it silently keeps the former one
}

function toWebhook(json: Json, { listed }: Dialect): ForgeWebhook {
  const events = Array.isArray(json.events) ? json.events.map(asText) : []
  const last = asObject(json.last_response)
  const code = typeof last.code === 'number' ? last.code : null
  const failed = code !== null && (code < 200 || code >= 300)
  return {
    id: asId(json.id),
    url: asText(asObject(json.config).url),
    active: json.active === true,
    sendsEvents: events.includes('*') || listed.every((event) => events.includes(event)),
    failure: failed ? `The last delivery was answered with ${code}.` : null,
  }
}

export function githubSetup(api: ForgeApi, repository: string, dialect: Dialect): RepositorySetup {
  const all = async (path: string): Promise<Json[]> => {
    const { pageSize } = FORGE_API
    let seen = 0
    const { items } = await api.list(async (page) => {
      const query = `?${dialect.sizeName}=${pageSize}&page=${page}`
      const got = await api.call('GET', `${repository}${path}${query}`)
      const listed = asList(got.json)
      // a forge may allow less than we ask for, so its own count decides where it gives one
      const total = Number(got.headers['x-total-count'] ?? 0)
      seen += listed.length
      return {
        items: listed,
        more: listed.length === pageSize || (listed.length > 0 && seen < total),
      }
    })
    return items
  }
  const one = (kind: 'keys' | 'hooks', id: string): string =>
    `${repository}/${kind}/${encodeURIComponent(id)}`

  return {
    async readFile(path, branch) {
      const ref = encodeURIComponent(branch)
      return decodeFile(await api.find(`${repository}/contents/${encodePath(path)}?ref=${ref}`))
    },
    async listKeys() {
      const keys = await all('/keys')
      return keys.map((key) => ({
        id: asId(key.id),
        line: asText(key.key),
        readOnly: key.read_only === true,
      }))
    },
    async addKey({ title, line }) {
      const body = { title, key: line, read_only: true }
      return asId(asObject((await api.call('POST', `${repository}/keys`, body)).json).id)
    },
    removeKey: (id) => api.remove(one('keys', id)),
    async listWebhooks() {
      return (await all('/hooks')).map((hook) => toWebhook(hook, dialect))
    },
    async putWebhook({ id, url, secret }) {
      const config = { url, content_type: 'json', secret, insecure_ssl: '0' }
      const body = { active: true, events: dialect.events, config }
      if (id !== null && dialect.changesSecret) {
        await api.call('PATCH', one('hooks', id), body)
        return id
      }
      const made = await api.call('POST', `${repository}/hooks`, { ...dialect.kind, ...body })
      // the new one first, so that no push falls between them
      if (id !== null) await api.remove(one('hooks', id))
      return asId(asObject(made.json).id)
    },
    removeWebhook: (id) => api.remove(one('hooks', id)),
    async testWebhook(id) {
      await api.call('POST', `${one('hooks', id)}/${dialect.test}`)
      return true
    },
  }
}

function toListed(json: Json): ListedRepository {
  const rights = asObject(json.permissions)
  const updated = asTime(json.pushed_at) || asTime(json.updated_at)
  return checkedRepository({
    fullName: asText(json.full_name),
    description: asText(json.description),
    isPrivate: typeof json.private === 'boolean' ? json.private : null,
    isArchived: json.archived === true,
    defaultBranch: asText(json.default_branch) || null,
    webUrl: asText(json.html_url),
    sshUrl: asText(json.ssh_url),
    httpsUrl: asText(json.clone_url),
    canAdmin: typeof rights.admin === 'boolean' ? rights.admin : null,
    updatedAt: updated || null,
  })
}

/** GitHub cannot search what a token opens, so pages are read and filtered, up to a bound. */
export function githubAccount(api: ForgeApi): ForgeAccount {
  const { pageSize, searchPages } = FORGE_API
  return {
    provider: 'github',
    async findAccount() {
      return {
        provider: 'github',
        name: asText(asObject((await api.call('GET', '/user')).json).login),
      }
    },
    async listRepositories({ search, size, from }) {
      const wanted = search.toLowerCase()
      const repositories: ListedRepository[] = []
      const first = Number(from ?? 1)
      for (let page = first; page < first + searchPages; page++) {
        const query = `?sort=pushed&direction=desc&per_page=${pageSize}&page=${page}`
        const got = asList((await api.call('GET', `/user/repos${query}`)).json)
        const fitting = got.map(toListed).filter((r) => r.fullName.toLowerCase().includes(wanted))
        repositories.push(...fitting)
        if (got.length < pageSize) return { repositories, next: null }
        if (repositories.length >= size) return { repositories, next: String(page + 1) }
      }
      return { repositories, next: String(first + searchPages) }
    },
  }
}

/** Forgejo writes the release of Gitea that it is compatible with behind a plus sign. */
const kindOf = (version: string, known: ForgeProvider): ForgeProvider =>
  version.includes('+gitea') ? 'forgejo' : known

export function giteaAccount(api: ForgeApi, provider: 'gitea' | 'forgejo'): ForgeAccount {
  /** A token without the right to read its account still opens repositories. */
  async function findUser(): Promise<Json> {
    try {
      return asObject((await api.call('GET', '/user')).json)
    } catch (error) {
      if (error instanceof ForgeError && error.status === 403) return {}
      throw error
    }
  }
  return {
    provider,
    async findAccount() {
      const version = asText((await api.find('/version'))?.version)
      if (version === '') throw new ForgeError('not_found', 'No Gitea or Forgejo answers there.')
      const name = asText((await findUser()).login)
      return { name, provider: kindOf(version, provider) }
    },
    async listRepositories({ search, size, from }) {
      const page = Number(from ?? 1)
      const uid = asId((await findUser()).id)
      const query = new URLSearchParams({
        limit: String(size),
        page: String(page),
        sort: 'updated',
      })
      query.set('order', 'desc')
      if (search !== '') query.set('q', search)
      if (uid !== '') query.set('uid', uid)
      const got = await api.call('GET', `/repos/search?${query}`)
      const found = asList(asObject(got.json).data)
      const more = found.length > 0 && String(got.headers.link ?? '').includes('rel="next"')
      return { repositories: found.map(toListed), next: more ? String(page + 1) : null }
    },
  }
}
