import { describe, expect, it } from 'vitest'
import { suggest } from '../terminal/suggest.ts'
import { environment, project } from '../testing/samples.ts'
import { matchEnvironment, matchNamed, matchRemotes } from './resolve.ts'

const pr42 = environment()
const pr101 = environment({ id: 42, identifier: 'pr-101', branch: 'other' })
const staging = environment({ id: 7, identifier: 'staging', type: 'manual', branch: 'main' })
const stage2 = environment({ id: 8, identifier: 'stage-2', type: 'manual', branch: 'main' })
const all = [pr42, pr101, staging, stage2]
const find = (word: string, purpose: 'read' | 'change' = 'change') =>
  matchEnvironment(word, all, 'shop', purpose)

describe('an environment', () => {
  it.each([
    ['pr-42', pr42],
    ['42', pr42], // a pull request first, then an id
    ['#42', pr42],
    ['id:42', pr101],
    ['101', pr101], // pull request 101, although environment 101 exists
    ['id:101', pr42],
    ['7', staging],
    ['checkout-v2', pr42],
    ['staging', staging],
  ])('%s', (word, expected) => expect(find(word).id).toBe(expected.id))

  it('of a unique prefix, for reading only', () => {
    expect(find('stagi', 'read').id).toBe(7)
    expect(() => find('stagi')).toThrow(
      expect.objectContaining({ exitCode: 5, hint: 'did you mean staging?' }),
    )
  })

  it.each([
    ['main', 'change'], // a branch of two environments
    ['main', 'read'],
    ['stag', 'read'], // a prefix of two
  ] as const)('%s is ambiguous for %s', (word, purpose) => {
    expect(() => find(word, purpose)).toThrow(
      expect.objectContaining({ exitCode: 5, hint: expect.stringMatching(/^one of: /) }),
    )
  })

  it('that is unknown: 5, with what could be meant', () => {
    expect(() => find('pr-24')).toThrow(
      expect.objectContaining({ exitCode: 5, hint: expect.stringContaining('pr-42') }),
    )
    expect(() => find('id:999')).toThrow(expect.objectContaining({ exitCode: 5 }))
  })
})

describe('a project', () => {
  const shop = project()
  const twelve = project({ id: 13, name: '12' })
  const known = [shop, twelve, project({ id: 14, name: 'shopping' })]

  it('by name, then id; id:N is always an id', () => {
    expect(matchNamed('shop', known, 'project', 'read').id).toBe(12)
    expect(matchNamed('12', known, 'project', 'change').id).toBe(13)
    expect(matchNamed('id:12', known, 'project', 'change').id).toBe(12)
    expect(matchNamed('14', known, 'project', 'change').id).toBe(14)
    expect(matchNamed('shopp', known, 'project', 'read').id).toBe(14)
    expect(() => matchNamed('shopp', known, 'project', 'change')).toThrow(
      expect.objectContaining({ exitCode: 5 }),
    )
  })

  it('by the remotes of the working directory', () => {
    const remotes = ['https://github.com/ada/fork', 'https://GITHUB.com/acme/shop']
    expect(matchRemotes(remotes, [shop, project({ id: 9, repo_url: 'https://h/x' })])).toEqual([
      shop,
    ])
  })
})

it('names at most five candidates', () => {
  const many = Array.from({ length: 9 }, (_, i) => `service-${i}`)
  expect(suggest('service', many, 'services')?.split(',')).toHaveLength(5)
  expect(suggest('zzz', many, 'services')).toMatch(/^services: .*, …$/)
  expect(suggest('zzz', [], 'services')).toBeUndefined()
})
