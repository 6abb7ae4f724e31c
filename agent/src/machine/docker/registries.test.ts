// What answers of registries mean, in the words of real ones, and what to do about them.
import { expect, test } from 'vitest'
import { authFor, caseOf, registryAdvice, troubleOf } from './registries.ts'

test.each([
  ['denied', 'Get "http://localhost:5000/v2/": no basic auth credentials'],
  ['denied', 'unauthorized: authentication required'],
  [
    'denied',
    'pull access denied for acme/app, repository does not exist or may require docker login',
  ],
  ['denied', 'unexpected status code [manifests 1]: 403 Forbidden'],
  ['denied', 'server message: insufficient_scope: authorization failed'],
  ['missing', 'manifest for ghcr.io/a/b:7 not found: manifest unknown: manifest unknown'],
  ['away', 'dial tcp: lookup registry.invalid: no such host'],
  ['other', 'toomanyrequests: You have reached your pull rate limit'],
])('%s: %s', (trouble, message) => {
  expect(troubleOf(message)).toBe(trouble)
})

const known = new Map([['docker.io', { username: 'ada', password: 'pw' }]])

test('the advice names the registry and the command', () => {
  const advice = (reference: string, isFork = false): string =>
    registryAdvice('unauthorized', caseOf(known, reference, isFork))
  expect(advice('ghcr.io/a/b')).toMatch(
    /ghcr\.io wants credentials.*: berth registry add ghcr\.io$/,
  )
  expect(advice('acme/app')).toMatch(/docker\.io refused the stored credentials/)
  expect(advice('acme/app', true)).toMatch(/code of a fork gets none/)
})

test('credentials go to their own registry alone', () => {
  expect(authFor(known, 'acme/app')).toEqual({
    username: 'ada',
    password: 'pw',
    serveraddress: 'https://index.docker.io/v1/',
  })
  expect(authFor(known, 'ghcr.io/acme/app')).toBeUndefined()
})
