import { expect, test } from 'vitest'
import { decideRollout, ROLLOUT, type RolloutServer, waveOf, waveSizes } from './rollout.ts'

const server = (n: number, changed: Partial<RolloutServer> = {}): RolloutServer => ({
  id: String(n),
  name: `s${n}`,
  state: 'waiting',
  reason: '',
  offeredAt: null,
  isOnline: true,
  isCurrent: false,
  ...changed,
})
const many = (count: number, changed: (n: number) => Partial<RolloutServer> = () => ({})) =>
  Array.from({ length: count }, (_, n) => server(n, changed(n)))
const kept = (below: number) => (n: number) => (n < below ? { state: 'kept' as const } : {})

test('waves: one server, a tenth more, all', () => {
  expect(waveSizes(1)).toEqual([1, 1, 1])
  expect(waveSizes(5)).toEqual([1, 2, 5])
  expect(waveSizes(100)).toEqual([1, 11, 100])
  expect([0, 1, 10, 11, 99].map((done) => waveOf(100, done))).toEqual([1, 2, 2, 3, 3])
})

test('the first wave is one server that is online', () => {
  const servers = many(30, (n) => ({ isOnline: n > 1 }))
  expect(decideRollout(servers, 0).offer).toEqual(['2'])
})

test('the next wave begins when the one before it is over', () => {
  expect(decideRollout(many(30, kept(1)), 0).offer).toHaveLength(3)
  const trying = many(30, (n) => (n === 0 ? { state: 'offered', offeredAt: 0 } : {}))
  expect(decideRollout(trying, 1).offer).toEqual([])
  expect(decideRollout(many(30, kept(3)), 0).offer).toHaveLength(1)
  expect(decideRollout(many(100, kept(11)), 0).offer).toHaveLength(ROLLOUT.atOnce)
})

test('the first failure stops it', () => {
  const servers = many(30, (n) => (n === 0 ? { state: 'failed', reason: 'It ended.' } : {}))
  expect(decideRollout(servers, 0)).toMatchObject({
    offer: [],
    end: { state: 'failed', reason: 's0: It ended.' },
  })
})

test('a server that reports nothing in time has failed', () => {
  const servers = many(2, (n) => (n === 0 ? { state: 'offered', offeredAt: 0 } : {}))
  expect(decideRollout(servers, ROLLOUT.answerMs).end).toBeUndefined()
  expect(decideRollout(servers, ROLLOUT.answerMs + 1)).toMatchObject({
    fail: [{ id: '0' }],
    end: { state: 'failed' },
  })
})

test('it ends when every server is done; one that was updated by hand counts', () => {
  const servers = many(3, (n) => (n === 2 ? { isCurrent: true } : { state: 'kept' }))
  expect(decideRollout(servers, 0)).toMatchObject({ keep: ['2'], end: { state: 'done' } })
  const rest = many(3, (n) => (n === 2 ? { isOnline: false } : { state: 'kept' }))
  expect(decideRollout(rest, 0)).toMatchObject({ offer: [], end: undefined })
  const left = many(3, (n) => ({ state: n === 2 ? 'skipped' : 'kept' }))
  expect(decideRollout(left, 0).end).toEqual({ state: 'done', reason: '' })
})
