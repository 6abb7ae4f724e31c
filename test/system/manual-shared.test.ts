// `manual.shared` and the warning about files that a deployment would drop, with real runners: what the application
// wrote survives, and an account that swaps its folders for links makes root write nowhere else.
import {
  existsSync,
  lstatSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { AttemptState, FailureCode } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import type { Deployment } from '../fixtures/server/deployment.ts'
import { AgentHost, type DeployRequest, isRoot } from '../fixtures/server/server.ts'

let host: AgentHost
beforeAll(() => {
  host = new AgentHost()
})
afterAll(() => host.close())

const paths = (environmentId: number) => environmentPaths(host.settings, environmentId)
const warnings = (deployment: Deployment) =>
  deployment.bodies('warning').map(({ code, message }) => ({ code, message }))

async function deployed(
  repository: ReturnType<AgentHost['repository']>,
  environmentId: number,
  more: DeployRequest = {},
): Promise<Deployment> {
  const deployment = await host.deploy(repository, { environmentId, ...more })
  const verdict = await deployment.verdict()
  expect(verdict.message).toBe('')
  expect(verdict.state, deployment.log()).toBe(AttemptState.SUCCEEDED)
  return deployment
}

/** Writes as the environment's application would. */
const act = (run: string): string =>
  `actions: { act: { run: ${JSON.stringify(run)} } }\nmanual:\n  deploy: [":"]\n`

async function acts(environmentId: number): Promise<void> {
  const action = await host.deploy(host.repository('actor'), { environmentId, action: 'act' })
  expect((await action.verdict()).state, action.log()).toBe(AttemptState.SUCCEEDED)
}

describe('shared paths', () => {
  it('begin with what the repository has, and keep what the application wrote', async () => {
    const repository = host.repository('shared')
    const shared = '  shared: [storage, data/app.sqlite3, uploads/, empty]\n'
    const write =
      'echo photo >storage/photo; echo rows >data/app.sqlite3; echo up >uploads/one; ls empty'
    repository.commit({
      '.service.yml': act(write) + shared,
      'storage/seed': 'first',
      'uploads/.keep': '',
    })
    const first = await deployed(repository, 1)
    expect(first.log()).toContain('storage is shared by all deployments: it begins with what the')
    expect(first.log()).toContain('data/app.sqlite3 is shared by all deployments: it is for the')
    const { shared: folder, releases } = paths(1)
    const release = join(releases, String(first.taskId))
    expect(readlinkSync(join(release, 'storage'))).toBe(join(folder, 'storage'))
    expect(readFileSync(join(folder, 'storage/seed'), 'utf8')).toBe('first')
    expect(existsSync(join(folder, 'data/app.sqlite3'))).toBe(false)
    await acts(1)

    repository.commit({ 'storage/seed': 'second', 'empty/of-the-repository': 'x' })
    const second = await deployed(repository, 1)
    const current = join(paths(1).current)
    expect(readFileSync(join(current, 'storage/photo'), 'utf8')).toBe('photo\n')
    expect(readFileSync(join(current, 'storage/seed'), 'utf8')).toBe('first')
    expect(readFileSync(join(current, 'data/app.sqlite3'), 'utf8')).toBe('rows\n')
    expect(readFileSync(join(current, 'uploads/one'), 'utf8')).toBe('up\n')
    expect(existsSync(join(current, 'empty/of-the-repository'))).toBe(false)
    expect(warnings(second)).toEqual([])

    // without the key the data stays, and comes back with it
    repository.commit({ '.service.yml': act(write) })
    await deployed(repository, 1)
    expect(lstatSync(join(current, 'storage')).isSymbolicLink()).toBe(false)
    repository.commit({ '.service.yml': act(write) + shared })
    await deployed(repository, 1)
    expect(readFileSync(join(current, 'storage/photo'), 'utf8')).toBe('photo\n')

    const removal = await host.deploy(repository, { environmentId: 1, destroy: true })
    expect((await removal.verdict()).state).toBe(AttemptState.SUCCEEDED)
    expect(existsSync(folder)).toBe(false)
  })

  it('begin with a copy of the former release when the key is added later', async () => {
    const repository = host.repository('later')
    repository.commit({ '.service.yml': act('mkdir -p up; echo mine >up/photo') })
    await deployed(repository, 2)
    await acts(2)
    repository.commit({ '.service.yml': `${act(':')}  shared: [up]\n` })
    const second = await deployed(repository, 2)
    expect(warnings(second)).toEqual([])
    expect(readFileSync(join(paths(2).current, 'up/photo'), 'utf8')).toBe('mine\n')
  })

  it('refuse a link of the repository, and keep the version before', async () => {
    const repository = host.repository('link')
    repository.commit({ '.service.yml': act(':') })
    await deployed(repository, 3)
    const before = readlinkSync(paths(3).current)
    for (const [shared, files, message] of [
      ['storage', { storage: { link: '/etc' } }, 'storage is a link in the repository.'],
      ['data/x', { data: { link: '/tmp' } }, 'data/x is below a link.'],
    ] as const) {
      repository.commit({ '.service.yml': `${act(':')}  shared: [${shared}]\n`, ...files })
      const deployment = await host.deploy(repository, { environmentId: 3 })
      const verdict = await deployment.verdict()
      expect(verdict).toMatchObject({ code: FailureCode.STEP_FAILED, failedStepId: 'share' })
      expect(verdict.message).toContain(message)
      repository.commit({ storage: null, data: null })
    }
    expect(readlinkSync(paths(3).current)).toBe(before)
  })

  it.runIf(isRoot)('an account that swaps its folders for links writes nowhere else', async () => {
    const repository = host.repository('attack')
    const outside = mkdtempSync(join(host.folder, 'outside-'))
    writeFileSync(join(outside, 'victim'), 'untouched')
    repository.commit({
      '.service.yml': `${act(':')}  shared: [a/b, c]\n`,
      'a/b/file': 'x',
      c: 'y',
    })
    await deployed(repository, 4)
    const { shared } = paths(4)
    // as its account could: the folder leads to one that only root can write
    for (const swap of ['a', 'c']) {
      renameSync(join(shared, swap), join(shared, `${swap}-former`))
      symlinkSync(outside, join(shared, swap))
    }
    repository.commit({ 'a/b/file': 'second' })
    const below = await host.deploy(repository, { environmentId: 4 })
    expect((await below.verdict()).message).toContain('a/b is below a link.')
    // a link in place of the path itself is only linked to: nothing is read or written through it
    rmSync(join(shared, 'a'))
    renameSync(join(shared, 'a-former'), join(shared, 'a'))
    await deployed(repository, 4)
    expect(readlinkSync(join(paths(4).current, 'c'))).toBe(join(shared, 'c'))
    expect(statSync(outside)).toMatchObject({ uid: 0, gid: 0 })
    expect(readFileSync(join(outside, 'victim'), 'utf8')).toBe('untouched')
    expect(existsSync(join(outside, 'b'))).toBe(false)
    expect(statSync(shared).uid).toBeGreaterThan(0)
  })
})

describe('files that a deployment would drop', () => {
  it('are named before anything is replaced, with how to keep them and where they are', async () => {
    const repository = host.repository('dropped')
    const write =
      'mkdir -p up/2026 node_modules/x tmp; echo 1 >up/2026/photo; echo 2 >db.sqlite3; echo 3 >node_modules/x/y; echo 4 >tmp/z; echo 5 >made'
    repository.commit({
      '.service.yml': `actions: { act: { run: "${write}" } }\nmanual: { deploy: [echo built >made-by-a-step] }\n`,
    })
    const first = await deployed(repository, 5)
    const quiet = await deployed(repository, 5)
    expect(warnings(quiet)).toEqual([])
    expect(quiet.log()).toContain(`The application wrote no files into release ${first.taskId}.`)
    await acts(5)
    repository.commit({ '.service.yml': 'manual: { deploy: ["false"] }\n' })
    const failing = await host.deploy(repository, { environmentId: 5 })
    expect((await failing.verdict()).failedStepId).toBe('1') // the warning came before
    const [warning] = warnings(failing)
    expect(warning?.code).toBe('files_dropped')
    expect(warning?.message).toContain(`wrote 3 files into release ${quiet.taskId}`)
    for (const name of ['up/2026/photo', 'db.sqlite3', 'made'])
      expect(warning?.message).toContain(name)
    expect(warning?.message).not.toContain('made-by-a-step')
    expect(warning?.message).toContain('up/2026')
    repository.commit({ '.service.yml': 'manual: { deploy: [":"], shared: [up, db.sqlite3] }\n' })
    const kept = await deployed(repository, 5)
    expect(warnings(kept).map(({ message }) => message)).toEqual([
      expect.stringContaining(`wrote 1 files into release ${quiet.taskId}`),
    ])
    expect(readFileSync(join(paths(5).current, 'up/2026/photo'), 'utf8')).toBe('1\n')
    expect(readFileSync(join(paths(5).releases, String(quiet.taskId), 'made'), 'utf8')).toBe('5\n')
  })
})
