// Client for GitLab (gitlab.com and self-managed), REST API v4. A merge request is a pull request here.
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
import { gitlabSetup } from './setup/gitlab.ts'

const STATES = {
  pending: 'pending',
  running: 'running',
  success: 'success',
  failure: 'failed',
  stopped: 'canceled',
} as const

function toPullRequest(json: Json): ForgePullRequest {
  const number = asCount(json.iid)
  const state = asText(json.state)
  return checked({
    number,
    title: asText(json.title),
    url: asText(json.web_url),
    author: asText(asObject(json.author).username),
    // locked: being merged right now
    state: state === 'merged' ? 'merged' : state === 'closed' ? 'closed' : 'open',
    draft: json.draft === true || json.work_in_progress === true,
    headBranch: asText(json.source_branch),
    headSha: fullSha(json.sha),
    headRef: `refs/merge-requests/${number}/head`,
    baseBranch: asText(json.target_branch),
    fromFork: differs(json.source_project_id, json.target_project_id),
    updatedAt: asTime(json.updated_at),
  })
}

export const gitlabApi = (access: ForgeAccess): ForgeApi =>
  new ForgeApi(access, (token) => ({ 'private-token': token }))

export function openGitLab(access: ForgeAccess): ForgeClient {
  const api = gitlabApi(access)
  const project = `/projects/${encodeURIComponent(access.path)}`
  const { pageSize } = FORGE_API

  async function pageOf(path: string, page: number): Promise<{ items: Json[]; more: boolean }> {
    const separator = path.includes('?') ? '&' : '?'
    const got = await api.call('GET', `${path}${separator}per_page=${pageSize}&page=${page}`)
    return { items: asList(got.json), more: String(got.headers['x-next-page'] ?? '') !== '' }
  }

  async function findNote(number: number, marker: string): Promise<string | undefined> {
    const path = `${project}/merge_requests/${number}/notes?sort=asc&order_by=created_at`
    const { items } = await api.list((page) => pageOf(path, page))
    return asId(items.find((n) => asText(n.body).includes(marker))?.id) || undefined
  }

  return {
    provider: 'gitlab',
    ...gitlabSetup(api, project),
    async findRepository() {
      const json = asObject((await api.call('GET', project)).json)
      return {
        externalId: asId(json.id),
        fullName: asText(json.path_with_namespace),
        isEmpty: json.empty_repo === true,
      }
    },
    async listOpenPullRequests() {
      const path = `${project}/merge_requests?state=opened&order_by=created_at&sort=asc`
      const { items, complete } = await api.list((page) => pageOf(path, page))
      return { pullRequests: items.map(toPullRequest), complete }
    },
    async findPullRequest(number) {
      const json = await api.find(`${project}/merge_requests/${number}`)
      return json && toPullRequest(json)
    },
    async setStatus({ sha, state, context, description, url }) {
      const body = { state: STATES[state], name: context, description, target_url: url }
      await api.call('POST', `${project}/statuses/${sha}`, body).catch((error: unknown) => {
        // GitLab refuses a transition to the current state, which already says what we want
        const isThere =
          error instanceof ForgeError &&
          error.trouble === 'refused' &&
          /Cannot transition status via :\w+ from :\w+/.test(error.message)
        if (!isThere) throw error
      })
    },
    async putComment({ number, marker, body, knownId }) {
      const text = `<!-- ${marker} -->\n${body}`
      const notes = `${project}/merge_requests/${number}/notes`
      const id = knownId ?? (await findNote(number, marker))
      if (id !== undefined) {
        await api.call('PUT', `${notes}/${encodeURIComponent(id)}`, { body: text })
        return id
      }
      return asId(asObject((await api.call('POST', notes, { body: text })).json).id)
    },
  }
}
