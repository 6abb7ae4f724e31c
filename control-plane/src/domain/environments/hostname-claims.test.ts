// Who may serve a hostname, one row of the table after the other.
import { expect, test } from 'vitest'
import { decideHost, type HostFacts } from './hostname-claims.ts'

const asker = { environmentId: 1, projectId: 10, organizationId: 100, project: 'shop' }
const own = { id: 10, organizationId: 100, name: 'shop', domain: 'shop.example.com' }
const free: HostFacts = {
  host: 'docs.acme.dev',
  fault: null,
  isOwn: false,
  server: undefined,
  holder: undefined,
  base: undefined,
  isUnlisted: false,
}
const holder = { environmentId: 2, organizationId: 100, identifier: 'staging', project: 'shop' }
const verdict = (over: Partial<HostFacts>) => decideHost(asker, { ...free, ...over })

test('a free one, one below the own domain and one it holds are granted', () => {
  const granted = { verdict: 'granted', message: '' }
  expect(verdict({})).toEqual(granted)
  expect(verdict({ host: 'api-pr-42.shop.example.com', base: own })).toEqual(granted)
  expect(verdict({ host: 'shop.example.com', base: own })).toEqual(granted)
  const itself = { ...holder, environmentId: 1 }
  expect(verdict({ holder: itself, isUnlisted: true, isOwn: true })).toEqual(granted)
})

const elsewhere = 'docs.acme.dev is used elsewhere on this installation.'
const foreign = { organizationId: 200 }

test.each<[string, Partial<HostFacts>, string]>([
  ['another environment', { holder }, 'docs.acme.dev is used by shop / staging.'],
  ['one of another organization', { holder: { ...holder, ...foreign } }, elsewhere],
  ['Berth itself', { isOwn: true }, 'docs.acme.dev is the address of Berth itself.'],
  [
    'a server',
    { server: { name: 'fra-1', organizationId: 100 } },
    'docs.acme.dev is the server fra-1.',
  ],
  ['a server of another organization', { server: { name: 'fra-1', ...foreign } }, elsewhere],
  [
    'below another project',
    { base: { ...own, id: 11, name: 'docs', domain: 'acme.dev' } },
    'docs.acme.dev belongs to docs, whose domain is acme.dev.',
  ],
  ['below a project of another organization', { base: { ...own, id: 12, ...foreign } }, elsewhere],
  [
    'a pull request to come',
    { host: 'pr-7.shop.example.com', base: own },
    'pr-7.shop.example.com is kept for pull request 7 of shop.',
  ],
])('taken by %s', (_name, facts, message) => {
  expect(verdict(facts)).toEqual({ verdict: 'taken', message })
})

test('nothing of another organization is named', () => {
  const their = { project: 'secret', identifier: 'hidden', environmentId: 9, ...foreign }
  const reported = [
    verdict({ holder: their }),
    verdict({ base: { id: 9, name: 'secret', domain: 'hidden.dev', ...foreign } }),
    verdict({ server: { name: 'secret', ...foreign } }),
  ]
  expect(JSON.stringify(reported)).not.toMatch(/secret|hidden/)
})

test('not on the list, or not a host name', () => {
  expect(verdict({ isUnlisted: true })).toMatchObject({ verdict: 'not_allowed' })
  expect(verdict({ fault: 'cannot hold a wildcard', holder })).toEqual({
    verdict: 'not_allowed',
    message: 'docs.acme.dev cannot hold a wildcard.',
  })
})
