import { describe, expect, it } from 'vitest'
import { expiredBackups, restoreObstacle } from './backup.ts'

const DAY = 86_400_000
const NOW = 1_000 * DAY
const known = (
  id: number,
  more: { isComplete?: boolean; isOpen?: boolean; days?: number } = {},
) => ({
  id,
  uuid: String(id),
  isComplete: more.isComplete ?? true,
  isOpen: more.isOpen ?? false,
  createdAt: NOW - (more.days ?? 0) * DAY,
})
const ids = (found: { id: number }[]): number[] => found.map(({ id }) => id)

describe('retention', () => {
  it('keeps so many that the new one is the last of the number', () => {
    const all = [1, 2, 3, 4].map((id) => known(id))
    expect(ids(expiredBackups(all, { keepCount: 3, keepMs: null }, NOW))).toEqual([2, 1])
    expect(ids(expiredBackups(all, { keepCount: 9, keepMs: null }, NOW))).toEqual([])
  })

  it('ends all others with a number of one, because the new one is complete by then', () => {
    expect(ids(expiredBackups([known(1)], { keepCount: 1, keepMs: null }, NOW))).toEqual([1])
  })

  it('ends old ones, and what failed ones left, but no open one', () => {
    const all = [known(1, { days: 40 }), known(2, { days: 3 }), known(3, { isComplete: false })]
    const open = known(4, { isComplete: false, isOpen: true })
    const asked = { keepCount: 7, keepMs: 30 * DAY }
    expect(ids(expiredBackups([...all, open], asked, NOW))).toEqual([3, 1])
  })
})

describe('what cannot be restored', () => {
  const facts = {
    isComplete: true,
    place: 'server' as 'server' | 'bucket',
    source: { environmentId: 1, projectId: 1, identifier: 'main', serverId: 1 },
    target: { environmentId: 1, projectId: 1, identifier: 'main', serverId: 1, fromFork: false },
    location: '',
    storage: null as string | null,
  }
  const other = { ...facts.target, environmentId: 2, identifier: 'pr-2' }

  it.each([
    [{}, null],
    [{ isComplete: false }, /not complete/],
    [{ target: { ...other, projectId: 2 } }, /^pr-2 is an environment of another project\.$/],
    [{ target: other }, null],
    [{ target: { ...other, fromFork: true } }, /code of a fork, so it gets no data of main/],
    [{ target: { ...other, serverId: 2 } }, /on the disk of another server/],
    [
      { place: 'bucket' as const, location: 's3://a' },
      /at s3:\/\/a, and the organization has no storage/,
    ],
    [{ place: 'bucket' as const, location: 's3://a', storage: 's3://b' }, /now uses s3:\/\/b/],
    [{ place: 'bucket' as const, location: 's3://a', storage: 's3://a' }, null],
  ])('%o', (change, expected) => {
    const obstacle = restoreObstacle({ ...facts, ...change })
    if (expected === null) expect(obstacle).toBeNull()
    else expect(obstacle).toMatch(expected)
  })
})
