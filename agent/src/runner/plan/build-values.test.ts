// What a build gets: names in the file alone, and for a fork's code no value that a person set.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of the service file, not of JavaScript
import { expect, test } from 'vitest'
import { resolveBuild } from './build-values.ts'

const build = {
  context: '.',
  dockerfile: 'Dockerfile',
  target: null,
  args: { URL: 'https://${SERVICE_DOMAIN}', API: '${service.api.url}/v1', NAME: '${RELEASE}' },
  secrets: ['TOKEN'],
  ssh: true,
}
const sources = {
  custom: new Map([
    ['TOKEN', 'value of token'],
    ['RELEASE', 'one'],
    ['OTHER', 'two'],
  ]),
  system: { SERVICE_DOMAIN: 'pr-1.example.com' },
  addresses: new Map([['api', 'https://api.example.com']]),
  isFork: false,
}

test('only named values are given', () => {
  expect(resolveBuild(build, sources)).toEqual({
    args: { URL: 'https://pr-1.example.com', API: 'https://api.example.com/v1', NAME: 'one' },
    secrets: new Map([['TOKEN', 'value of token']]),
    wantsKey: true,
    missing: [],
    withheld: [],
  })
})

test('what is not set is missing', () => {
  const custom = new Map([['OTHER', 'two']])
  expect(resolveBuild(build, { ...sources, custom }).missing).toEqual(['TOKEN', 'RELEASE'])
})

test("a fork's build gets addresses, and no value that a person set", () => {
  expect(resolveBuild(build, { ...sources, isFork: true })).toEqual({
    args: { URL: 'https://pr-1.example.com', API: 'https://api.example.com/v1', NAME: '' },
    secrets: new Map(),
    wantsKey: false,
    missing: [],
    withheld: ['TOKEN', 'RELEASE', 'the deploy key'],
  })
})
