import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../testing/berth.ts'
import { normalizeRepoUrl, readLink, readRemotes } from './repository.ts'

describe('one repository, many spellings', () => {
  it.each([
    'git@github.com:acme/shop.git',
    'git@GitHub.com:acme/shop',
    'github.com:acme/shop.git',
    'ssh://git@github.com/acme/shop.git',
    'ssh://git@github.com:2222/acme/shop.git',
    'https://github.com/acme/shop',
    'https://user:token@github.com/acme/shop.git/',
    'https://github.com:443/acme/shop.git',
    'git://github.com/acme/shop',
  ])('%s', (url) => expect(normalizeRepoUrl(url)).toBe('github.com/acme/shop'))

  it('paths differ by case, hosts and local folders are not confused', () => {
    expect(normalizeRepoUrl('https://h/Acme/shop')).not.toBe(
      normalizeRepoUrl('https://h/acme/shop'),
    )
    expect(normalizeRepoUrl('/srv/git/shop.git')).toBe('/srv/git/shop.git')
  })
})

describe('.berth/project.json', () => {
  it('is found in a folder above', async () => {
    const root = temporaryFolder()
    mkdirSync(join(root, '.berth'))
    mkdirSync(join(root, 'a/b'), { recursive: true })
    writeFileSync(join(root, '.berth/project.json'), '{"project": 12, "environment": "staging"}')
    expect(await readLink(join(root, 'a/b'))).toEqual({ project: '12', environment: 'staging' })
  })

  it('absent is no error, broken is', async () => {
    const root = temporaryFolder()
    expect(await readLink(root)).toBeUndefined()
    mkdirSync(join(root, '.berth'))
    writeFileSync(join(root, '.berth/project.json'), '{"project": {}}')
    await expect(readLink(root)).rejects.toMatchObject({ exitCode: 2 })
  })
})

it('remotes are read from git', async () => {
  const root = temporaryFolder()
  expect(await readRemotes(root)).toEqual([])
  const git = (...args: string[]) => execFileSync('git', args, { cwd: root })
  git('init', '-q')
  git('remote', 'add', 'origin', 'git@github.com:acme/shop.git')
  git('remote', 'add', 'fork', 'https://github.com/ada/shop')
  expect(await readRemotes(root)).toEqual([
    'git@github.com:acme/shop.git',
    'https://github.com/ada/shop',
  ])
})
