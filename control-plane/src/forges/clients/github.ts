// Client for GitHub and GitHub Enterprise Server, REST API version 2022-11-28.
import { FORGE_API } from '@berth/shared'
import {
  asCount,
  asList,
  asObject,
  asText,
  asTime,
  checked,
  differs,
  encodePath,
  type ForgeAccess,
  ForgeApi,
  type ForgeClient,
  type ForgePullRequest,
  fullSha,
  type Json,
} from './forge.ts'
import { githubShape } from './github-shape.ts'
import { GITHUB, githubSetup } from './setup/github.ts'

export function toPullRequest(json: Json): ForgePullRequest {
  const [head, base] = [asObject(json.head), asObject(json.base)]
  const number = asCount(json.number)
  const isMerged = json.merged === true || asText(json.merged_at) !== ''
  return checked({
    number,
    title: asText(json.title),
    url: asText(json.html_url),
    author: asText(asObject(json.user).login),
    state: json.state === 'open' ? 'open' : isMerged ? 'merged' : 'closed',
    draft: json.draft === true,
    headBranch: asText(head.ref),
    headSha: fullSha(head.sha),
    headRef: `refs/pull/${number}/head`,
    baseBranch: asText(base.ref),
    fromFork: differs(asObject(head.repo).id, asObject(base.repo).id),
    updatedAt: asTime(json.updated_at),
  })
}

export const githubApi = (access: ForgeAccess): ForgeApi =>
  new ForgeApi(access, (token) => ({
    authorization: `Bearer ${token}`,
    accept: 'application/vnd.github+json',
    'x-github-api-version': '2022-11-28',
  }))

export function openGitHub(access: ForgeAccess): ForgeClient {
  const api = githubApi(access)
  const repository = `/repos/${encodePath(access.path)}`
  const { pageSize } = FORGE_API

  return {
    provider: 'github',
    ...githubSetup(api, repository, GITHUB),
    ...githubShape({
      api,
      repository,
      toPullRequest,
      async listComments(path) {
        const { items } = await api.list(async (page) => {
          const got = await api.call('GET', `${path}?per_page=${pageSize}&page=${page}`)
          const comments = asList(got.json)
          return { items: comments, more: comments.length === pageSize }
        })
        return items
      },
    }),
    async listOpenPullRequests() {
      const { items, complete } = await api.list(async (page) => {
        const query = `?state=open&sort=created&direction=asc&per_page=${pageSize}&page=${page}`
        const got = asList((await api.call('GET', `${repository}/pulls${query}`)).json)
        return { items: got, more: got.length === pageSize }
      })
      return { pullRequests: items.map(toPullRequest), complete }
    },
  }
}
