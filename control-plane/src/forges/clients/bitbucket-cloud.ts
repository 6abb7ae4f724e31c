// Client for Bitbucket Cloud, API 2.0. Its pull requests report 12 characters of the head commit and have no ref, so
// heads come from git by branch. Comments do not allow HTML, so the marker is an invisible link definition.
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
  encodePath,
  type ForgeAccess,
  ForgeApi,
  type ForgeClient,
  type ForgePullRequest,
  fullSha,
  type Json,
} from './forge.ts'
import { bitbucketCloudSetup } from './setup/bitbucket-cloud.ts'

const STATES = {
  pending: 'INPROGRESS',
  running: 'INPROGRESS',
  success: 'SUCCESSFUL',
  failure: 'FAILED',
  stopped: 'STOPPED',
} as const
const KEY_CHARACTERS = 40

function toPullRequest(json: Json): ForgePullRequest {
  const [source, target] = [asObject(json.source), asObject(json.destination)]
  const state = asText(json.state)
  return checked({
    number: asCount(json.id),
    title: asText(json.title),
    url: asText(asObject(asObject(json.links).html).href),
    author: asText(asObject(json.author).nickname),
    state: state === 'OPEN' ? 'open' : state === 'MERGED' ? 'merged' : 'closed',
    draft: json.draft === true,
    headBranch: asText(asObject(source.branch).name),
    headSha: fullSha(asObject(source.commit).hash),
    headRef: null,
    baseBranch: asText(asObject(target.branch).name),
    fromFork: differs(asObject(source.repository).uuid, asObject(target.repository).uuid),
    updatedAt: asTime(json.updated_on),
  })
}

/** The API token of an account is written `mail@example.com:token`; tokens of a repository or workspace stand alone. */
export const bitbucketCloudApi = (access: ForgeAccess): ForgeApi =>
  new ForgeApi(access, (token) => ({
    authorization: token.includes(':')
      ? `Basic ${Buffer.from(token).toString('base64')}`
      : `Bearer ${token}`,
  }))

export function openBitbucketCloud(access: ForgeAccess): ForgeClient {
  const api = bitbucketCloudApi(access)
  const repository = `/repositories/${encodePath(access.path)}`
  const { pageSize } = FORGE_API

  /** The forge chooses the address in `next`, so it is used only as a sign that there is more. */
  async function pageOf(path: string, page: number): Promise<{ items: Json[]; more: boolean }> {
    const separator = path.includes('?') ? '&' : '?'
    const got = await api.call('GET', `${path}${separator}pagelen=${pageSize}&page=${page}`)
    const json = asObject(got.json)
    return { items: asList(json.values), more: asText(json.next) !== '' }
  }

  async function findComment(number: number, marker: string): Promise<string | undefined> {
    const path = `${repository}/pullrequests/${number}/comments?sort=created_on`
    const { items } = await api.list((page) => pageOf(path, page))
    const isOurs = (c: Json): boolean =>
      c.deleted !== true && asText(asObject(c.content).raw).includes(marker)
    return asId(items.find(isOurs)?.id) || undefined
  }

  return {
    provider: 'bitbucket_cloud',
    ...bitbucketCloudSetup(api, repository),
    async findRepository() {
      const json = asObject((await api.call('GET', repository)).json)
      return { externalId: asId(json.uuid), fullName: asText(json.full_name), isEmpty: false }
    },
    async listOpenPullRequests() {
      const path = `${repository}/pullrequests?state=OPEN&sort=created_on`
      const { items, complete } = await api.list((page) => pageOf(path, page))
      return { pullRequests: items.map(toPullRequest), complete }
    },
    async findPullRequest(number) {
      const json = await api.find(`${repository}/pullrequests/${number}`)
      return json && toPullRequest(json)
    },
    async setStatus({ sha, state, context, description, url }) {
      await api.call('POST', `${repository}/commit/${sha}/statuses/build`, {
        key: context.slice(0, KEY_CHARACTERS),
        name: context,
        state: STATES[state],
        description,
        url,
      })
    },
    async putComment({ number, marker, body, knownId }) {
      const content = { raw: `${body}\n\n[//]: # (${marker})` }
      const comments = `${repository}/pullrequests/${number}/comments`
      const id = knownId ?? (await findComment(number, marker))
      if (id !== undefined) {
        await api.call('PUT', `${comments}/${encodeURIComponent(id)}`, { content })
        return id
      }
      return asId(asObject((await api.call('POST', comments, { content })).json).id)
    },
  }
}
