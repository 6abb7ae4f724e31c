// git on a repository of its own.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { REPOSITORY } from '@berth/shared'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { callGit, type GitContext, makeRepository, tidyRepository } from './git.ts'

let folder: string
let context: GitContext
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'berth-git-'))
  const repository = join(folder, 'repo.git')
  mkdirSync(repository)
  const { signal } = new AbortController()
  context = { account: undefined, attemptId: 'one', repository, signal }
  expect(await makeRepository(context)).toBe(true)
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

test('bears the mark by which it is found when its runner is gone', async () => {
  const { stdout } = await callGit(context, ['-c', 'alias.look=!env', 'look'])
  expect(stdout.toString()).toMatch(/^BERTH_ATTEMPT_ID=one$/m)
})

test('objects that small fetches left do not gather for ever', async () => {
  const files = Array.from({ length: REPOSITORY.looseObjects + 1 }, (_, i) => join(folder, `${i}`))
  for (const file of files) writeFileSync(file, file)
  const write = ['-C', context.repository, 'hash-object', '-w', '--stdin-paths']
  execFileSync('git', write, { input: files.join('\n'), stdio: ['pipe', 'ignore', 'inherit'] })
  await tidyRepository(context, new Set())
  const { stdout } = await callGit(context, ['count-objects'])
  expect(stdout.toString()).toMatch(/^0 objects/)
})
