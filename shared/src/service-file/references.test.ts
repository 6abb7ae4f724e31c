// References in build arguments: what they name, what stays as written.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of the file, not of JavaScript
import { expect, test } from 'vitest'
import {
  addressesIn,
  expandAddresses,
  expandReferences,
  isReference,
  type Reference,
  referencesIn,
} from './references.ts'

const describe = (reference: Reference): string =>
  reference.kind === 'system'
    ? `<${reference.name}>`
    : reference.kind === 'address'
      ? `<address of ${reference.service}>`
      : `<custom ${reference.key}>`

test.each([
  ['https://${SERVICE_DOMAIN}/x', 'https://<SERVICE_DOMAIN>/x'],
  ['${service.api.url}/v1,${service.web.url}', '<address of api>/v1,<address of web>'],
  ['${NPM_TOKEN}${NPM_TOKEN}', '<custom NPM_TOKEN><custom NPM_TOKEN>'],
  ['$${NPM_TOKEN} $NPM_TOKEN $$', '${NPM_TOKEN} $NPM_TOKEN $$'],
  ['$$${NPM_TOKEN}', '$${NPM_TOKEN}'],
  ['${service.API.url} ${BERTH_X} ${} ${open', '${service.API.url} ${BERTH_X} ${} ${open'],
  ['', ''],
])('%j becomes %j', (text, expanded) => {
  expect(expandReferences(text, describe)).toBe(expanded)
})

test('only what is written is named', () => {
  expect(referencesIn('a ${open secret')).toEqual([{ written: '${', reference: undefined }])
  expect(referencesIn('$${A}')).toEqual([])
  expect(isReference('${A}')).toBe(true)
  expect(['x${A}', '${A}${B}', '$${A}', 'A', '${A'].map(isReference)).toEqual(
    Array.from({ length: 5 }, () => false),
  )
})

test('in the value of a custom variable only addresses of services are replaced', () => {
  const text = '${service.api.url}|$${service.api.url}|${A}|$${A}|${service.db.url}'
  expect(addressesIn(text)).toEqual(['api', 'db'])
  expect(expandAddresses(text, new Map([['api', '$&$1']]))).toBe(
    '$&$1|${service.api.url}|${A}|$${A}|${service.db.url}',
  )
})
