// What the page of a deployment asks for beyond REST: the comparison with the last success, the versions that can be
// deployed, who canceled, and texts without escape sequences. On both databases.
import type { Environment, Task } from '@berth/shared/api'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { RepositoryFixture } from '../fixtures/forge/repository.ts'
import { makePerson, openDashboardClient } from '../fixtures/platform/dashboard-client.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import type { Script } from '../fixtures/platform/scripted-executor.ts'
import { until } from '../fixtures/server/installation.ts'

describe.each(ENGINES)('the page of a deployment on %s', (engine) => {
  let fixture: RepositoryFixture
  let environment: Environment
  let page: ReturnType<typeof openDashboardClient>
  beforeEach(async () => {
    fixture = await RepositoryFixture.start(engine)
    environment = await fixture.environment('main')
    page = openDashboardClient(fixture.cp, fixture.cp.token)
  })
  afterEach(async () => {
    await page.close()
    await fixture.close()
  })

  async function play(script: Script, commit?: string): Promise<Task> {
    fixture.platform.executor.script = script
    const body = commit === undefined ? undefined : { commit_sha: commit }
    const { id } = (await fixture.platform.deploy(environment.id, body)).body
    return fixture.platform.settled(id)
  }
  const succeed = (sha: string, image = 'shop:1') =>
    play((a) => {
      a.checkedOut(sha, 'Grace')
      a.serve([{ name: 'web', image, imageDigest: `sha256:${image}` }])
      a.succeed()
    }, sha)

  test('compares with the last success: files, keys of variables, images, phases', async () => {
    const first = fixture.head()
    const before = await succeed(first)
    expect(await page.client.task.compare.query({ task_id: before.id })).toBeNull()
    expect(await page.client.task.changes.query({ task_id: before.id })).toBeNull()
    const second = fixture.repository.commit({ 'src/cart.ts': 'x\n', '.service.yml': null }, 'Two')
    await fixture.cp.call('PATCH', `/api/environments/${environment.id}/variables`, {
      set: { API_KEY: 'a secret value' },
    })
    const failed = await play((a) => {
      a.checkedOut(second)
      a.step('build:web', 'Build web', 'build')
      a.fail('It broke.')
    }, second)
    const compared = await page.client.task.compare.query({ task_id: failed.id })
    expect(compared).toMatchObject({
      task_id: before.id,
      commit_sha: first,
      commit_author: 'Grace',
      variable_keys_changed: ['API_KEY'],
      images: null,
      phases: [
        { name: 'run', before_ms: expect.any(Number), after_ms: expect.any(Number) },
        { name: 'build', before_ms: null, after_ms: expect.any(Number) },
      ],
    })
    expect(JSON.stringify(compared)).not.toContain('a secret value')
    const changes = {
      base: first,
      head: second,
      files: [
        { change: 'deleted', path: '.service.yml' },
        { change: 'added', path: 'src/cart.ts' },
      ],
      is_truncated: false,
      problem: null,
    }
    expect(await page.client.task.changes.query({ task_id: failed.id })).toEqual(changes)
    const after = await succeed(second, 'shop:2')
    expect((await page.client.task.compare.query({ task_id: after.id }))?.images).toEqual([
      { service: 'web', before: 'shop:1', after: 'shop:2' },
    ])
    // remembered, so it is known without the forge; anything else says why it is not
    await fixture.host.close()
    expect(await page.client.task.changes.query({ task_id: failed.id })).toEqual(changes)
    const third = await play((a) => {
      a.checkedOut('d'.repeat(40))
      a.fail('It broke.')
    })
    expect(await page.client.task.changes.query({ task_id: third.id })).toMatchObject({
      base: second,
      files: [],
      problem: expect.stringMatching(/./),
    })
  })

  test('offers branches, commits and earlier versions', async () => {
    const first = fixture.head()
    fixture.push('feature', 'Try it')
    const second = fixture.push('main', 'Second')
    const at = { environment_id: environment.id }
    const main = await page.client.version.commits.query(at)
    expect(main).toMatchObject({
      branches: ['main', 'feature'],
      are_all_branches: true,
      commits: [
        { sha: second, subject: 'Second' },
        { sha: first, subject: 'First' },
      ],
      problem: null,
    })
    const feature = await page.client.version.commits.query({ ...at, branch: 'feature' })
    expect(feature.commits[0]).toMatchObject({ subject: 'Try it' })
    const none = await page.client.version.commits.query({ ...at, branch: '--upload-pack=x' })
    expect(none).toMatchObject({ commits: [], problem: expect.stringContaining('no branch') })

    expect((await page.client.version.list.query(at)).versions).toEqual([])
    const shas = ['1', '2', '3', '4'].map((digit) => digit.repeat(40))
    for (const sha of [...shas, shas[2] ?? '', shas[3] ?? '']) await succeed(sha)
    const { versions } = await page.client.version.list.query(at)
    expect(versions.map((v) => [v.commit_sha, v.is_kept])).toEqual([
      [shas[2], true],
      [shas[1], true],
      [shas[0], false],
    ])
    expect(versions[0]).toMatchObject({ triggered_by: 'Ada', commit_author: 'Grace' })
  })

  test('a viewer reads versions but not the repository; other organizations read neither', async () => {
    const at = { environment_id: environment.id }
    const viewer = await makePerson(fixture.cp, 'viewer', { organizationId: 1, role: 'viewer' })
    const stranger = await makePerson(fixture.cp, 'stranger')
    for (const [token, list, commits] of [
      [viewer.token, undefined, 'permission_denied'],
      [stranger.token, 'not_found', 'not_found'],
    ] as const) {
      const other = openDashboardClient(fixture.cp, token)
      const codeOf = (work: Promise<unknown>) =>
        work.then(
          () => undefined,
          (error: { data?: { code?: string } }) => error.data?.code,
        )
      expect(await codeOf(other.client.version.list.query(at))).toBe(list)
      expect(await codeOf(other.client.version.commits.query(at))).toBe(commits)
      await other.close()
    }
  })

  test('a canceled task names who canceled it', async () => {
    fixture.platform.executor.script = async (a) => {
      await a.stopAsked()
      a.cancel()
    }
    const { id } = (await fixture.platform.deploy(environment.id)).body
    await until('it to run', async () =>
      (await fixture.platform.task(id)).status === 'running' ? true : undefined,
    )
    await fixture.cp.call('POST', `/api/tasks/${id}/cancel`)
    const canceled = await fixture.platform.settled(id)
    expect(canceled).toMatchObject({
      status: 'canceled',
      cancel_reason: 'user',
      canceled_by: 'Ada',
    })
  })

  test('texts of a task hold no escape sequences', async () => {
    const marked = (text: string) => `\u001b[31m${text}\u001b[0m\u001b]0;owned\u0007\u202e`
    const failed = await play((a) => {
      a.emit({
        case: 'commit',
        value: {
          commitSha: 'e'.repeat(40),
          subject: marked('Fix totals'),
          authorName: marked('Eve'),
        },
      })
      a.step('build:web', marked('Build web'), 'build')
      a.emit({ case: 'warning', value: { code: 'odd', message: marked('odd'), stepId: '' } })
      a.fail(marked('It broke.'))
    })
    expect(failed).toMatchObject({
      commit_message: 'Fix totals',
      commit_author: 'Eve',
      warnings: [{ message: 'odd' }],
      failure: { message: 'It broke.', step_title: 'Build web' },
    })
    const step = failed.phases?.at(-1)?.steps[0]
    expect(step).toMatchObject({ title: 'Build web', message: 'It broke.' })
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
    expect(JSON.stringify(failed)).not.toMatch(/\\u001b|\\u202e|[\u001b\u202e]/)
  })
})
