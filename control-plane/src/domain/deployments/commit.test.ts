import { expect, test } from 'vitest'
import { chooseCommit } from './commit.ts'

const A = `abc1234${'0'.repeat(33)}`
const B = `abc1234${'0'.repeat(5)}${'f'.repeat(28)}`
const C = `def5678${'1'.repeat(33)}`

test('the first digits name one commit, however often it is listed', () => {
  expect(chooseCommit('def5678', [A, C, C, B])).toEqual({ kind: 'found', sha: C })
  expect(chooseCommit(A, [A, B])).toEqual({ kind: 'found', sha: A })
})

test('nothing begins with them', () => {
  expect(chooseCommit('1234567', [A, B, C])).toEqual({ kind: 'unknown', sha: undefined })
})

test('several commits begin with them: examples differ in their last digit', () => {
  expect(chooseCommit('abc1234', [B, C, A])).toEqual({
    kind: 'ambiguous',
    examples: ['abc1234000000', 'abc123400000f'],
  })
})
