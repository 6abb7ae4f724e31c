import { expect, test } from 'vitest'
import type { Problem } from '../../api.ts'
import { placeProblems } from './problems.ts'

const FIELDS = [
  { id: 'a', name: 'name', label: 'Name' },
  { id: 'b', name: 'repo_url', label: 'Repository' },
  { id: 'c', name: 'server_ids', label: 'fra-1' },
  { id: 'd', name: 'server_ids', label: 'ams-2' },
  { id: 'e', name: 'token', label: 'Token' },
]
const problem = (
  fields: Problem['fields'],
  message = `${fields.length} fields are not valid.`,
) => ({
  message,
  fields,
  code: 'validation_failed',
  status: 422,
  requestId: undefined,
  details: {},
})
const place = (...fields: [string, string][]) => {
  const { atFields, atTop } = placeProblems(
    problem(fields.map(([field, message]) => ({ field, message }))),
    FIELDS,
  )
  return [Object.fromEntries(atFields), atTop]
}

test('a refusal without fields is at the top', () => {
  expect(placeProblems(problem([], 'No.'), FIELDS).atTop).toEqual(['No.'])
})

test("a schema's message loses the API's name at its field", () => {
  expect(place(['repo_url', 'repo_url: must be an address.'])).toEqual([
    { b: 'Must be an address.' },
    [],
  ])
})

test('a sentence of the server names the field as the form does', () => {
  expect(place(['repo_url', 'Give repo_url as an ssh address.'])).toEqual([
    { b: 'Give Repository as an ssh address.' },
    [],
  ])
  expect(place(['name', 'There is a server named x already.'])).toEqual([
    { a: 'There is a server named x already.' },
    [],
  ])
})

test('a field that is not on the form is named in words, at the top', () => {
  expect(place(['default_branch', 'default_branch: has at most 200 characters.'])).toEqual([
    {},
    ['Default branch has at most 200 characters.'],
  ])
})

test('no message is lost, and none appears twice', () => {
  expect(
    place(
      ['server_ids.0', 'server_ids.0: must be an id.'],
      ['server_ids.1', 'server_ids.1: must be an id.'],
      ['server_ids', 'Choose a server.'],
      ['with.token', 'with.token: must not be empty.'],
      ['x', 'x: is odd.'],
      ['x', 'x: is odd.'],
    ),
  ).toEqual([{ c: 'Must be an id. Choose a server.', e: 'Must not be empty.' }, ['X is odd.']])
})

test('a field takes the messages of other names that it stands for', () => {
  const key = { id: 'k', name: 'key', label: 'Key', also: ['set'] }
  const found = placeProblems(problem([{ field: 'set.1 BAD', message: 'set.1 BAD: is odd.' }]), [
    ...FIELDS,
    key,
  ])
  expect([...found.atFields]).toEqual([['k', 'Is odd.']])
  expect(found.atTop).toEqual([])
})

test('a refusal that can only be about one field of the form is at that field', () => {
  const taken = { ...problem([], 'There is a server named x already.'), code: 'name_taken' }
  expect([...placeProblems(taken, FIELDS).atFields]).toEqual([['a', taken.message]])
  const twice = [{ id: 'n', name: 'name', label: 'Other name' }, ...FIELDS]
  expect(placeProblems(taken, twice).atTop).toEqual([taken.message])
  expect(placeProblems({ ...taken, code: 'slug_taken' }, FIELDS).atTop).toEqual([taken.message])
})
