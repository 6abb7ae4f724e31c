// A repository host as a model: random commands on pull requests and branches become the stream of events a real host
// would send, together with what is true at its end. Disturbing a stream (shuffle, double, drop) changes what arrives,
// never what is true. For the specs of events and of reconcile.
import type { Provider, PullRequestAction } from '@berth/shared'
import fc from 'fast-check'
import type { NormalisedEvent } from '../control-plane/src/webhooks/event.ts'

export interface TruePullRequest {
  number: number
  state: 'open' | 'merged' | 'closed'
  branch: string
  base: string
  head: string
  draft: boolean
  fromFork: boolean
}

/** What the host would answer if it were asked. */
export interface HostTruth {
  pullRequests: Map<number, TruePullRequest>
  /** Branches of the repository itself; forks' are not among them. */
  branches: Map<string, string>
}

export interface EventStream {
  events: NormalisedEvent[]
  truth: HostTruth
}

type Command =
  | { kind: 'open'; number: number; fork: boolean; draft: boolean }
  | { kind: 'commit'; number: number }
  | { kind: 'retarget' | 'toggle_draft' | 'merge' | 'close' | 'reopen'; number: number }
  | { kind: 'push_main' }

const command = (pulls: number, forks: boolean): fc.Arbitrary<Command> => {
  const number = fc.integer({ min: 1, max: pulls })
  return fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant('open' as const),
        number,
        fork: forks ? fc.boolean() : fc.constant(false),
        draft: fc.boolean(),
      }),
    },
    { weight: 5, arbitrary: fc.record({ kind: fc.constant('commit' as const), number }) },
    {
      weight: 5,
      arbitrary: fc.record({
        kind: fc.constantFrom('retarget', 'toggle_draft', 'merge', 'close', 'reopen'),
        number,
      }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('push_main' as const) }) },
  )
}

export interface StreamOptions {
  provider?: Provider
  /** Numbers 1 to this. */
  pullRequests?: number
  commands?: number
  forks?: boolean
  /** The repository the events are about. */
  fullName?: string
}

class Model {
  readonly truth: HostTruth = { pullRequests: new Map(), branches: new Map() }
  readonly events: NormalisedEvent[] = []
  readonly #o: StreamOptions
  #time = Date.parse('2026-11-15T09:00:00Z')
  #commits = 0
  #ids = 0

  constructor(o: StreamOptions) {
    this.#o = o
    this.truth.branches.set('main', this.#commit())
  }

  #commit(): string {
    this.#commits += 1
    return this.#commits.toString(16).padStart(8, '0').padEnd(40, '0')
  }

  #common() {
    this.#time += 1_000
    this.#ids += 1
    return {
      provider: this.#o.provider ?? ('github' as const),
      delivery_id: `delivery-${this.#ids}`,
      happened_at: new Date(this.#time).toISOString().replace('.000Z', 'Z'),
      actor: { external_id: '88', name: 'ada' },
      repository: {
        external_id: '4711',
        full_name: this.#o.fullName ?? 'acme/shop',
        web_url: `https://git.example.com/${this.#o.fullName ?? 'acme/shop'}`,
      },
    }
  }

  #push(branch: string, before: string | null, sha: string): void {
    this.truth.branches.set(branch, sha)
    const change = { branch, sha, before, deleted: false, message: 'Change', paths: null }
    this.events.push({ ...this.#common(), kind: 'push', changes: [change], truncated: false })
  }

  #say(action: PullRequestAction, pr: TruePullRequest): void {
    this.truth.pullRequests.set(pr.number, pr)
    this.events.push({
      ...this.#common(),
      kind: 'pull_request',
      action,
      pull_request: {
        number: pr.number,
        title: `Change ${pr.number}`,
        url: `https://git.example.com/acme/shop/pull/${pr.number}`,
        author: 'ada',
        draft: pr.draft,
        head_branch: pr.branch,
        head_sha: pr.head,
        before: null,
        head_ref: `refs/pull/${pr.number}/head`,
        base_branch: pr.base,
        from_fork: pr.fromFork,
        message: null,
      },
    })
  }

  /** Commands that a host would refuse do nothing. */
  run(c: Command): void {
    if (c.kind === 'push_main') {
      this.#push('main', this.truth.branches.get('main') ?? null, this.#commit())
      return
    }
    const pr = this.truth.pullRequests.get(c.number)
    if (c.kind === 'open') {
      if (pr) return
      const branch = `feature-${c.number}`
      const head = this.#commit()
      if (!c.fork) this.#push(branch, null, head)
      const { number, draft, fork: fromFork } = c
      this.#say('opened', { number, draft, fromFork, branch, head, state: 'open', base: 'main' })
      return
    }
    if (!pr) return
    if (c.kind === 'reopen') {
      if (pr.state === 'closed') this.#say('reopened', { ...pr, state: 'open' })
      return
    }
    if (pr.state !== 'open') return
    switch (c.kind) {
      case 'commit': {
        const head = this.#commit()
        if (!pr.fromFork) this.#push(pr.branch, pr.head, head)
        this.#say('updated', { ...pr, head })
        break
      }
      case 'retarget':
        this.#say('edited', { ...pr, base: pr.base === 'main' ? 'release/1.x' : 'main' })
        break
      case 'toggle_draft':
        this.#say('edited', { ...pr, draft: !pr.draft })
        break
      case 'merge':
        this.#say('merged', { ...pr, state: 'merged' })
        break
      case 'close':
        this.#say('closed', { ...pr, state: 'closed' })
        break
    }
  }
}

export const eventStreams = (o: StreamOptions = {}): fc.Arbitrary<EventStream> =>
  fc
    .array(command(o.pullRequests ?? 4, o.forks ?? false), {
      minLength: 3,
      maxLength: o.commands ?? 30,
    })
    .map((commands) => {
      const model = new Model(o)
      for (const one of commands) model.run(one)
      return { events: model.events, truth: model.truth }
    })

export interface Disturbance {
  shuffle?: boolean
  /** Parts of 100 that arrive twice, or not at all. */
  doubled?: number
  dropped?: number
}

/** What arrives instead; drawn from the same run, so that a failure can be repeated by its seed. */
export const disturbed = (
  stream: fc.Arbitrary<EventStream>,
  o: Disturbance,
): fc.Arbitrary<EventStream & { arriving: NormalisedEvent[] }> =>
  stream.chain((whole) => {
    const dice = fc.record({
      order: fc.integer(),
      doubled: fc.integer({ min: 1, max: 100 }),
      dropped: fc.integer({ min: 1, max: 100 }),
    })
    const { length } = whole.events
    return fc.array(dice, { minLength: length, maxLength: length }).map((rolls) => {
      const marked = whole.events.flatMap((event, i) => {
        const roll = rolls[i]
        if (!roll || roll.dropped <= (o.dropped ?? 0)) return []
        const copies = roll.doubled <= (o.doubled ?? 0) ? 2 : 1
        return Array.from({ length: copies }, (_, n) => ({ event, order: roll.order * (n + 1) }))
      })
      const order = o.shuffle ? marked.toSorted((a, b) => a.order - b.order) : marked
      return { ...whole, arriving: order.map((m) => m.event) }
    })
  })
