import { expect, test } from 'vitest'
import { rowFromRow, rowFromValues } from './row-makers.ts'

test('a row of values', () => {
  expect(rowFromValues(['id', 'createdAt'])([1, 'x'])).toEqual({ id: 1, createdAt: 'x' })
  expect(rowFromValues([])([])).toEqual({})
})

test('a row of a row with other names', () => {
  const make = rowFromRow(['id', 'created_at'], ['id', 'createdAt'])
  expect(make({ id: 1, created_at: null })).toEqual({ id: 1, createdAt: null })
})

test('of two columns with one name the last one stays, as databases give it', () => {
  expect(rowFromValues(['id', 'id'])([1, 2])).toEqual({ id: 2 })
})

test('a name that is no plain word is data, never source', () => {
  const odd = ['count(*)', '"', "']+process.exit(1)+['", '}; throw 1; ({ a', 'a b']
  expect(rowFromValues(odd)([1, 2, 3, 4, 5])).toEqual(
    Object.fromEntries(odd.map((name, i) => [name, i + 1])),
  )
  const name = '];throw 1;['
  expect(rowFromRow([name], ['a'])({ [name]: 7 })).toEqual({ a: 7 })
})
