// When an environment stays at a commit, and what ends it.
import { expect, test } from 'vitest'
import { isLeftBehind, pinFor } from './pinning.ts'

const at = (
  targetSha: string | null,
  headSha: string | null = null,
  pinnedFrom: string[] | null = null,
) => {
  return { targetSha, headSha, pinnedFrom }
}

test('an earlier commit: what was left is remembered, whoever told of it', () => {
  expect(pinFor(at('three'), 'two')).toEqual(['three'])
  expect(pinFor(at('three', 'four'), 'two')).toEqual(['three', 'four'])
  expect(pinFor(at('two', null, ['three']), 'one')).toEqual(['three', 'two'])
  expect(pinFor(at('one', null, ['three', 'two']), 'two')).toEqual(['three', 'one'])
})

test('the first deployment, the head itself, and the same again pin nothing', () => {
  expect(pinFor(at(null), 'one')).toBe(null)
  expect(pinFor(at('one', 'two'), 'two')).toBe(null)
  expect(pinFor(at('one', 'two', ['two']), 'two')).toBe(null)
  expect(pinFor(at('one'), 'one')).toBe(null)
  expect(pinFor(at('one', null, ['two']), 'one')).toEqual(['two'])
})

test('what is remembered is bounded', () => {
  let pinnedFrom: string[] | null = null
  for (let n = 0; n < 100; n += 1) pinnedFrom = pinFor(at(`c${n}`, null, pinnedFrom), `c${n + 1}`)
  expect(pinnedFrom).toHaveLength(20)
  expect(pinnedFrom).toContain('c99')
})

test('only what was left behind is left alone', () => {
  expect(isLeftBehind(['three'], 'three')).toBe(true)
  expect(isLeftBehind(['three'], 'four')).toBe(false)
  expect(isLeftBehind(null, 'three')).toBe(false)
  expect(isLeftBehind(['three'], null)).toBe(false)
})
