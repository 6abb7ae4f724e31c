// The reference that the product shows: its examples are valid files, and its keys are those of the schema.
import { expect, test } from 'vitest'
import { jsonSchema, readServiceFile } from './index.ts'
import { EXAMPLES, listKeys, type SchemaNode } from './reference.ts'

test.each(EXAMPLES)('the example “$title” is a valid file', ({ text }) => {
  const { file, problems } = readServiceFile(text)
  expect(problems).toEqual([])
  expect(file).not.toBeNull()
})

test('every key of the schema has a place, a kind of value and a description', () => {
  const keys = listKeys(jsonSchema() as SchemaNode)
  const named = new Set(keys.map(({ section, key }) => `${section}.${key}`))
  for (const wanted of ['.docker', 'docker.services.<name>.port', 'actions.<name>.schedule']) {
    expect(named).toContain(wanted)
  }
  expect(keys.filter(({ value }) => value === '')).toEqual([])
})
