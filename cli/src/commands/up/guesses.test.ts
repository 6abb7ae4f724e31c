import { expect, it } from 'vitest'
import { project, server } from '../../testing/samples.ts'
import { domainCandidates, guessRemote, guessServer, missingMessage, slugOf } from './guesses.ts'

it.each([
  ['Corner Shop_2', 'corner-shop-2'],
  ['Café', 'cafe'],
  ['feature/New-Cart', 'feature-new-cart'],
  ['---', ''],
  [`${'a'.repeat(39)}--b`, 'a'.repeat(39)],
])('%s becomes %s', (text, slug) => expect(slugOf(text)).toBe(slug))

const remote = (name: string) => ({ name, url: `git@example.com:${name}.git` })

it('takes the remote that is named, the only one, or origin; otherwise it is missing', () => {
  expect(guessRemote([remote('a')], undefined)).toMatchObject({ value: { name: 'a' } })
  const both = [remote('fork'), remote('origin')]
  expect(guessRemote(both, undefined)).toMatchObject({ value: { name: 'origin' } })
  expect(guessRemote(both, 'fork')).toMatchObject({ value: { name: 'fork' } })
  expect(guessRemote(both, 'nope')).toMatchObject({ flag: '--remote NAME' })
  expect(guessRemote([remote('a'), remote('b')], undefined)).toMatchObject({
    why: 'which remote: a, b',
  })
  expect(guessRemote([], undefined)).toMatchObject({ flag: '--repo URL' })
})

it('takes the only server', () => {
  const [one, two] = [server(), server({ id: 3, name: 'fra-2' })]
  expect(guessServer([one], undefined)).toMatchObject({ value: { name: 'fra-1' } })
  expect(guessServer([one, two], two)).toMatchObject({ value: { name: 'fra-2' } })
  expect(guessServer([one, two], undefined)).toEqual({
    flag: '--server SERVER',
    why: 'which server: fra-1, fra-2',
  })
})

it('looks for a domain beside other projects, then below the server', () => {
  const at = (hostname: string) => ({ id: 2, hostname })
  const values = (hostname: string, projects = [project()]) =>
    domainCandidates('My Shop', at(hostname), projects).map(({ value }) => value)
  expect(values('127.0.0.1')).toEqual(['my-shop.localhost'])
  expect(values('fra-1.example.com')).toEqual(['my-shop.example.com', 'my-shop.fra-1.example.com'])
  expect(values('203.0.113.9', [])).toEqual([])
  expect(values('fra-1', [])).toEqual([])
  expect(domainCandidates('---', at('127.0.0.1'), [])).toEqual([])
})

it('says everything that is missing in one sentence', () => {
  const missing = [
    { flag: '--server SERVER', why: 'which server: a, b' },
    { flag: '--yes', why: 'pushes main to origin' },
  ]
  expect(missingMessage(missing)).toBe(
    'berth up needs 2 answers that only you can give: --server SERVER (which server: a, b); --yes (pushes main to origin)',
  )
})
