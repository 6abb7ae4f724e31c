// Access keys, webhooks and lists of repositories at Bitbucket Data Center. Keys have an API of their own beside the
// main one. Its test request is not signed with the webhook's secret, so it cannot prove a delivery.
import { FORGE_API } from '@berth/shared'
import {
  asCount,
  asId,
  asList,
  asObject,
  asText,
  checkedRepository,
  encodePath,
  type ForgeAccount,
  type ForgeApi,
  type ForgeWebhook,
  type Json,
  type ListedRepository,
  type RepositorySetup,
} from '../forge.ts'

const EVENTS = [
  'repo:refs_changed',
  'pr:opened',
  'pr:from_ref_updated',
  'pr:modified',
  'pr:merged',
  'pr:declined',
  'pr:deleted',
]

/** Both kinds of Bitbucket write webhooks alike, except for the id. */
export function readWebhook(json: Json, id: unknown, wanted: readonly string[]): ForgeWebhook {
  const events = Array.isArray(json.events) ? json.events.map(asText) : []
  return {
    id: asId(id),
    url: asText(json.url),
    active: json.active === true,
    sendsEvents: wanted.every((event) => events.includes(event)),
    failure: null,
  }
}

/** The address of the repository for `ssh`, `http` or `https`. */
export const cloneLink = (json: Json, name: string): string =>
  asText(asList(asObject(json.links).clone).find((one) => one.name === name)?.href)

interface Page {
  items: Json[]
  next: number | null
}

async function pageOf(api: ForgeApi, path: string, start: number, size: number): Promise<Page> {
  const separator = path.includes('?') ? '&' : '?'
  const got = await api.call('GET', `${path}${separator}limit=${size}&start=${start}`)
  const json = asObject(got.json)
  const next = asCount(json.nextPageStart)
  return {
    items: asList(json.values),
    next: json.isLastPage === false && next > start ? next : null,
  }
}

/** `keys` has the base of the keys' API. */
export function bitbucketServerSetup(
  api: ForgeApi,
  keys: ForgeApi,
  repository: string,
): RepositorySetup {
  const all = async (at: ForgeApi, path: string): Promise<Json[]> => {
    let start = 0
    const { items } = await at.list(async () => {
      const page = await pageOf(at, repository + path, start, FORGE_API.pageSize)
      start = page.next ?? 0
      return { items: page.items, more: page.next !== null }
    })
    return items
  }
  const hook = (id: string): string => `${repository}/webhooks/${encodeURIComponent(id)}`

  return {
    readFile(path, branch) {
      const at = encodeURIComponent(`refs/heads/${branch}`)
      return api.findText(`${repository}/raw/${encodePath(path)}?at=${at}`)
    },
    async listKeys() {
      const found = await all(keys, '/ssh')
      return found.map((entry) => ({
        id: asId(asObject(entry.key).id),
        line: asText(asObject(entry.key).text),
        readOnly: entry.permission === 'REPO_READ',
      }))
    },
    async addKey({ title, line }) {
      const body = { key: { text: line, label: title }, permission: 'REPO_READ' }
      const made = asObject((await keys.call('POST', `${repository}/ssh`, body)).json)
      return asId(asObject(made.key).id)
    },
    removeKey: (id) => keys.remove(`${repository}/ssh/${encodeURIComponent(id)}`),
    async listWebhooks() {
      return (await all(api, '/webhooks')).map((json) => readWebhook(json, json.id, EVENTS))
    },
    async putWebhook({ id, url, secret }) {
      const body = { name: 'Berth', url, active: true, events: EVENTS, configuration: { secret } }
      if (id !== null) {
        await api.call('PUT', hook(id), body)
        return id
      }
      return asId(asObject((await api.call('POST', `${repository}/webhooks`, body)).json).id)
    },
    removeWebhook: (id) => api.remove(hook(id)),
    testWebhook: async () => false,
  }
}

function toListed(json: Json): ListedRepository {
  return checkedRepository({
    fullName: `${asText(asObject(json.project).key)}/${asText(json.slug)}`,
    description: asText(json.description),
    isPrivate: typeof json.public === 'boolean' ? !json.public : null,
    isArchived: json.archived === true,
    defaultBranch: null,
    webUrl: asText(asList(asObject(json.links).self)[0]?.href),
    sshUrl: cloneLink(json, 'ssh'),
    httpsUrl: cloneLink(json, 'http'),
    canAdmin: true, // the list has only what this token may set up
    updatedAt: null,
  })
}

export const bitbucketServerAccount = (api: ForgeApi): ForgeAccount => ({
  provider: 'bitbucket_server',
  async findAccount() {
    const got = await api.call('GET', '/repos?permission=REPO_READ&limit=1')
    const name = String(got.headers['x-ausername'] ?? '')
    return { provider: 'bitbucket_server', name: name.slice(0, FORGE_API.nameCharacters) }
  },
  async listRepositories({ search, size, from }) {
    const name = search === '' ? '' : `&name=${encodeURIComponent(search.split('/').at(-1) ?? '')}`
    const page = await pageOf(api, `/repos?permission=REPO_ADMIN${name}`, Number(from ?? 0), size)
    const next = page.next === null ? null : String(page.next)
    return { repositories: page.items.map(toListed), next }
  },
})
