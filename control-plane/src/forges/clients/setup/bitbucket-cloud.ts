// Deploy keys, webhooks and lists of repositories at Bitbucket Cloud. Its deploy keys can only read. Repositories are
// listed by workspace: the addresses across workspaces were removed. It cannot be asked for a test delivery.
import { FORGE_API } from '@berth/shared'
import {
  asId,
  asList,
  asObject,
  asText,
  asTime,
  checkedRepository,
  encodePath,
  type ForgeAccount,
  type ForgeApi,
  ForgeError,
  type Json,
  type ListedRepository,
  type RepositorySetup,
} from '../forge.ts'
import { cloneLink, readWebhook } from './bitbucket-server.ts'

const EVENTS = [
  'repo:push',
  'pullrequest:created',
  'pullrequest:updated',
  'pullrequest:fulfilled',
  'pullrequest:rejected',
]

/** One page; the address in `next` comes from the forge, so it is only a sign that there is more. */
async function pageOf(api: ForgeApi, path: string, page: number) {
  const separator = path.includes('?') ? '&' : '?'
  const query = `${separator}pagelen=${FORGE_API.pageSize}&page=${page}`
  const json = asObject((await api.call('GET', path + query)).json)
  return { items: asList(json.values), more: asText(json.next) !== '' }
}

export function bitbucketCloudSetup(api: ForgeApi, repository: string): RepositorySetup {
  const all = async (path: string): Promise<Json[]> =>
    (await api.list((page) => pageOf(api, repository + path, page))).items
  const one = (kind: 'deploy-keys' | 'hooks', id: string): string =>
    `${repository}/${kind}/${encodeURIComponent(id)}`

  return {
    readFile: (path, branch) =>
      api.findText(`${repository}/src/${encodeURIComponent(branch)}/${encodePath(path)}`),
    async listKeys() {
      const keys = await all('/deploy-keys')
      return keys.map((key) => ({ id: asId(key.id), line: asText(key.key), readOnly: true }))
    },
    async addKey({ title, line }) {
      const body = { label: title, key: line }
      return asId(asObject((await api.call('POST', `${repository}/deploy-keys`, body)).json).id)
    },
    removeKey: (id) => api.remove(one('deploy-keys', id)),
    async listWebhooks() {
      return (await all('/hooks')).map((json) => readWebhook(json, json.uuid, EVENTS))
    },
    async putWebhook({ id, url, secret }) {
      const body = { description: 'Berth', url, active: true, secret, events: EVENTS }
      if (id !== null) {
        await api.call('PUT', one('hooks', id), body)
        return id
      }
      return asId(asObject((await api.call('POST', `${repository}/hooks`, body)).json).uuid)
    },
    removeWebhook: (id) => api.remove(one('hooks', id)),
    testWebhook: async () => false,
  }
}

function toListed(json: Json): ListedRepository {
  return checkedRepository({
    fullName: asText(json.full_name),
    description: asText(json.description),
    isPrivate: typeof json.is_private === 'boolean' ? json.is_private : null,
    isArchived: false,
    defaultBranch: asText(asObject(json.mainbranch).name) || null,
    webUrl: asText(asObject(asObject(json.links).html).href),
    sshUrl: cloneLink(json, 'ssh'),
    // it holds the name of the account, which a project's address must not
    httpsUrl: cloneLink(json, 'https').replace(/^https:\/\/[^/@]*@/, 'https://'),
    canAdmin: true, // the list has only what this token may set up
    updatedAt: asTime(json.updated_on) || null,
  })
}

export function bitbucketCloudAccount(api: ForgeApi): ForgeAccount {
  async function listWorkspaces(): Promise<string[]> {
    const { items } = await api.list((page) => pageOf(api, '/user/workspaces', page))
    return items.map((item) => asText(asObject(item.workspace).slug)).filter((slug) => slug !== '')
  }
  return {
    provider: 'bitbucket_cloud',
    async findAccount() {
      try {
        const user = asObject((await api.call('GET', '/user')).json)
        return { provider: 'bitbucket_cloud', name: asText(user.nickname) || asText(user.username) }
      } catch (error) {
        // the tokens of a repository, project or workspace have no account
        if (!(error instanceof ForgeError) || error.status !== 403) throw error
        return { provider: 'bitbucket_cloud', name: '' }
      }
    },
    /** `from` is "workspace page"; one request for each page, across workspaces in their order. */
    async listRepositories({ search, size, from }) {
      const [named = '', number = '1'] = (from ?? '').split(' ')
      const slugs = (await listWorkspaces()).slice(0, FORGE_API.pages)
      const start = Math.max(0, named === '' ? 0 : slugs.indexOf(named))
      const repositories: ListedRepository[] = []
      const wanted = search.replaceAll(/["\\]/g, '')
      const filter = wanted === '' ? '' : `&q=${encodeURIComponent(`full_name ~ "${wanted}"`)}`
      for (const [i, slug] of slugs.slice(start).entries()) {
        const page = i === 0 && named === slug ? Number(number) : 1
        const path = `/repositories/${encodeURIComponent(slug)}?role=admin&sort=-updated_on${filter}`
        const got = await pageOf(api, path, page)
        repositories.push(...got.items.map(toListed))
        if (got.more) return { repositories, next: `${slug} ${page + 1}` }
        const following = slugs[start + i + 1]
        if (repositories.length >= size && following)
          return { repositories, next: `${following} 1` }
      }
      return { repositories, next: null }
    },
  }
}
