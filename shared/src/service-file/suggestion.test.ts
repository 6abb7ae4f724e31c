import { describe, expect, it } from 'vitest'
import { editDistance, suggest } from './suggestion.ts'

describe('editDistance', () => {
  it.each([
    ['', '', 0],
    ['abc', 'abc', 0],
    ['abc', 'ab', 1],
    ['abc', 'abcd', 1],
    ['abc', 'axc', 1],
    ['domian', 'domain', 1],
    ['kitten', 'sitting', 3],
    ['', 'abc', 3],
  ])('%s to %s is %i', (a, b, distance) => {
    expect(editDistance(a, b)).toBe(distance)
    expect(editDistance(b, a)).toBe(distance)
  })
})

describe('suggest', () => {
  const known = ['build', 'image', 'port', 'domain', 'env', 'depends_on', 'stop_timeout', 'run']
  it.each([
    ['domian', 'domain'],
    ['ports', 'port'],
    ['dependsOn', 'depends_on'],
    ['depends-on', 'depends_on'],
    ['Stop_Timeout', 'stop_timeout'],
    ['environment', 'env'],
    ['stop_grace_period', 'stop_timeout'],
    ['evn', 'env'],
  ])('%s: %s', (word, meant) => expect(suggest(word, known)).toBe(meant))

  it.each(['restart', 'x', '', 'constructor', '__proto__', 'healthcheck', 'd'.repeat(5_000)])(
    'has nothing for %s',
    (word) => expect(suggest(word, known)).toBeUndefined(),
  )
})
