// A repository host for tests: it signs and sends deliveries for one project over real HTTP, in GitHub's shape unless a
// stored delivery of another host is given. Every delivery has an id and a time of its own, as a host's do.
import { randomUUID } from 'node:crypto'
import type { Provider } from '@berth/shared'
import type {
  Delivery,
  Environment,
  ProjectCreated,
  PullRequest,
  Task,
  WebhookAnswer,
} from '@berth/shared/rest'
import { encode, type Fixture, signAs } from '../control-plane/src/webhooks/fixtures.testing.ts'
import type { Answer, TestControlPlane } from './control-plane.ts'
import { until } from './lab.ts'

/** A full hash that is easy to tell apart in a failed test. */
export const sha = (n: number | string): string =>
  String(n)
    .padStart(4, '0')
    .replaceAll(/[^0-9a-f]/g, 'f')
    .padEnd(40, '0')

export interface PullRequestState {
  number: number
  title?: string
  branch?: string
  base?: string
  head: string
  draft?: boolean
  merged?: boolean
  /** Another repository's id; null: it was deleted. Absent: this very repository. */
  fork?: number | null
  author?: string
  /** Seconds since the epoch; by itself each is later than the one before. */
  at?: number
}

export interface Sent {
  provider: Provider
  headers: Record<string, string>
  body: string
}

const REPOSITORY_ID = 4711

export class Host {
  readonly cp: TestControlPlane
  readonly projectId: number
  readonly fullName: string
  secret: string
  #seconds = 1_794_700_000

  constructor(cp: TestControlPlane, project: ProjectCreated) {
    this.cp = cp
    this.projectId = project.id
    this.secret = project.webhook_secret
    this.fullName = new URL(project.repo_url).pathname.replace(/^\/|\.git$/g, '')
  }

  get #repository() {
    const html_url = `https://git.example.com/${this.fullName}`
    return { id: REPOSITORY_ID, full_name: this.fullName, html_url }
  }

  /** Bytes as they go over the wire. */
  sign(
    provider: Provider,
    headers: Record<string, string>,
    payload: unknown,
    o: { id?: string; isForm?: boolean; secret?: string; body?: string } = {},
  ): Sent {
    const body = o.body ?? encode(payload, o.isForm === true)
    const now = Date.now() + this.cp.clock.offsetMs
    const signed = signAs(provider, headers, body, {
      secret: o.secret ?? this.secret,
      id: o.id ?? randomUUID(),
      now,
      isForm: o.isForm === true,
      token: headers['x-gitlab-token'] !== undefined,
    })
    return { provider, headers: signed, body }
  }

  /** The answer; where the machine was too slow for one within a second, what the ledger says soon after. */
  async send({ headers, body }: Pick<Sent, 'headers' | 'body'>): Promise<Answer<WebhookAnswer>> {
    const answer = await this.cp.call<WebhookAnswer>('POST', `/webhooks/${this.projectId}`, body, {
      'content-type': 'application/json',
      ...headers,
    })
    if (answer.status !== 202 || answer.body.outcome !== 'received') return answer
    const { delivery } = answer.body
    const { outcome, rule, reason, task_ids } = await until(`delivery ${delivery}`, async () => {
      const row = (await this.cp.call<Delivery>('GET', `/api/deliveries/${delivery}`)).body
      return row.outcome === 'received' ? undefined : row
    })
    return { ...answer, body: { delivery, outcome, rule, reason, task_ids } }
  }

  async #github(event: string, payload: object, id?: string): Promise<Answer<WebhookAnswer>> {
    const headers = { 'x-github-event': event }
    const sender = { login: 'ada', id: 88 }
    const whole = { ...payload, repository: this.#repository, sender }
    return this.send(this.sign('github', headers, whole, id === undefined ? {} : { id }))
  }

  push(
    branch: string,
    after: string,
    o: { before?: string; message?: string; files?: string[]; id?: string; deleted?: boolean } = {},
  ): Promise<Answer<WebhookAnswer>> {
    const commit = {
      id: after,
      message: o.message ?? 'Fix totals',
      added: [],
      removed: [],
      modified: o.files ?? [],
    }
    const payload = {
      ref: `refs/heads/${branch}`,
      before: o.before ?? sha(0),
      after: o.deleted ? '0'.repeat(40) : after,
      created: o.before === undefined,
      deleted: o.deleted === true,
      forced: false,
      commits: o.deleted ? [] : [commit],
      head_commit: o.deleted ? null : commit,
    }
    return this.#github('push', payload, o.id)
  }

  pullRequest(
    action: string,
    pr: PullRequestState,
    o: { id?: string } = {},
  ): Promise<Answer<WebhookAnswer>> {
    return this.#github('pull_request', this.pullRequestPayload(action, pr), o.id)
  }

  pullRequestPayload(action: string, pr: PullRequestState): object {
    const at = pr.at ?? ++this.#seconds
    const head =
      pr.fork === undefined ? { id: REPOSITORY_ID } : pr.fork === null ? null : { id: pr.fork }
    return {
      action,
      number: pr.number,
      pull_request: {
        title: pr.title ?? `Change ${pr.number}`,
        html_url: `https://git.example.com/${this.fullName}/pull/${pr.number}`,
        draft: pr.draft === true,
        merged: pr.merged === true,
        user: { login: pr.author ?? 'ada', id: 88 },
        author_association: 'OWNER',
        updated_at: new Date(at * 1_000).toISOString(),
        head: { ref: pr.branch ?? `feature-${pr.number}`, sha: pr.head, repo: head },
        base: { ref: pr.base ?? 'main', sha: sha(0), repo: { id: REPOSITORY_ID } },
      },
    }
  }

  opened = (pr: PullRequestState) => this.pullRequest('opened', pr)
  reopened = (pr: PullRequestState) => this.pullRequest('reopened', pr)
  updated = (pr: PullRequestState) => this.pullRequest('synchronize', pr)
  edited = (pr: PullRequestState) => this.pullRequest('edited', pr)
  merged = (pr: PullRequestState) => this.pullRequest('closed', { ...pr, merged: true })
  closed = (pr: PullRequestState) => this.pullRequest('closed', pr)

  /** A stored delivery of any host, signed for this project. */
  replay(f: Fixture, o: { id?: string; secret?: string } = {}): Promise<Answer<WebhookAnswer>> {
    return this.send(this.sign(f.provider, f.headers, f.payload, { ...o, isForm: f.isForm }))
  }

  async environments(): Promise<Environment[]> {
    const path = `/api/projects/${this.projectId}/environments`
    return (await this.cp.call<Environment[]>('GET', path)).body
  }

  async environment(identifier: string): Promise<Environment | undefined> {
    return (await this.environments()).find((e) => e.identifier === identifier)
  }

  async pullRequests(): Promise<PullRequest[]> {
    const path = `/api/projects/${this.projectId}/pull_requests`
    return (await this.cp.call<PullRequest[]>('GET', path)).body
  }

  async tasks(environmentId: number): Promise<Task[]> {
    const path = `/api/environments/${environmentId}/tasks?type=all&per_page=100`
    return (await this.cp.call<Task[]>('GET', path)).body
  }

  async deliveries(query = ''): Promise<Delivery[]> {
    const path = `/api/projects/${this.projectId}/deliveries?per_page=100${query}`
    return (await this.cp.call<Delivery[]>('GET', path)).body
  }
}

/** A project whose repository is the one the stored deliveries are about, and its host. */
export async function makeHost(
  cp: TestControlPlane,
  serverId: number,
  over: object = {},
): Promise<Host> {
  const project = await cp.make<ProjectCreated>('/api/projects', {
    name: 'preview',
    repo_url: 'https://git.example.com/acme/shop.git',
    domain: 'preview.example.com',
    server_ids: [serverId],
    default_recipe: 'manual',
    ...over,
  })
  return new Host(cp, project)
}
