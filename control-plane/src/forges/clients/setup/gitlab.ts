// Deploy keys, webhooks and lists of repositories at GitLab.
import { FORGE_API } from '@berth/shared'
import {
  asId,
  asList,
  asObject,
  asText,
  asTime,
  checkedRepository,
  decodeFile,
  type ForgeAccount,
  type ForgeApi,
  type ForgeWebhook,
  type Json,
  type ListedRepository,
  type RepositorySetup,
} from '../forge.ts'

const MAINTAINER = 40

function toWebhook(json: Json): ForgeWebhook {
  const status = asText(json.alert_status)
  const failing = status !== '' && status !== 'executable'
  return {
    id: asId(json.id),
    url: asText(json.url),
    active: status !== 'disabled',
    sendsEvents: json.push_events === true && json.merge_requests_events === true,
    failure: failing ? 'GitLab switched the webhook off because deliveries failed.' : null,
  }
}

export function gitlabSetup(api: ForgeApi, project: string): RepositorySetup {
  const { pageSize } = FORGE_API
  const all = async (path: string): Promise<Json[]> => {
    const { items } = await api.list(async (page) => {
      const got = await api.call('GET', `${project}${path}?per_page=${pageSize}&page=${page}`)
      return { items: asList(got.json), more: String(got.headers['x-next-page'] ?? '') !== '' }
    })
    return items
  }
  const one = (kind: 'deploy_keys' | 'hooks', id: string): string =>
    `${project}/${kind}/${encodeURIComponent(id)}`

  return {
    async readFile(path, branch) {
      const file = `${project}/repository/files/${encodeURIComponent(path)}`
      return decodeFile(await api.find(`${file}?ref=${encodeURIComponent(branch)}`))
    },
    async listKeys() {
      const keys = await all('/deploy_keys')
      return keys.map((key) => ({
        id: asId(key.id),
        line: asText(key.key),
        readOnly: key.can_push !== true,
      }))
    },
    async addKey({ title, line }) {
      const body = { title, key: line, can_push: false }
      return asId(asObject((await api.call('POST', `${project}/deploy_keys`, body)).json).id)
    },
    removeKey: (id) => api.remove(one('deploy_keys', id)),
    async listWebhooks() {
      return (await all('/hooks')).map(toWebhook)
    },
    async putWebhook({ id, url, secret }) {
      const body = {
        url,
        token: secret,
        push_events: true,
        merge_requests_events: true,
        enable_ssl_verification: true,
      }
      if (id !== null) {
        await api.call('PUT', one('hooks', id), body)
        return id
      }
      return asId(asObject((await api.call('POST', `${project}/hooks`, body)).json).id)
    },
    removeWebhook: (id) => api.remove(one('hooks', id)),
    async testWebhook(id) {
      await api.call('POST', `${one('hooks', id)}/test/push_events`)
      return true
    },
  }
}

function toListed(json: Json): ListedRepository {
  const visibility = asText(json.visibility)
  return checkedRepository({
    fullName: asText(json.path_with_namespace),
    description: asText(json.description),
    isPrivate: visibility === '' ? null : visibility !== 'public',
    isArchived: json.archived === true,
    defaultBranch: asText(json.default_branch) || null,
    webUrl: asText(json.web_url),
    sshUrl: asText(json.ssh_url_to_repo),
    httpsUrl: asText(json.http_url_to_repo),
    canAdmin: true, // the list has only what this token may set up
    updatedAt: asTime(json.last_activity_at) || null,
  })
}

export const gitlabAccount = (api: ForgeApi): ForgeAccount => ({
  provider: 'gitlab',
  async findAccount() {
    const name = asText(asObject((await api.call('GET', '/user')).json).username)
    return { provider: 'gitlab', name }
  },
  async listRepositories({ search, size, from }) {
    const query = new URLSearchParams({
      membership: 'true',
      min_access_level: String(MAINTAINER),
      archived: 'false',
      order_by: 'last_activity_at',
      per_page: String(size),
      page: from ?? '1',
    })
    if (search !== '') query.set('search', search)
    if (search.includes('/')) query.set('search_namespaces', 'true')
    const got = await api.call('GET', `/projects?${query}`)
    const next = String(got.headers['x-next-page'] ?? '')
    return {
      repositories: asList(got.json).map(toListed),
      next: /^[0-9]{1,9}$/.test(next) ? next : null,
    }
  },
})
