// A repository host for tests: it signs and sends deliveries for one project over real HTTP, in GitHub's shape unless a
// stored delivery of another host is given. Every delivery has an id and a time of its own, as a host's do, and what was
// told is what a look at the repository finds, unless a test says otherwise.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Provider } from '@berth/shared'
import type {
  Delivery,
  Environment,
  ProjectCreated,
  PullRequest,
  Task,
  WebhookAnswer,
} from '@berth/shared/rest'
import type { NormalisedEvent } from '../control-plane/src/webhooks/event.ts'
import {
  encode,
  type Fixture,
  parseFixture,
  signAs,
} from '../control-plane/src/webhooks/fixtures.testing.ts'
import type { Answer, TestControlPlane } from './control-plane.ts'
import { advertise } from './fake-host.ts'
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
  /** The head before, where a push is told. */
  before?: string
  /** It says less than what the repository has by now. */
  late?: boolean
  /** Seconds since the epoch; by itself each is later than the one before. */
  at?: number
}

export interface Sent {
  provider: Provider
  headers: Record<string, string>
  body: string
}

const REPOSITORY_ID = 4711

/** The repository as it is, apart from what deliveries tell of it. */
export interface Forge {
  refs: Map<string, string>
  /** How often it was looked at. */
  looks: number
  isDown: boolean
}

const makeForge = (): Forge => ({ refs: new Map(), looks: 0, isDown: false })

export class Host {
  readonly cp: TestControlPlane
  readonly projectId: number
  readonly fullName: string
  readonly repoUrl: string
  secret: string
  readonly forge: Forge
  #seconds = Math.floor(Date.now() / 1_000) - 300

  constructor(cp: TestControlPlane, project: ProjectCreated, forge: Forge = makeForge()) {
    this.cp = cp
    this.forge = forge
    this.projectId = project.id
    this.secret = project.webhook_secret
    this.repoUrl = project.repo_url
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
    o: {
      before?: string
      message?: string
      files?: string[]
      id?: string
      deleted?: boolean
      late?: boolean
    } = {},
  ): Promise<Answer<WebhookAnswer>> {
    if (!o.late) this.#show(`refs/heads/${branch}`, o.deleted ? null : after)
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
    const { number, head, fork, branch = `feature-${number}`, late } = pr
    if (!late) {
      this.#show(`refs/pull/${number}/head`, head)
      if (fork === undefined) this.#show(`refs/heads/${branch}`, head)
    }
    return this.#github('pull_request', this.pullRequestPayload(action, pr), o.id)
  }

  #show(ref: string, head: string | null): void {
    // a repository with a branch is never without any
    if (!this.refs.has('refs/heads/main')) this.refs.set('refs/heads/main', sha('first'))
    if (head === null) this.refs.delete(ref)
    else this.refs.set(ref, head)
  }

  #showEvent(event: NormalisedEvent): void {
    if (event.kind === 'push') {
      for (const { branch, sha: head } of event.changes) this.#show(`refs/heads/${branch}`, head)
    }
    if (event.kind !== 'pull_request') return
    const { head_branch, head_ref, head_sha, from_fork, number } = event.pull_request
    const head = head_sha ?? sha(number)
    if (head_ref !== null) this.#show(head_ref, head)
    if (!from_fork) this.#show(`refs/heads/${head_branch}`, head)
  }

  pullRequestPayload(action: string, pr: PullRequestState): object {
    const at = pr.at ?? ++this.#seconds
    const head =
      pr.fork === undefined ? { id: REPOSITORY_ID } : pr.fork === null ? null : { id: pr.fork }
    return {
      action,
      number: pr.number,
      ...(pr.before === undefined ? {} : { before: pr.before, after: pr.head }),
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
  replay(
    f: Fixture,
    o: { id?: string; secret?: string; late?: boolean } = {},
  ): Promise<Answer<WebhookAnswer>> {
    const parsed = parseFixture(f)
    if (parsed.ok && !o.late) this.#showEvent(parsed.event)
    return this.send(this.sign(f.provider, f.headers, f.payload, { ...o, isForm: f.isForm }))
  }

  /** What a look at the repository finds. */
  get refs(): Map<string, string> {
    return this.forge.refs
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
  const forge = makeForge()
  const server = createServer((_, reply) => {
    forge.looks += 1
    if (forge.isDown) reply.writeHead(503).end()
    else advertise(forge.refs, reply)
  })
  server.listen(0, '127.0.0.1').unref()
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const project = await cp.make<ProjectCreated>('/api/projects', {
    name: 'preview',
    repo_url: `http://127.0.0.1:${port}/acme/shop.git`,
    domain: 'preview.example.com',
    server_ids: [serverId],
    default_recipe: 'manual',
    ...over,
  })
  return new Host(cp, project, forge)
}
