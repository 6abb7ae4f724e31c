// Every forge's deliveries become the one event; malformed ones become nothing harmful.
import { describe, expect, test } from 'vitest'
import { deliveryId, detectProvider, parseDelivery } from './detect.ts'
import { eventName, type NormalisedEvent, type PullRequestEvent, type PushEvent } from './event.ts'
import { encode, FIXTURES, fixture, parseFixture } from './fixtures.testing.ts'

const A = 'a1'.repeat(20)
const B = 'b2'.repeat(20)
const C = 'c3'.repeat(20)

function parsed(provider: Parameters<typeof fixture>[0], name: string): NormalisedEvent {
  const result = parseFixture(fixture(provider, name))
  if (!result.ok) throw new Error(result.where)
  return result.event
}
const pull = (provider: Parameters<typeof fixture>[0], name: string): PullRequestEvent => {
  const event = parsed(provider, name)
  if (event.kind !== 'pull_request') throw new Error(`${provider}/${name} is ${event.kind}`)
  return event
}
const push = (provider: Parameters<typeof fixture>[0], name: string): PushEvent => {
  const event = parsed(provider, name)
  if (event.kind !== 'push') throw new Error(`${provider}/${name} is ${event.kind}`)
  return event
}

/** The meaning of each stored delivery, in one word. */
const MEANINGS: Record<string, Record<string, string>> = {
  github: {
    ping: 'ping',
    push: 'push',
    push_form: 'push',
    push_forced: 'push',
    push_new_branch: 'push',
    push_branch_deleted: 'push',
    push_tag: 'push.tag',
    opened: 'pull_request.opened',
    draft_opened: 'pull_request.opened',
    reopened: 'pull_request.reopened',
    synchronize: 'pull_request.updated',
    retargeted: 'pull_request.edited',
    converted_to_draft: 'pull_request.edited',
    ready_for_review: 'pull_request.edited',
    merged: 'pull_request.merged',
    closed: 'pull_request.closed',
    labeled: 'pull_request.labeled',
    fork_opened: 'pull_request.opened',
    fork_deleted: 'pull_request.updated',
    fork_inside_fork: 'pull_request.opened',
    issue_comment: 'issue_comment',
  },
  gitlab: {
    push: 'push',
    push_token: 'push',
    push_branch_deleted: 'push',
    tag_push: 'Tag Push Hook',
    opened: 'pull_request.opened',
    draft_opened: 'pull_request.opened',
    reopened: 'pull_request.reopened',
    updated: 'pull_request.updated',
    edited: 'pull_request.edited',
    merged: 'pull_request.merged',
    closed: 'pull_request.closed',
    closed_token: 'pull_request.closed',
    approved: 'merge_request.approved',
    fork_opened: 'pull_request.opened',
    fork_deleted: 'pull_request.opened',
    note: 'Note Hook',
  },
  bitbucket_cloud: {
    push: 'push',
    push_several_refs: 'push',
    push_tag: 'repo:push.tag',
    opened: 'pull_request.opened',
    updated: 'pull_request.updated',
    merged: 'pull_request.merged',
    closed: 'pull_request.closed',
    fork_opened: 'pull_request.opened',
    fork_deleted: 'pull_request.updated',
    comment: 'pullrequest:comment_created',
  },
  bitbucket_server: {
    ping: 'ping',
    push: 'push',
    push_several_refs: 'push',
    opened: 'pull_request.opened',
    reopened: 'pull_request.reopened',
    updated: 'pull_request.updated',
    retargeted: 'pull_request.edited',
    merged: 'pull_request.merged',
    closed: 'pull_request.closed',
    deleted: 'pull_request.closed',
    fork_opened: 'pull_request.opened',
    fork_deleted: 'pull_request.updated',
    comment: 'pr:comment:added',
  },
}
const GITEA = {
  push: 'push',
  push_form: 'push',
  push_branch_deleted: 'push',
  opened: 'pull_request.opened',
  reopened: 'pull_request.reopened',
  synchronized: 'pull_request.updated',
  edited: 'pull_request.edited',
  merged: 'pull_request.merged',
  closed: 'pull_request.closed',
  label_updated: 'pull_request.label_updated',
  fork_opened: 'pull_request.opened',
  fork_deleted: 'pull_request.updated',
}
MEANINGS.gitea = GITEA
MEANINGS.forgejo = GITEA

test.each(FIXTURES.map((f) => [`${f.provider} ${f.name}`, f] as const))('%s', (_, f) => {
  expect(detectProvider(f.headers)).toBe(f.provider)
  const result = parseFixture(f)
  expect(result.ok && eventName(result.event)).toBe(MEANINGS[f.provider]?.[f.name])
  // no clone address of a payload is kept
  expect(JSON.stringify(result)).not.toContain('clone.invalid')
  if (!result.ok || result.event.kind === 'ping' || result.event.kind === 'other') return
  expect(result.event.repository.full_name.toLowerCase()).toBe('acme/shop')
  expect(result.event.actor?.name).toBe('ada')
  expect(result.event.delivery_id).toMatch(/^[0-9a-f-]{36}$/)
})

test.each([
  ['github', 'retargeted', 'pull_request', { state: 'closed', merged: true }, 'merged'],
  ['github', 'synchronize', 'pull_request', { state: 'closed' }, 'closed'],
  ['gitea', 'edited', 'pull_request', { state: 'closed', merged: true }, 'merged'],
  ['forgejo', 'synchronized', 'pull_request', { state: 'closed' }, 'closed'],
  ['gitlab', 'updated', 'object_attributes', { state: 'merged' }, 'merged'],
  ['gitlab', 'edited', 'object_attributes', { state: 'closed' }, 'closed'],
  ['bitbucket_cloud', 'updated', 'pullrequest', { state: 'MERGED' }, 'merged'],
  ['bitbucket_cloud', 'updated', 'pullrequest', { state: 'DECLINED' }, 'closed'],
  ['bitbucket_server', 'retargeted', 'pullRequest', { state: 'MERGED' }, 'merged'],
  ['bitbucket_server', 'updated', 'pullRequest', { state: 'DECLINED' }, 'closed'],
] as const)('%s: %s of one that is over stays over', (provider, name, key, over, action) => {
  const f = fixture(provider, name)
  const whole = f.payload as Record<string, object>
  const payload = { ...whole, [key]: { ...whole[key], ...over } }
  const result = parseFixture({ ...f, payload, body: encode(payload, f.isForm) })
  expect(result.ok && result.event.kind === 'pull_request' && result.event.action).toBe(action)
})

test.each([
  ['github', 'synchronize'],
  ['gitlab', 'updated'],
  ['bitbucket_server', 'updated'],
] as const)('%s: a new head names the one before it', (provider, name) => {
  expect(pull(provider, name).pull_request).toMatchObject({ before: B, head_sha: C })
})

test('a merge request in the shape of the design', () => {
  const { delivery_id, ...event } = pull('gitlab', 'updated')
  expect(delivery_id).toMatch(/^3f7c9d52-/)
  expect(event).toEqual({
    provider: 'gitlab',
    kind: 'pull_request',
    action: 'updated',
    happened_at: '2026-11-15T09:20:00Z',
    repository: {
      external_id: '4711',
      full_name: 'acme/shop',
      web_url: 'https://git.example.com/acme/shop',
    },
    pull_request: {
      number: 42,
      title: 'Checkout v2',
      url: 'https://git.example.com/acme/shop/-/merge_requests/42',
      author: 'ada',
      draft: false,
      head_branch: 'checkout-v2',
      head_sha: C,
      before: 'b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2',
      head_ref: 'refs/merge-requests/42/head',
      base_branch: 'main',
      from_fork: false,
      message: 'Round totals [skip deploy]\n',
    },
    actor: { external_id: '88', name: 'ada' },
  })
})

describe('pushes', () => {
  test('branch, commits and message of each host', () => {
    for (const provider of ['github', 'gitlab', 'gitea', 'forgejo'] as const) {
      expect(push(provider, 'push').changes).toMatchObject([
        { branch: 'main', sha: B, before: A, deleted: false },
      ])
      expect(push(provider, 'push').changes[0]?.message?.trim()).toBe('Fix totals')
    }
  })

  test('several refs in one event; tags are no branches', () => {
    for (const provider of ['bitbucket_cloud', 'bitbucket_server'] as const) {
      const { changes, truncated } = push(provider, 'push_several_refs')
      expect(truncated).toBe(false)
      expect(changes.map((c) => [c.branch, c.sha, c.deleted])).toEqual([
        ['main', B, false],
        ['feature/cart', C, false],
        ['checkout-v2', null, true],
      ])
    }
  })

  test('a deleted branch has no commit', () => {
    for (const provider of ['github', 'gitlab', 'gitea'] as const) {
      const [change] = push(provider, 'push_branch_deleted').changes
      expect(change).toMatchObject({ branch: 'checkout-v2', sha: null, deleted: true })
    }
  })

  test('form bodies hold the same, special characters included', () => {
    for (const provider of ['github', 'gitea', 'forgejo'] as const) {
      expect(push(provider, 'push_form').changes[0]?.message).toBe('Größe & Preis = 5 + 5 %')
    }
  })

  test('changed paths only where the payload tells all of them', () => {
    expect(push('github', 'push').changes[0]?.paths?.toSorted()).toEqual([
      'README.md',
      'src/cart.ts',
    ])
    expect(push('github', 'push_forced').changes[0]?.paths).toBeNull()
    expect(push('github', 'push_new_branch').changes[0]?.paths).toBeNull()
    expect(push('gitlab', 'push').changes[0]?.paths).toBeNull()
    expect(push('gitea', 'push').changes[0]?.paths).toBeNull()
  })
})

describe('forks: true unless both repositories are known and the same', () => {
  test.each([
    'github',
    'gitlab',
    'gitea',
    'forgejo',
    'bitbucket_cloud',
    'bitbucket_server',
  ] as const)('%s', (provider) => {
    expect(pull(provider, 'opened').pull_request.from_fork).toBe(false)
    expect(pull(provider, 'fork_opened').pull_request.from_fork).toBe(true)
    expect(pull(provider, 'fork_deleted').pull_request.from_fork).toBe(true)
  })

  test('a repository that is a fork itself has pull requests of its own', () => {
    expect(pull('github', 'fork_inside_fork').pull_request.from_fork).toBe(false)
  })

  test('missing ids count as a fork, whatever the names say', () => {
    const f = fixture('github', 'opened')
    const payload = structuredClone(f.payload) as {
      pull_request: { head: { repo: { id?: number; full_name: string } } }
    }
    delete payload.pull_request.head.repo.id
    const event = parseFixture({ ...f, body: encode(payload, false) })
    expect(event.ok && event.event.kind === 'pull_request').toBe(true)
    expect(JSON.stringify(event)).toContain('"from_fork":true')
  })
})

test('a short hash is never a head', () => {
  expect(pull('bitbucket_cloud', 'opened').pull_request).toMatchObject({
    head_sha: null,
    head_ref: null,
    head_branch: 'checkout-v2',
  })
})

test('times of every host come out alike', () => {
  for (const provider of ['github', 'gitlab', 'gitea', 'bitbucket_server'] as const) {
    expect(pull(provider, 'opened').happened_at).toBe('2026-11-15T09:12:29Z')
  }
  expect(pull('bitbucket_cloud', 'opened').happened_at).toBe('2026-11-15T09:12:29.123Z')
})

describe('what is not understood says where', () => {
  const broken = (change: (payload: Record<string, unknown>) => void) => {
    const f = fixture('github', 'opened')
    const payload = structuredClone(f.payload) as Record<string, unknown>
    change(payload)
    return parseFixture({ ...f, body: encode(payload, false) })
  }
  test.each([
    ['-upload', 'a leading dash'],
    ['a..b', 'two dots'],
    ['a\u0000b', 'a control character'],
    ['a b', 'a space'],
    ['x.lock', 'a lock'],
    ['', 'nothing'],
    ['refs/../../etc', 'a way out'],
  ])('a branch %j (%s)', (name) => {
    const result = broken((p) => {
      ;(p.pull_request as { head: { ref: string } }).head.ref = name
    })
    expect(result).toEqual({
      ok: false,
      where: 'pull_request.head.ref is not the name of a branch',
    })
  })

  test.each([
    'refs/heads/main\u0000',
    '\u2028refs/heads/main',
    'refs/heads/main ',
    'refs/heads/-x',
    'refs/heads/',
    '',
    null,
  ])('a pushed ref %j is not smoothed into the name of a branch', (ref) => {
    for (const provider of ['github', 'gitlab', 'gitea'] as const) {
      const f = fixture(provider, 'push')
      const payload = { ...(f.payload as object), ref }
      const where = 'ref is not the name of a branch'
      expect(parseFixture({ ...f, body: encode(payload, false) })).toEqual({ ok: false, where })
    }
  })

  test('a hash that is none, a number that is none, a body that is no JSON', () => {
    expect(
      broken((p) => {
        ;(p.pull_request as { head: { sha: string } }).head.sha = '--upload-pack=x'
      }),
    ).toMatchObject({ ok: false, where: 'pull_request.head.sha is not a full commit hash' })
    for (const n of [0, -1, 1.5, 2 ** 31, '42', null]) {
      const result = broken((p) => Object.assign(p, { number: n }))
      expect(result).toMatchObject({ ok: false, where: 'number is not a positive integer' })
    }
    const f = fixture('github', 'push')
    for (const body of ['', '{', 'null', '[]', '"x"', '7']) {
      expect(parseFixture({ ...f, body }).ok).toBe(false)
    }
    expect(parseFixture({ ...f, isForm: true, body: 'load=1' }).ok).toBe(false)
  })

  test('keys of the prototype are data', () => {
    const f = fixture('github', 'opened')
    const body = `{"__proto__":{"number":1},"constructor":{"x":1},"action":"__proto__"}`
    const result = parseFixture({ ...f, body })
    expect(result.ok && eventName(result.event)).toBe('pull_request.__proto__')
    expect(({} as Record<string, unknown>).number).toBeUndefined()
  })

  test.each(['"constructor"', '"__proto__"', '{ "toString": 1 }', '[]', '7'])(
    'a state of Bitbucket that is %s ends no pull request and not the parser',
    (state) => {
      const f = fixture('bitbucket_cloud', 'updated')
      const body = f.body.replace(/"state":\s*"OPEN"/, `"state":${state}`)
      expect(body).not.toBe(f.body)
      const result = parseFixture({ ...f, body })
      expect(result.ok && eventName(result.event)).toBe('pull_request.updated')
    },
  )
})

test('addresses that are no web addresses are not kept', () => {
  const f = fixture('github', 'opened')
  const payload = structuredClone(f.payload) as { pull_request: { html_url: string } }
  for (const address of ['javascript:alert(1)', 'https://git.example.com/\u0000']) {
    payload.pull_request.html_url = address
    const result = parseFixture({ ...f, body: encode(payload, false) })
    expect(result.ok && result.event.kind === 'pull_request' && result.event.pull_request.url).toBe(
      '',
    )
  }
})

test('without an id of the host, equal bytes are one delivery', () => {
  expect(deliveryId('github', {}, 'abc')).toBe('sha256:abc')
  expect(deliveryId('github', { 'x-github-delivery': 'a b' }, 'abc')).toBe('sha256:abc')
  const gitlab = { 'x-gitlab-event-uuid': 'u', 'webhook-id': 'w', 'idempotency-key': 'i' }
  expect(deliveryId('gitlab', gitlab, 'abc')).toBe('i')
})

test('an event key that both kinds of Bitbucket could send', () => {
  expect(detectProvider({ 'x-event-key': 'repo:fork', 'x-hook-uuid': '{1}' })).toBe(
    'bitbucket_cloud',
  )
  expect(detectProvider({ 'x-event-key': 'repo:forked' })).toBe('bitbucket_server')
  expect(detectProvider({})).toBeUndefined()
})

test('a payload of a deep kind does not end the parser', () => {
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
  const { headers } = fixture('github', 'push')
  const delivery = { provider: 'github' as const, headers, deliveryId: '1', isForm: false }
  expect(parseDelivery({ ...delivery, body: deep }).ok).toBe(false)
})
