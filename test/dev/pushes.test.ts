// Which pull requests a push opens, updates, merges and closes.
import { describe, expect, it } from 'vitest'
import { decidePush, readChanges } from '../../scripts/dev/forge/pushes.ts'
import type { Pull } from '../../scripts/dev/forge/state.ts'

const [A, B] = ['a'.repeat(40), 'b'.repeat(40)]
const NOW = '2026-01-02T03:04:05Z'
const open: Pull = {
  number: 3,
  title: 'Three',
  author: 'Ada',
  branch: 'three',
  base: 'main',
  head: A,
  state: 'open',
  merged: false,
  updatedAt: '2026-01-01T00:00:00Z',
}

const decide = (
  pulls: Pull[],
  change: { branch: string; before?: string | null; after: string | null },
  over: { options?: string[]; contained?: string[] } = {},
) =>
  decidePush(pulls, {
    change: { before: A, ...change },
    options: over.options ?? [],
    defaultBranch: 'main',
    subject: 'Greet',
    author: 'Ada',
    contained: over.contained ?? [],
    nextNumber: 4,
    now: NOW,
  }).map((event) =>
    event.kind === 'push'
      ? 'push'
      : `${event.action} ${event.pull.number} ${event.pull.title} ${event.pull.state} ${event.pull.merged} ${event.pull.head[0]}`,
  )

describe('a push', () => {
  it.each([
    ['to the default branch', [], { branch: 'main', after: B }, {}, ['push']],
    ['to a branch', [], { branch: 'x', after: B }, {}, ['push']],
    [
      'with -o pr',
      [],
      { branch: 'x', after: B },
      { options: ['pr'] },
      ['push', 'opened 4 Greet open false b'],
    ],
    [
      'with a title',
      [],
      { branch: 'x', after: B },
      { options: ['pr=Mine'] },
      ['push', 'opened 4 Mine open false b'],
    ],
    ['to pr/…', [], { branch: 'pr/x', after: B }, {}, ['push', 'opened 4 Greet open false b']],
    [
      'of the default branch with -o pr',
      [],
      { branch: 'main', after: B },
      { options: ['pr'] },
      ['push'],
    ],
    [
      'to an open one',
      [open],
      { branch: 'three', after: B },
      { options: ['pr'] },
      ['push', 'synchronized 3 Three open false b'],
    ],
    [
      'that deletes its branch',
      [open],
      { branch: 'three', after: null },
      {},
      ['push', 'closed 3 Three closed false a'],
    ],
    [
      'that merges it',
      [open],
      { branch: 'main', after: B },
      { contained: [A] },
      ['push', 'closed 3 Three closed true a'],
    ],
    [
      'to the branch of a closed one',
      [{ ...open, state: 'closed' as const }],
      { branch: 'three', after: B },
      {},
      ['push'],
    ],
  ])('%s', (_, pulls, change, over, expected) => {
    expect(decide(pulls, change, over)).toEqual(expected)
  })
})

it('reads the lines of git, without tags', () => {
  const none = '0'.repeat(40)
  const lines = `${none} ${A} refs/heads/pr/x\n${A} ${none} refs/heads/y\n${none} ${A} refs/tags/v1\n`
  expect(readChanges(lines)).toEqual([
    { branch: 'pr/x', before: null, after: A },
    { branch: 'y', before: A, after: null },
  ])
})
