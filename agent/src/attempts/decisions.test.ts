// The three decisions about attempts as complete tables: every desired state × everything the journal may hold, every
// combination of files on the disk, and random sets of attempts for the environment lock.
import { failureWord, TASKS } from '@berth/shared'
import { AttemptState, Desired, Recipe } from '@berth/shared/wire'
import { expect, test } from 'vitest'
import { type AcceptFacts, decideAccept } from './accept.ts'
import { decideAdoption, type RunnerFacts } from './adoption.ts'
import { type Candidate, decideStarts } from './starts.ts'

const facts = (over: Partial<AcceptFacts> = {}): AcceptFacts => ({
  desired: Desired.RUNNING,
  fence: 8n,
  hasSpec: true,
  kind: 'deploy',
  recipe: Recipe.MANUAL,
  buried: false,
  maxFence: 7n,
  isAnother: false,
  draining: false,
  freeBytes: TASKS.acceptFreeBytes,
  ...over,
})
const R = Desired.RUNNING
const S = Desired.STOPPED
const F = Desired.FORGOTTEN
const U = Desired.UNSPECIFIED

test.each<[string, Partial<AcceptFacts>, string]>([
  ['a new attempt with a higher fence', {}, 'accept'],
  ['the same fence', { fence: 7n }, 'refuse stale_fence'],
  ['a lower fence', { fence: 1n }, 'refuse stale_fence'],
  ['a removal on a full disk', { kind: 'destroy', freeBytes: 20 * 1_048_576 }, 'accept'],
  ['a removal with no room for its log', { kind: 'destroy', freeBytes: 1 }, 'refuse disk_full'],
  ['a removal of an old fence', { kind: 'destroy', fence: 3n }, 'refuse stale_fence'],
  ['another environment of the same number', { isAnother: true }, 'refuse stale_fence'],
  [
    'its removal: what lies there is not its own',
    { isAnother: true, kind: 'destroy' },
    'refuse stale_fence',
  ],
  ['an unknown kind', { kind: undefined }, 'refuse agent_outdated'],
  ['an unknown recipe', { recipe: 9 as Recipe }, 'refuse agent_outdated'],
  ['no recipe', { recipe: Recipe.UNSPECIFIED }, 'refuse agent_outdated'],
  ['a draining agent', { draining: true }, 'refuse draining'],
  ['a disk one byte short', { freeBytes: TASKS.acceptFreeBytes - 1 }, 'refuse disk_full'],
  [
    'a stale fence on a draining agent: final, not repeated',
    { fence: 7n, draining: true },
    'refuse stale_fence',
  ],
  ['wanted, described nowhere, unknown here', { hasSpec: false }, 'bury 110'],
  ['never seen, to be stopped', { desired: S }, 'bury 120'],
  ['never seen, to be stopped, low fence', { desired: S, fence: 1n }, 'bury 120'],
  ['never seen, to be forgotten', { desired: F }, 'nothing'],
  ['never seen, unknown wish', { desired: U }, 'nothing'],
])('%s', (_name, over, expected) => {
  const v = decideAccept(facts(over))
  const word = v.do === 'refuse' ? ` ${failureWord(v.code)}` : ''
  expect(`${v.do}${word}${v.do === 'bury' ? ` ${v.state}` : ''}`).toBe(expected)
})

test('an attempt seen before is never accepted again: desired × state × description', () => {
  const states = [20, 30, 40, 50, 100, 110, 120, 130, 140] as AttemptState[]
  const row = (desired: Desired, hasSpec: boolean): string =>
    states
      // no other reason to accept or refuse it may matter
      .map((state) => ({ known: { state, desired: R }, maxFence: 0n, draining: true }))
      .map((over) => decideAccept(facts({ desired, hasSpec, ...over })).do)
      .join(' ')
  expect({
    runningDescribed: row(R, true),
    runningBare: row(R, false),
    stopped: row(S, true),
    stoppedBare: row(S, false),
    forgotten: row(F, true),
    forgottenBare: row(F, false),
    unknownWish: row(U, true),
  }).toEqual({
    runningDescribed: 'keep report report report report report report report report',
    runningBare: 'keep keep keep keep report report report report report',
    stopped: 'stop stop stop stop report report report report report',
    stoppedBare: 'stop stop stop stop report report report report report',
    forgotten: 'stop stop stop stop forget forget forget forget forget',
    forgottenBare: 'stop stop stop stop forget forget forget forget forget',
    unknownWish: 'nothing nothing nothing nothing nothing nothing nothing nothing nothing',
  })
})

test.each([
  [R, 'report'],
  [S, 'report'],
  [F, 'nothing'],
])('a tombstone answers %s', (desired, expected) => {
  expect(decideAccept(facts({ desired, buried: true, maxFence: 0n })).do).toBe(expected)
})

test('re-adoption: every combination of facts', () => {
  const bools = [false, true]
  const table = new Map<string, Set<string>>()
  for (const terminal of bools) {
    for (const claim of ['none', 'runner', 'daemon'] as const) {
      for (const sameBoot of bools) {
        for (const alive of bools) {
          for (const starting of bools) {
            for (const folderLost of bools) {
              const f: RunnerFacts = { terminal, claim, sameBoot, alive, starting, folderLost }
              const key = terminal
                ? 'terminal record'
                : folderLost
                  ? 'folder lost'
                  : claim === 'none'
                    ? `no claim, ${starting ? 'starting' : 'nobody starting'}`
                    : claim === 'daemon'
                      ? 'abandoned'
                      : `claimed, ${sameBoot ? (alive ? 'alive' : 'gone') : 'other boot'}`
              const cell = table.get(key) ?? new Set()
              table.set(key, cell.add(decideAdoption(f)))
            }
          }
        }
      }
    }
  }
  expect(Object.fromEntries([...table].map(([k, v]) => [k, [...v].join()]))).toEqual({
    'terminal record': 'finished',
    'folder lost': 'runner_died',
    'no claim, starting': 'wait',
    'no claim, nobody starting': 'abandon',
    abandoned: 'not_started',
    'claimed, alive': 'adopt',
    'claimed, gone': 'runner_died',
    'claimed, other boot': 'host_rebooted',
  })
})

const candidate = (id: string, over: Partial<Candidate> = {}): Candidate => ({
  id,
  environmentId: 1,
  fence: 1n,
  state: AttemptState.ACCEPTED,
  desired: R,
  secretsHeld: true,
  isBuilding: false,
  mayBuild: false,
  waitedMs: 0,
  startWithinMs: 1_000,
  ...over,
})
const limits = { taskSlots: 2, builders: 2, draining: false }
const none = { start: [], stop: [], cancel: [], expire: [], waiting: [] }

test.each<[string, Candidate[], Partial<ReturnType<typeof decideStarts>>]>([
  ['free environment', [candidate('a')], { start: ['a'] }],
  [
    'no secrets yet',
    [candidate('a', { secretsHeld: false })],
    { waiting: [{ id: 'a', waitingFor: '' }] },
  ],
  ['waited too long', [candidate('a', { waitedMs: 1_000 })], { expire: ['a'] }],
  [
    'to be stopped before its start',
    [candidate('a', { desired: S })],
    { cancel: [{ id: 'a', why: 'asked' }] },
  ],
  [
    'stop wins over expiry: nothing is refused that was canceled',
    [candidate('a', { desired: S, waitedMs: 5_000 })],
    { cancel: [{ id: 'a', why: 'asked' }] },
  ],
  [
    'a live one to be stopped',
    [candidate('a', { state: 40, desired: S })],
    { stop: [{ id: 'a', why: 'asked' }] },
  ],
  [
    'the earlier one is stopped first and the later one waits',
    [candidate('a', { state: 40 }), candidate('b', { fence: 2n })],
    { stop: [{ id: 'a', why: 'superseded' }], waiting: [{ id: 'b', waitingFor: 'environment' }] },
  ],
  [
    'an expired successor stops nobody',
    [candidate('a', { state: 40 }), candidate('b', { fence: 2n, waitedMs: 9_999 })],
    { expire: ['b'] },
  ],
  [
    'of two waiting ones the newer fence starts',
    [candidate('a', { fence: 2n }), candidate('b', { fence: 1n })],
    { start: ['a'], cancel: [{ id: 'b', why: 'superseded' }] },
  ],
  [
    'other environments start in order until the server is busy',
    [
      candidate('a', { state: 30 }),
      candidate('c', { environmentId: 3 }),
      candidate('b', { environmentId: 2 }),
    ],
    { start: ['b'], waiting: [{ id: 'c', waitingFor: 'dispatch' }] },
  ],
  [
    'one that builds, or waits for a build slot, leaves its task slot to others',
    [
      candidate('a', { state: 40, isBuilding: true }),
      candidate('b', { state: 40, environmentId: 2 }),
      candidate('c', { environmentId: 3, mayBuild: true }),
      candidate('d', { environmentId: 4 }),
    ],
    { start: ['c'], waiting: [{ id: 'd', waitingFor: 'dispatch' }] },
  ],
  [
    'with many at their build, deployments wait, and everything else goes on',
    [
      candidate('a', { state: 40, isBuilding: true }),
      candidate('b', { state: 40, environmentId: 2, isBuilding: true }),
      candidate('c', { environmentId: 3, mayBuild: true }),
      candidate('d', { environmentId: 4 }),
    ],
    { start: ['d'], waiting: [{ id: 'c', waitingFor: 'dispatch' }] },
  ],
  [
    'after their builds, more may run than there are slots; nothing new starts then',
    [
      candidate('a', { state: 40 }),
      candidate('b', { state: 40, environmentId: 2 }),
      candidate('c', { state: 40, environmentId: 3 }),
      candidate('d', { environmentId: 4 }),
    ],
    { waiting: [{ id: 'd', waitingFor: 'dispatch' }] },
  ],
  [
    'a finished one holds nothing',
    [candidate('a', { state: 110 }), candidate('b', { fence: 2n })],
    { start: ['b'] },
  ],
])('%s', (_name, candidates, expected) => {
  expect(decideStarts(candidates, limits)).toEqual({ ...none, ...expected })
})

test('a draining agent starts nothing', () => {
  const { start, waiting } = decideStarts([candidate('a')], { ...limits, draining: true })
  expect({ start, waiting }).toEqual({ start: [], waiting: [{ id: 'a', waitingFor: '' }] })
})

test('seeded crowds: one attempt per environment, never an old fence, never too many', () => {
  let seed = 20_260
  const random = (n: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
    return seed % n
  }
  for (let round = 0; round < 2_000; round++) {
    const crowd = Array.from({ length: random(9) }, (_, i) =>
      candidate(`a${i}`, {
        environmentId: 1 + random(3),
        fence: BigInt(i),
        state: ([20, 20, 20, 30, 40, 50, 100] as AttemptState[])[random(7)] ?? 20,
        desired: random(4) === 0 ? S : R,
        secretsHeld: random(5) > 0,
        waitedMs: random(6) === 0 ? 2_000 : 0,
        isBuilding: random(4) === 0,
        mayBuild: random(2) === 0,
      }),
    )
    const taskSlots = 1 + random(3)
    const out = decideStarts(crowd, { taskSlots, builders: 1 + random(3), draining: false })
    const live = crowd.filter((c) => c.state >= 30 && c.state < 100)
    const started = crowd.filter((c) => out.start.includes(c.id))
    const environments = [...live, ...started].map((c) => c.environmentId)
    for (const c of started) {
      expect(environments.filter((e) => e === c.environmentId)).toHaveLength(1)
      const newer = crowd.filter((o) => o.environmentId === c.environmentId && o.fence > c.fence)
      expect(newer.every((o) => o.state >= 100 || o.desired === S || o.waitedMs > 0)).toBe(true)
    }
    const inSlots = live.filter((c) => !c.isBuilding).length + started.length
    if (started.length > 0) expect(inSlots).toBeLessThanOrEqual(taskSlots)
    const named = [...out.start, ...out.expire, ...[...out.cancel, ...out.waiting].map((w) => w.id)]
    const accepted = crowd.filter((c) => c.state === AttemptState.ACCEPTED).map((c) => c.id)
    expect(named.sort()).toEqual(accepted.sort())
  }
})
