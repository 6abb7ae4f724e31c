// Which files a pattern matches, and which folders can be skipped.
import { describe, expect, test } from 'vitest'
import { readPatterns, TooManyPatterns, whyUnfit } from './artifact-patterns.ts'

const matches = (pattern: string, path: string): boolean =>
  readPatterns([pattern]).matches(path.split('/'))
const mayHold = (pattern: string, folder: string): boolean =>
  readPatterns([pattern]).mayHold(folder.split('/'))

describe('patterns of artifacts', () => {
  test.each([
    ['exports/*.csv', 'exports/a.csv', true],
    ['exports/*.csv', 'exports/deep/a.csv', false],
    ['exports/*.csv', 'exports/.hidden.csv', false],
    ['exports/.*.csv', 'exports/.hidden.csv', true],
    ['./exports/a.csv', 'exports/a.csv', true],
    ['**/*.csv', 'a.csv', true],
    ['**/*.csv', 'x/y/z/a.csv', true],
    ['**/*.csv', 'x/.git/a.csv', false],
    ['**', 'x/y', true],
    ['**', 'x/.y', false],
    ['**/.cache/*', 'x/.cache/a', true],
    ['a/**/b/**/c', 'a/b/c', true],
    ['a/**/b/**/c', 'a/1/b/2/b/3/c', true],
    ['a/**/b/**/c', 'a/1/c', false],
    ['report-?.txt', 'report-1.txt', true],
    ['report-?.txt', 'report-.txt', false],
    ['report-[0-9a].txt', 'report-7.txt', true],
    ['report-[!0-9].txt', 'report-7.txt', false],
    ['report-[]x].txt', 'report-].txt', true],
    ['report-[', 'report-[', true],
    ['{a,b/{c,d}}.txt', 'b/d.txt', true],
    ['{a,b/{c,d}}.txt', 'b/e.txt', false],
    ['*a*a*a*a*b', 'a'.repeat(200), false],
  ])('%s and %s: %s', (pattern, path, expected) => {
    expect(matches(pattern, path)).toBe(expected)
  })

  test('nothing outside of the folder can be meant', () => {
    const { roots, matches: match } = readPatterns(['../x', 'a/../../x', '{..,a}/x', '/'])
    expect(roots).toEqual([['a', 'x']])
    expect(match(['..', 'x'])).toBe(false)
  })

  test('roots are what no other root holds', () => {
    expect(readPatterns(['a/b/*.x', 'a/*.x', 'c/d', 'a/b/c/**']).roots).toEqual([['a'], ['c', 'd']])
    expect(readPatterns(['*.x', 'a/b']).roots).toEqual([[]])
  })

  test.each([
    ['exports/*.csv', 'exports', true],
    ['exports/*.csv', 'other', false],
    ['exports/*.csv', 'exports/deep', false],
    ['exports/**', 'exports/a/b/c', true],
    ['exports/**', 'exports/.git', false],
    ['exports/**/.git/x', 'exports/.git', true],
    ['a/*/c/*.x', 'a/b', true],
    ['a/*/c/*.x', 'a/b/d', false],
  ])('%s may have something in %s: %s', (pattern, folder, expected) => {
    expect(mayHold(pattern, folder)).toBe(expected)
  })

  test('braces are bounded; hostile patterns end soon', () => {
    const distinct = `{${[...'abcdefghijklmnop'].join(',')}}`.repeat(4)
    expect(() => readPatterns([distinct])).toThrow(TooManyPatterns)
    expect(matches(`${'*a'.repeat(100)}b`, 'a'.repeat(255))).toBe(false)
  })

  test('names that cannot be shown are not offered', () => {
    expect(whyUnfit('exports/ünïcode 1.csv')).toBeUndefined()
    for (const name of ['a\nb', 'a\u001b[2Jb', 'a\u009bb', 'a\ufffdb']) {
      expect(whyUnfit(name)).toContain('control')
    }
    expect(whyUnfit('a'.repeat(2_000))).toContain('long')
  })
})
