// Client for Bitbucket Data Center, REST API 1.0. A project key and a slug identify a repository. Comments carry a
// version that an edit must repeat, and are listed only as activities of the pull request.
import { FORGE_API } from '@berth/shared'
import {
  asCount,
  asId,
  asList,
  asObject,
  asText,
  asTime,
  checked,
  differs,
  type ForgeAccess,
  ForgeApi,
  type ForgeClient,
  ForgeError,
  type ForgePullRequest,
  fullSha,
  type Json,
} from './forge.ts'
import { bitbucketServerSetup } from './setup/bitbucket-server.ts'

const STATES = {
  pending: 'INPROGRESS',
  running: 'INPROGRESS',
  success: 'SUCCESSFUL',
  failure: 'FAILED',
  stopped: 'CANCELLED',
} as const

function toPullRequest(json: Json): ForgePullRequest {
  const [from, to] = [asObject(json.fromRef), asObject(json.toRef)]
  const number = asCount(json.id)
  const state = asText(json.state)
  return checked({
    number,
    title: asText(json.title),
    url: asText(asList(asObject(json.links).self)[0]?.href),
    author: asText(asObject(asObject(json.author).user).name),
    state: state === 'OPEN' ? 'open' : state === 'MERGED' ? 'merged' : 'closed',
    draft: json.draft === true,
    headBranch: asText(from.displayId),
    headSha: fullSha(from.latestCommit),
    headRef: `refs/pull-requests/${number}/from`,
    baseBranch: asText(to.displayId),
    fromFork: differs(asObject(from.repository).id, asObject(to.repository).id),
    updatedAt: asTime(json.updatedDate),
  })
}

export const bitbucketServerApi = (access: ForgeAccess): ForgeApi =>
  new ForgeApi(access, (token) => ({ authorization: `Bearer ${token}` }))

/** The address of the keys' API, which stands beside the main one. */
const keysBase = (base: string): string => base.replace(/\/rest\/api\/[^/]+$/, '/rest/keys/1.0')

export function openBitbucketServer(access: ForgeAccess): ForgeClient {
  const api = bitbucketServerApi(access)
  const keys = bitbucketServerApi({ ...access, base: keysBase(access.base) })
  const [key = '', slug = ''] = access.path.split('/')
  const repository = `/projects/${encodeURIComponent(key)}/repos/${encodeURIComponent(slug)}`
  const { pageSize } = FORGE_API

  function pager(path: string): (page: number) => Promise<{ items: Json[]; more: boolean }> {
    let start = 0
    return async () => {
      const separator = path.includes('?') ? '&' : '?'
      const got = await api.call('GET', `${path}${separator}limit=${pageSize}&start=${start}`)
      const json = asObject(got.json)
      const next = asCount(json.nextPageStart)
      const more = json.isLastPage === false && next > start
      start = next
      return { items: asList(json.values), more }
    }
  }

  async function findComment(number: number, marker: string): Promise<string | undefined> {
    const { items } = await api.list(pager(`${repository}/pull-requests/${number}/activities`))
    const comments = items.filter((a) => a.action === 'COMMENTED').map((a) => asObject(a.comment))
    return asId(comments.find((c) => asText(c.text).includes(marker))?.id) || undefined
  }

  return {
    provider: 'bitbucket_server',
    ...bitbucketServerSetup(api, keys, repository),
    async findRepository() {
      const json = asObject((await api.call('GET', repository)).json)
      const owner = asText(asObject(json.project).key)
      const fullName = `${owner}/${asText(json.slug)}`
      return { externalId: asId(json.id), fullName, isEmpty: false }
    },
    async listOpenPullRequests() {
      const path = `${repository}/pull-requests?state=OPEN&order=OLDEST`
      const { items, complete } = await api.list(pager(path))
      return { pullRequests: items.map(toPullRequest), complete }
    },
    async findPullRequest(number) {
      const json = await api.find(`${repository}/pull-requests/${number}`)
      return json && toPullRequest(json)
    },
    async setStatus({ sha, state, context, description, url }) {
      await api.call('POST', `${repository}/commits/${sha}/builds`, {
        key: context,
        name: context,
        state: STATES[state],
        description,
        url,
      })
    },
    async putComment({ number, marker, body, knownId }) {
      const text = `${body}\n\n[//]: # (${marker})`
      const comments = `${repository}/pull-requests/${number}/comments`
      const id = knownId ?? (await findComment(number, marker))
      if (id === undefined) {
        return asId(asObject((await api.call('POST', comments, { text })).json).id)
      }
      const path = `${comments}/${encodeURIComponent(id)}`
      const version = asObject((await api.call('GET', path)).json).version
      if (typeof version !== 'number') {
        throw new ForgeError('unavailable', 'The comment has no version.')
      }
      await api.call('PUT', path, { text, version })
      return id
    },
  }
}
