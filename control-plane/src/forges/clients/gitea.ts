// Client for Gitea and Forgejo, API v1, which follows GitHub's shapes with differences in paging, ids and states.
import { FORGE_API } from '@berth/shared'
import {
  asList,
  asObject,
  differs,
  encodePath,
  type ForgeAccess,
  ForgeApi,
  type ForgeClient,
  type ForgePullRequest,
  type Json,
} from './forge.ts'
import { toPullRequest as asGitHub } from './github.ts'
import { githubShape } from './github-shape.ts'
import { GITEA, githubSetup } from './setup/github.ts'

function toPullRequest(json: Json): ForgePullRequest {
  const [head, base] = [asObject(json.head), asObject(json.base)]
  const isGone = head.repo === null // the fork was deleted, but its id may remain
  return {
    ...asGitHub(json),
    fromFork: isGone || differs(head.repo_id, base.repo_id),
  }
}

export const giteaApi = (access: ForgeAccess): ForgeApi =>
  new ForgeApi(access, (token) => ({ authorization: `token ${token}` }))

export function openGitea(access: ForgeAccess, provider: 'gitea' | 'forgejo'): ForgeClient {
  const api = giteaApi(access)
  const repository = `/repos/${encodePath(access.path)}`
  const { pageSize } = FORGE_API

  /** A page may have fewer items than requested; only an empty page, or the forge's count, marks the end. */
  async function pageOf(path: string, page: number): Promise<{ items: Json[]; more: boolean }> {
    const separator = path.includes('?') ? '&' : '?'
    const got = await api.call('GET', `${path}${separator}limit=${pageSize}&page=${page}`)
    const items = asList(got.json)
    const link = String(got.headers.link ?? '')
    return { items, more: items.length > 0 && link.includes('rel="next"') }
  }

  return {
    provider,
    ...githubSetup(api, repository, GITEA),
    ...githubShape({
      api,
      repository,
      toPullRequest,
      // this list has no pages
      listComments: async (path) => asList((await api.call('GET', path)).json),
    }),
    async listOpenPullRequests() {
      const path = `${repository}/pulls?state=open&sort=oldest`
      const { items, complete } = await api.list((page) => pageOf(path, page))
      return { pullRequests: items.map(toPullRequest), complete }
    },
  }
}
