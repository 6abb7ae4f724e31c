import { expect, test } from 'vitest'
import { rowFromValues } from './row-makers.ts'

test('a row of values', () => {
  expect(rowFromValues(['id', 'createdAt'])([1, 'x'])).toEqual({ id: 1, createdAt: 'x' })
  expect(rowFromValues([])([])).toEqual({})
})

test('of two columns with one name the last one stays, as databases give it', () => {
  expect(rowFromValues(['id', 'id'])([1, 2])).toEqual({ id: 2 })
})

test('a name that is no plain word is data, never source', () => {
  const odd = ['count(*)', '"', "']+process.exit(1)+['", '}; throw 1; ({ a', 'a b']
  expect(rowFromValues(odd)([1, 2, 3, 4, 5])).toEqual(
    Object.fromEntries(odd.map((name, i) => [name, i + 1])),
  )
})
