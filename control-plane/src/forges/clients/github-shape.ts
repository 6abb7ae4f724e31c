// What the clients of GitHub, Gitea and Forgejo share: the repository, a commit's status and the one comment.
import {
  asId,
  asObject,
  asText,
  type ForgeApi,
  type ForgeClient,
  type ForgePullRequest,
  type Json,
  type RepositorySetup,
} from './forge.ts'

const STATES = {
  pending: 'pending',
  running: 'pending',
  success: 'success',
  failure: 'failure',
  stopped: 'error',
} as const

interface Shape {
  api: ForgeApi
  /** Path of the repository in the API. */
  repository: string
  toPullRequest(json: Json): ForgePullRequest
  /** Lists the comments of a pull request, as far as the forge returns them. */
  listComments(path: string): Promise<Json[]>
}

export function githubShape({
  api,
  repository,
  toPullRequest,
  listComments,
}: Shape): Omit<ForgeClient, 'provider' | 'listOpenPullRequests' | keyof RepositorySetup> {
  async function findComment(number: number, marker: string): Promise<string | undefined> {
    const items = await listComments(`${repository}/issues/${number}/comments`)
    return asId(items.find((c) => asText(c.body).includes(marker))?.id) || undefined
  }

  return {
    async findRepository() {
      const json = asObject((await api.call('GET', repository)).json)
      return {
        externalId: asId(json.id),
        fullName: asText(json.full_name),
        isEmpty: json.empty === true,
      }
    },
    async findPullRequest(number) {
      const json = await api.find(`${repository}/pulls/${number}`)
      return json && toPullRequest(json)
    },
    async setStatus({ sha, state, context, description, url }) {
      await api.call('POST', `${repository}/statuses/${sha}`, {
        state: STATES[state],
        context,
        description,
        target_url: url,
      })
    },
    async putComment({ number, marker, body, knownId }) {
      const text = `<!-- ${marker} -->\n${body}`
      const id = knownId ?? (await findComment(number, marker))
      if (id !== undefined) {
        await api.call('PATCH', `${repository}/issues/comments/${encodeURIComponent(id)}`, {
          body: text,
        })
        return id
      }
      const made = await api.call('POST', `${repository}/issues/${number}/comments`, { body: text })
      return asId(asObject(made.json).id)
    },
  }
}
