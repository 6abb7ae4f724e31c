// The meaning of globs, and that no pattern costs more than its budget.

import { describe, expect, test } from 'vitest'
import { GLOBS } from '../../limits/forges.ts'
import { matchAny } from './globs.ts'

test.each([
  ['**', 'main', 'yes'],
  ['**', 'release/1.x/hot', 'yes'],
  ['main', 'main', 'yes'],
  ['main', 'maintenance', 'no'],
  ['main', 'main/x', 'no'],
  ['release/*', 'release/1.x', 'yes'],
  ['release/*', 'release/1.x/hot', 'no'],
  ['release/**', 'release/1.x/hot', 'yes'],
  ['**/hot', 'release/1.x/hot', 'yes'],
  ['a/**/b/**/c', 'a/b/x/b/y/c', 'yes'],
  ['a/**/b/**/c', 'a/x/c', 'no'],
  ['v?.*', 'v1.2', 'yes'],
  ['{main,develop}', 'develop', 'yes'],
  ['{main,develop}', 'devel', 'no'],
  ['*.{ts,tsx}', '.env.ts', 'yes'],
  ['a.b', 'axb', 'no'],
  ['[ab]', 'a', 'no'],
] as const)('%s and %s: %s', (pattern, name, answer) => {
  expect(matchAny([pattern], [name])).toBe(answer)
})

test('a folder means everything in it, where folders are meant', () => {
  expect(matchAny(['packages/web'], ['packages/web/src/a.ts'], { folders: true })).toBe('yes')
  expect(matchAny(['packages/web/'], ['packages/web/src/a.ts'], { folders: true })).toBe('yes')
  expect(matchAny(['packages/web'], ['packages/website/a.ts'], { folders: true })).toBe('no')
  expect(matchAny(['packages/web'], ['packages/web/src/a.ts'])).toBe('no')
})

test('nothing matches nothing', () => {
  expect(matchAny([], ['main'])).toBe('no')
  expect(matchAny(['**'], [])).toBe('no')
})

describe('bounds', () => {
  test('a pattern beyond them matches nothing', () => {
    const longest = 'x'.repeat(GLOBS.characters)
    expect(matchAny([''], [''])).toBe('no')
    expect(matchAny([longest], [longest])).toBe('yes')
    expect(matchAny([`${longest}x`], [`${longest}x`])).toBe('no')
    expect(matchAny(['{a,b}'.repeat(5)], ['aaaaa'])).toBe('yes')
    expect(matchAny(['{a,b}'.repeat(6)], ['aaaaaa'])).toBe('no')
    const open = '{a'.repeat(100) // not a brace expression: they never close
    expect(matchAny([open], [open])).toBe('yes')
  })

  test('patterns made to be slow are given up, not waited for', () => {
    const slow = `${'*a'.repeat(120)}b`
    const name = 'a'.repeat(4_000)
    const answer = matchAny(
      Array.from({ length: 50 }, () => slow),
      Array.from({ length: 3_000 }, () => name),
    )
    expect(answer).toBe('too_much')
  })
})
