// Environments that are deleted and reset in a whole installation of real processes: requested over HTTP, performed by
// a daemon and its runners, even if the daemon is killed in the middle. The machine itself shows what is left.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Environment, Task } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { listProcesses, readOwner } from '../../agent/src/machine/process/processes.ts'
import { ApiError, Fixture, until } from '../fixtures/server/installation.ts'

const isRoot = process.getuid?.() === 0

describe('a removal in a whole installation', () => {
  let fixture: Fixture
  let words: string
  beforeAll(async () => {
    fixture = await Fixture.open({ proxy: true })
    words = join(fixture.dir, 'words')
    mkdirSync(words)
    execFileSync('chmod', ['0777', words])
  })
  afterAll(() => fixture.close())

  /** The example with an additional service and destroy steps. */
  async function deployed(name: string, destroy: string[]): Promise<Environment> {
    const url = fixture.exampleRepository('hello')
    const file = readFileSync(join(fixture.dir, 'repositories', 'hello', '.service.yml'), 'utf8')
    const steps = destroy.map((step) => `    - ${JSON.stringify(step)}\n`).join('')
    const text = file.replace(/^manual:\n/m, `manual:\n  destroy:\n${steps}`)
    expect(text).not.toBe(file)
    writeFileSync(join(fixture.dir, 'repositories', 'hello', '.service.yml'), text)
    fixture.repository('hello', {})
    const project = await fixture.project(name, url)
    const { id } = await fixture.environment(project.id, 'main')
    const task = await fixture.finished((await fixture.deploy(id)).id)
    expect([task.status, task.failure]).toEqual(['succeeded', null])
    return fixture.get<Environment>(`/api/environments/${id}`)
  }

  async function remove(id: number, query = ''): Promise<Task> {
    const answer = await fixture.call('DELETE', `/api/environments/${id}${query}`)
    expect(answer.status).toBe(202)
    return (await answer.json()) as Task
  }

  const account = (id: number) => `${fixture.accountPrefix}${id}`
  const passwd = (key: string | number): string[] =>
    spawnSync('getent', ['passwd', String(key)], { encoding: 'utf8' }).stdout.split(':')
  const uidOf = (id: number): number | undefined => {
    const number = passwd(account(id))[2]
    return number === undefined ? undefined : Number(number)
  }
  /** A freed uid may now belong to an account of another test, whose processes do not count. */
  const isTaken = (id: number, uid: number): boolean => {
    const [name = ''] = passwd(uid)
    return name !== '' && name !== account(id)
  }

  /** Its folders, account and processes on this machine. */
  function left(id: number, uid: number | undefined): string[] {
    const paths = ['environments', 'logs', 'static', 'run', 'run/services'].map((folder) =>
      join(fixture.stateDir, folder, `e${id}`),
    )
    const processes = listProcesses().filter(
      ({ pid }) => uid !== undefined && readOwner(pid) === uid && !isTaken(id, uid),
    )
    return [
      ...paths.filter((place) => existsSync(place)),
      ...processes.map(({ name, pid }) => `${name} ${pid}`),
      ...(uidOf(id) === undefined ? [] : [account(id)]),
    ]
  }

  const isGone = async (id: number): Promise<boolean> => {
    const error = await fixture.get(`/api/environments/${id}`).catch((thrown: unknown) => thrown)
    return error instanceof ApiError && error.status === 404
  }

  test('leaves no process, file or account, and nothing comes back with the daemon', async () => {
    const environment = await deployed('gone', [`echo bye >${words}/gone`])
    const { id } = environment
    const uid = uidOf(id)
    expect((await fixture.visit(environment.url)).status).toBe(200)
    expect(left(id, uid).length).toBeGreaterThan(isRoot ? 3 : 1)
    const task = await fixture.finished((await remove(id)).id)
    expect([task.status, task.failure]).toEqual(['succeeded', null])
    expect(task.phases?.flatMap(({ steps }) => steps.map(({ name }) => name))).toEqual([
      ...['unroute', '1', 'stop', 'remove'],
    ])
    expect(readFileSync(join(words, 'gone'), 'utf8')).toBe('bye\n')
    expect(await isGone(id)).toBe(true)
    fixture.agent?.kill('SIGKILL')
    await fixture.startAgent()
    await fixture.online()
    expect(left(id, uid)).toEqual([])
    // without Caddy the port itself is closed
    const status = await fixture.visit(environment.url).then(
      (answer) => answer.status,
      () => 404,
    )
    expect(status).toBe(404)
    // the agent dropped the attempts as well; the log of the removal stays readable
    await until('the attempts to be forgotten', () =>
      readdirSync(join(fixture.stateDir, 'attempts')).length === 0 ? true : undefined,
    )
    expect((await fixture.log(task.id)).toString()).toContain('Nothing of main is left')
  })

  test('a failing step fails it with its output; the environment stays and may go without the steps', async () => {
    const { id, url } = await deployed('stays', ['echo the database is busy; exit 4'])
    const uid = uidOf(id)
    const auth = { mode: 'own', username: 'ada', password: 'correct horse' }
    const guarded = await fixture.call('PUT', `/api/environments/${id}/basic_auth`, auth)
    expect(guarded.status).toBe(200)
    await until('the password', async () => (await fixture.visit(url)).status === 401 || undefined)
    const task = await fixture.finished((await remove(id)).id)
    expect(task).toMatchObject({
      status: 'failed',
      failure: { code: 'step_failed', phase: 'run', step: '1', exit_code: 4 },
    })
    expect((await fixture.log(task.id)).toString()).toContain('the database is busy')
    // it removed nothing: its hostnames are routed again, behind the same password
    expect((await fixture.visit(url)).status).toBe(401)
    expect((await fixture.visit(url, 'ada:correct horse')).status).toBe(200)
    const after = await fixture.get<Environment>(`/api/environments/${id}`)
    expect(after.status_reason).toContain('exited with 4')
    const anyway = await fixture.finished((await remove(id, '?force=true')).id)
    expect(anyway.status).toBe('succeeded')
    expect((await fixture.log(anyway.id)).toString()).toContain('destroy steps are skipped')
    expect(left(id, uid)).toEqual([])
  })

  test('the daemon is killed in the middle: the runner goes on and is adopted, the steps run once', async () => {
    const gate = join(words, 'open')
    const { id } = await deployed('adopted', [
      `echo once >>${words}/starts; while ! test -e ${gate}; do sleep 0.05; done`,
    ])
    const uid = uidOf(id)
    const { id: taskId } = await remove(id)
    await until('the step', () => existsSync(join(words, 'starts')) || undefined)
    fixture.agent?.kill('SIGKILL')
    await fixture.startAgent()
    writeFileSync(gate, '')
    const task = await fixture.finished(taskId)
    expect([task.status, task.failure]).toEqual(['succeeded', null])
    expect(readFileSync(join(words, 'starts'), 'utf8')).toBe('once\n')
    expect(left(id, uid)).toEqual([])
    expect(await isGone(id)).toBe(true)
  })

  test('the runner is killed in the middle: it failed, says so, and the next one finishes', async () => {
    const { id } = await deployed('killed', [`echo $$ >${words}/pid; exec sleep 4000`])
    const uid = uidOf(id)
    const { id: taskId } = await remove(id)
    await until('the step', () => existsSync(join(words, 'pid')) || undefined)
    const attempts = join(fixture.stateDir, 'attempts')
    const claims = readdirSync(attempts).map((name) => join(attempts, name, 'claim.json'))
    const running = claims
      .filter((file) => existsSync(file))
      .map((file) => JSON.parse(readFileSync(file, 'utf8')))
    for (const { pid } of running)
      if (listProcesses().some((p) => p.pid === pid)) process.kill(pid, 'SIGKILL')
    const task = await fixture.finished(taskId)
    expect(task).toMatchObject({ status: 'failed', failure: { code: 'runner_died' } })
    const again = await fixture.finished((await remove(id, '?force=true')).id)
    expect(again.status).toBe('succeeded')
    expect(left(id, uid)).toEqual([])
  })

  test('a reset empties the environment, keeps its account and settings, and deploys', async () => {
    const { id, url } = await deployed('fresh', [`echo reset >${words}/reset`])
    const uid = uidOf(id)
    const shared = join(fixture.stateDir, 'environments', `e${id}`, 'shared')
    writeFileSync(join(shared, 'data'), 'x')
    const { id: taskId } = await fixture.post<Task>(`/api/environments/${id}/reset`, {
      confirm: 'main',
    })
    const task = await fixture.finished(taskId)
    expect(task).toMatchObject({ status: 'succeeded', reset: true, failure: null })
    expect(readFileSync(join(words, 'reset'), 'utf8')).toBe('reset\n')
    expect(existsSync(join(shared, 'data'))).toBe(false)
    expect(uidOf(id)).toBe(uid)
    const after = await fixture.get<Environment>(`/api/environments/${id}`)
    expect((await fixture.visit(after.url ?? url)).status).toBe(200)
  })
})
