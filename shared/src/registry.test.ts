// Names of registries, and which one an image is on.
import { expect, test } from 'vitest'
import { REGISTRY_HOST, registryHost, registryOf } from './registry.ts'

test.each([
  ['postgres:18', 'docker.io'],
  ['library/postgres', 'docker.io'],
  ['index.docker.io/acme/app@sha256:12', 'docker.io'],
  ['ghcr.io/acme/app:1', 'ghcr.io'],
  ['localhost/app', 'localhost'],
  ['localhost:5000/team/app', 'localhost:5000'],
  ['registry.example.com:5000/app', 'registry.example.com:5000'],
])('%s is on %s', (reference, host) => {
  expect(registryOf(reference)).toBe(host)
})

test.each([
  ['https://index.docker.io/v1/', 'docker.io'],
  ['registry-1.docker.io', 'docker.io'],
  [' GHCR.io ', 'ghcr.io'],
  ['http://localhost:5000/', 'localhost:5000'],
])('%j is %s', (written, host) => {
  expect(registryHost(written)).toBe(host)
})

test('what is a host', () => {
  for (const host of ['ghcr.io', 'localhost:5000', 'a-b.example.com:443', '[::1]:5000']) {
    expect(REGISTRY_HOST.test(host), host).toBe(true)
  }
  for (const host of ['', 'a b', '-a', 'a-', 'a..b', 'a:x', 'a/b', 'a@b', 'ä.example']) {
    expect(REGISTRY_HOST.test(host), host).toBe(false)
  }
})
