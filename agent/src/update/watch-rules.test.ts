import { expect, test } from 'vitest'
import { UPDATES } from '../limits/maintenance.ts'
import { judge, type WatchFacts } from './watch-rules.ts'

const facts: WatchFacts = {
  elapsedMs: 1_000,
  ends: 0,
  isAlive: true,
  activeForMs: undefined,
  wasActive: false,
  stayMs: UPDATES.stayMs,
}

test.each<[string, Partial<WatchFacts>, string]>([
  ['starts', {}, 'wait'],
  ['ended once', { ends: 1, isAlive: false }, 'wait'],
  ['ended twice', { ends: 2, isAlive: false }, 'It ended 2 times before it was connected.'],
  [
    'ended twice after a session',
    { ends: 2, wasActive: true, activeForMs: 1 },
    'It ended 2 times soon after it was connected.',
  ],
  ['hangs', { elapsedMs: UPDATES.activeMs }, 'It was not connected within 120 s.'],
  ['has just connected', { activeForMs: 0 }, 'wait'],
  ['stayed long enough', { activeForMs: UPDATES.stayMs }, 'keep'],
  ['ended at the last moment', { activeForMs: UPDATES.stayMs, isAlive: false, ends: 1 }, 'wait'],
])('a new version that %s', (_, changed, expected) => {
  const verdict = judge({ ...facts, ...changed })
  expect(verdict.do === 'return' ? verdict.why : verdict.do).toBe(expected)
})
