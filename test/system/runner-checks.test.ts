// The platform's own checks, each provoked for real: the server, the service file, the repository.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statfsSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { formatProblems, readServiceFile } from '@berth/shared/service-file'
import { AttemptState, FailureCode, StepState } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import type { Repository } from '../fixtures/server/deployment.ts'
import { AgentHost, isRoot } from '../fixtures/server/server.ts'

let host: AgentHost
let repository: Repository

beforeAll(() => {
  host = new AgentHost()
  repository = host.repository()
})
afterAll(() => host.close())

describe('the server', () => {
  it('never runs commits of forks', async () => {
    const deployment = await host.deploy(repository, { environmentId: 3, untrusted: true })
    expect(await deployment.verdict()).toMatchObject({
      code: FailureCode.CAPABILITY_MISSING,
      failedStepId: 'admit',
      platformCheck: true,
    })
  })

  it('says which folder the account cannot enter', async (t) => {
    if (!isRoot) return t.skip('needs root')
    chmodSync(host.settings.stateDir, 0o700)
    try {
      const deployment = await host.deploy(repository, { environmentId: 3 })
      const verdict = await deployment.verdict()
      expect(verdict).toMatchObject({
        code: FailureCode.CAPABILITY_MISSING,
        failedStepId: 'account',
      })
      expect(verdict.message).toContain(`chmod o+x ${host.settings.stateDir}`)
    } finally {
      chmodSync(host.settings.stateDir, 0o711)
    }
  })

  it('has a verdict also when the fault is ours', async () => {
    const broken = new AgentHost()
    const inTheWay = join(broken.settings.stateDir, 'environments')
    writeFileSync(inTheWay, 'a file where a folder should be')
    repository.commit({ '.service.yml': 'manual: { deploy: [echo x] }\n' })
    const deployment = await broken.deploy(repository)
    expect(await deployment.verdict()).toMatchObject({
      state: AttemptState.FAILED,
      code: FailureCode.INTERNAL,
      failedStepId: 'account',
      platformCheck: false,
      message: `Internal error in step account (attempt ${deployment.attemptId}).`,
    })
    expect(deployment.runnerLog()).toContain('environments')
    await broken.close()
  })

  it('skips submodules and LFS with a warning each', async () => {
    const yaml = 'manual: { deploy: [echo x] }\n'
    repository.commit({ '.service.yml': yaml, '.gitattributes': '*.bin filter=lfs\n' })
    const head = repository.git('rev-parse', 'HEAD')
    repository.git('update-index', '--add', '--cacheinfo', `160000,${head},vendor/lib`)
    repository.git('commit', '--quiet', '-m', 'Submodule')
    const deployment = await host.deploy(repository, { environmentId: 3 })
    expect((await deployment.verdict()).state).toBe(AttemptState.SUCCEEDED)
    const codes = deployment.bodies('warning').map(({ code }) => code)
    expect(codes).toEqual(['submodules_skipped', 'lfs_skipped'])
    repository.git('rm', '--quiet', '--cached', 'vendor/lib')
    repository.commit({ '.gitattributes': null })
  })

  it('tells a full disk apart from a command that failed', async (t) => {
    if (!isRoot) return t.skip('needs root')
    const small = mkdtempSync(join(tmpdir(), 'berth-small-'))
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=680m,mode=711', 'tmpfs', small])
    const full = new AgentHost(small)
    try {
      repository.commit({
        '.service.yml': 'manual:\n  deploy: ["cat /dev/zero > filler; echo unreachable"]\n',
      })
      const deployment = await full.deploy(repository)
      expect(await deployment.verdict()).toMatchObject({
        state: AttemptState.FAILED,
        code: FailureCode.DISK_FULL,
        failedStepId: '1',
      })
      expect(statfsSync(small).bavail * statfsSync(small).bsize).toBeGreaterThan(400 * 1_024 ** 2)
    } finally {
      await full.close().catch(() => undefined)
      execFileSync('umount', [small])
      rmSync(small, { recursive: true })
    }
  })
})

describe('the service file', () => {
  const failing = async (files: Parameters<Repository['commit']>[0]) => {
    repository.commit(files)
    const deployment = await host.deploy(repository, { environmentId: 4 })
    return { deployment, verdict: await deployment.verdict() }
  }

  it('is missing, or has another name', async () => {
    const missing = await failing({ '.service.yml': null, 'service.yml': null })
    expect(missing.verdict).toMatchObject({
      state: AttemptState.FAILED,
      code: FailureCode.CONFIG_MISSING,
      failedStepId: 'read-config',
      platformCheck: true,
    })
    expect(missing.verdict.message).toMatch(/was not found in the root of main at [0-9a-f]{7}\./)
    const misnamed = await failing({ 'service.yml': 'manual: { deploy: [x] }' })
    expect(misnamed.verdict.message).toContain('Found service.yml; rename it.')
    repository.commit({ 'service.yml': null })
  })

  it('is not valid: all problems in the output, the first in the message', async () => {
    const source = 'manual:\n  deploy: [x]\n  servces: {}\n  env: { SERVICE_DOMAIN: x }\n'
    const { deployment, verdict } = await failing({ '.service.yml': source })
    const { problems } = readServiceFile(Buffer.from(source))
    // exactly what `berth config validate` prints, and diagnostics show as the step's output
    expect(deployment.log()).toContain(formatProblems(source, problems, { excerpts: 'first' }))
    expect(verdict).toMatchObject({ code: FailureCode.CONFIG_INVALID, platformCheck: true })
    expect(verdict.message).toMatch(/^\.service\.yml:3:3 unknown key 'servces'.* \(and 1 more\)\.$/)
    expect(deployment.log()).toContain('.service.yml:4:')
    expect(deployment.bodies('serviceFile')[0]?.notes.map(({ line }) => line)).toEqual([3, 4])
    expect(deployment.steps()['read-config']).toMatchObject({ state: StepState.FAILED })
  })

  it('has no section for this recipe', async () => {
    const { verdict } = await failing({
      '.service.yml': 'docker: { services: { web: { build: ., port: 1 } } }\n',
    })
    expect(verdict.message).toMatch(
      /no 'manual:' section, but pr-42 uses the manual recipe.*It has: docker\./,
    )
  })

  it('is a link: it is not followed', async () => {
    const { verdict } = await failing({ '.service.yml': { link: '/etc/passwd' } })
    expect(verdict).toMatchObject({ code: FailureCode.CONFIG_INVALID })
    expect(verdict.message).toContain('symbolic link')
  })
})

function emptyObjects(repository: string): void {
  for (const name of readdirSync(join(repository, 'objects'), {
    recursive: true,
    encoding: 'utf8',
  })) {
    if (/^[0-9a-f]{2}\/[0-9a-f]{38}$/.test(name)) truncateSync(join(repository, 'objects', name))
  }
}

/** The object file of the current `.service.yml` in a kept repository. */
function serviceFileObject(dir: string): string {
  const object = repository.git('rev-parse', 'HEAD:.service.yml')
  return join(dir, 'objects', object.slice(0, 2), object.slice(2))
}

/** Incompressible text. */
const big = (): string => randomBytes(40_000).toString('hex')

function leaveLocks(dir: string): void {
  for (const name of ['shallow', 'packed-refs', 'checkout-index']) {
    writeFileSync(join(dir, `${name}.lock`), '')
  }
}

describe('fetching', () => {
  it('takes an exact commit, also one that is not the newest', async () => {
    const wanted = repository.commit(
      { '.service.yml': 'manual: { deploy: [cat which] }\n', which: 'old\n' },
      'Old',
    )
    repository.commit({ which: 'new\n' }, 'New')
    const deployment = await host.deploy(repository, { environmentId: 5, commit: wanted })
    expect((await deployment.verdict()).state).toBe(AttemptState.SUCCEEDED)
    expect(deployment.bodies('commit')[0]).toMatchObject({ commitSha: wanted, subject: 'Old' })
    expect(deployment.log()).toMatch(/^old\r?$/m)
  })

  it.each([
    ['without HEAD', (dir: string) => rmSync(join(dir, 'HEAD')), false],
    ['without objects', (dir: string) => rmSync(join(dir, 'objects'), { recursive: true }), true],
    [
      'with a broken configuration',
      (dir: string) => writeFileSync(join(dir, 'config'), '[x'),
      true,
    ],
    ['with empty objects, as after a power cut', emptyObjects, true],
    ['with one empty file', (dir: string) => truncateSync(serviceFileObject(dir)), true],
    ['with the locks of a git that was killed', leaveLocks, false],
  ] as const)('uses a local copy %s, or makes it anew', async (_name, breakIt, isReported) => {
    repository.commit({ '.service.yml': 'manual: { deploy: [echo x] }\n' }, 'One')
    expect((await (await host.deploy(repository)).verdict()).state).toBe(AttemptState.SUCCEEDED)
    breakIt(environmentPaths(host.settings, 1).repository)
    const wanted = repository.commit({ which: `${_name}\n` }, 'Two')
    const deployment = await host.deploy(repository)
    expect((await deployment.verdict()).state, deployment.log()).toBe(AttemptState.SUCCEEDED)
    expect(deployment.bodies('commit')[0]).toMatchObject({ commitSha: wanted })
    expect(deployment.log().includes('is damaged and is made anew')).toBe(isReported)
  })

  it('drops a local copy that breaks only while the files are written', async () => {
    repository.commit({ '.service.yml': 'manual: { deploy: [echo x] }\n', big: big() }, 'Big')
    expect((await (await host.deploy(repository)).verdict()).state).toBe(AttemptState.SUCCEEDED)
    const object = repository.git('rev-parse', 'HEAD:big')
    const { repository: copy } = environmentPaths(host.settings, 1)
    truncateSync(join(copy, 'objects', object.slice(0, 2), object.slice(2)), 20_000)
    repository.commit({ which: 'broken\n' }, 'Broken')
    const broken = await host.deploy(repository)
    expect(await broken.verdict()).toMatchObject({
      code: FailureCode.CLONE_FAILED,
      failedStepId: 'unpack',
      message: 'The local copy of the repository was damaged and has been removed. Deploy again.',
    })
    expect((await (await host.deploy(repository)).verdict()).state).toBe(AttemptState.SUCCEEDED)
    repository.commit({ big: null }, 'Small')
  })

  it('says which commit is not there', async () => {
    const deployment = await host.deploy(repository, {
      environmentId: 5,
      commit: 'c136499'.padEnd(40, '0'),
    })
    expect(await deployment.verdict()).toMatchObject({
      state: AttemptState.FAILED,
      code: FailureCode.COMMIT_NOT_FOUND,
      failedStepId: 'fetch',
      platformCheck: true,
      message: 'Commit c13649900000 is not on main any more (force-pushed?).',
    })
  })

  it('says what is wrong with the address, the branch, the folder', async () => {
    const cases: [object, RegExp][] = [
      [{ url: 'ext::sh -c id' }, /spaces/],
      [{ url: 'git@host:-x' }, /starts with '-'/],
      [{ ref: '--upload-pack=id' }, /is not the name of a branch/],
      [{ ref: 'refs/heads/gone' }, /refs\/heads\/gone does not exist/],
      [{ url: `file://${host.folder}/nowhere` }, /was not found/],
      [{ url: 'https://127.0.0.1:9/x.git' }, /127\.0\.0\.1 cannot be reached/],
    ]
    for (const [request, message] of cases) {
      const deployment = await host.deploy(repository, { environmentId: 5, ...request })
      const verdict = await deployment.verdict()
      expect(verdict, JSON.stringify(request)).toMatchObject({
        code: FailureCode.CLONE_FAILED,
        failedStepId: 'fetch',
      })
      expect(verdict.message).toMatch(message)
    }
  })

  it('takes a folder only where tests allow it', async () => {
    const deployment = await host.deploy(repository, {
      environmentId: 5,
      env: { BERTH_TEST_GIT_FILE: '0' },
    })
    expect((await deployment.verdict()).message).toMatch(/https or ssh, not over file/)
  })
})
