// Builds and slots of a server with a real agent, engine and control plane: two builds share one slot, and meanwhile an
// action, a removal and a deployment without a build go through on one task slot. Limits and names that people set reach
// the messages; a canceled wait and a killed runner free what they had.
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Environment, Server, Task } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listProcesses } from '../../agent/src/machine/process/processes.ts'
import { deployed, dockerEnvironment } from '../fixtures/docker/docker-fixture.ts'
import { BUSYBOX_IMAGE } from '../fixtures/docker/images.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { Fixture, until } from '../fixtures/server/installation.ts'
import { isRoot } from '../fixtures/server/server.ts'

const engine = dockerEngine()
const MiB = 1_024 ** 2

const image = `docker:
  services:
    web: { image: "${BUSYBOX_IMAGE}", command: exec httpd -f -p 8080, port: 8080, health: { port: 8080 } }
actions:
  hello: { service: web, run: echo HELLO-$((40+2)) }
`
const built = (run: string): Record<string, string> => ({
  '.service.yml':
    'docker: { services: { web: { build: ., port: 8080, health: { port: 8080 } } } }\n',
  Dockerfile: `FROM ${BUSYBOX_IMAGE}\nRUN ${run}\nCMD exec httpd -f -p 8080\n`,
})

/** Empty when the process has ended. */
function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}

describe.skipIf(!engine || missing('caddy') || !isRoot)('one build slot and one task slot', () => {
  let fixture: Fixture
  let plain: Environment
  beforeAll(async () => {
    if (!engine) return
    fixture = await Fixture.open({ docker: engine })
    await set({ build_slots: 1, task_slots: 1 }, 'fra-1')
    plain = await dockerEnvironment(fixture, 'plain', { '.service.yml': image })
    await deployed(fixture, plain.id)
  })
  afterAll(() => fixture?.close())

  async function set(settings: Partial<Server['settings']>, name?: string): Promise<void> {
    const body = { settings, ...(name ? { name } : {}) }
    await fixture.call('PATCH', `/api/servers/${fixture.serverId}`, body)
  }

  /** A RUN that ends when its build is canceled; it marks itself in its arguments. */
  const endless = (mark: string): string => `sleep 3600; echo ${mark}`
  const isBuilding = (mark: string): boolean =>
    listProcesses().some(({ pid }) => commandLine(pid).includes(`echo ${mark}`))

  const waits = (id: number): Promise<Task> =>
    until(`task ${id} to wait for a build slot`, async () => {
      const task = await fixture.get<Task>(`/api/tasks/${id}`)
      return task.waiting_for?.code === 'build_slot' ? task : undefined
    })
  const cancel = (id: number) => fixture.call('POST', `/api/tasks/${id}/cancel`)
  const slotFiles = (): string[] => readdirSync(join(fixture.stateDir, 'run', 'slots'))

  it('let an action, an image and a removal through while a second build waits, in order', async () => {
    const one = await dockerEnvironment(fixture, 'one', built(endless('first-of-two')))
    const two = await dockerEnvironment(fixture, 'two', built(endless('second-of-two')))
    const other = await dockerEnvironment(fixture, 'other', { '.service.yml': image })
    const first = await fixture.deploy(one.id)
    await until('the first build', () => isBuilding('first-of-two') || undefined)
    const second = await fixture.deploy(two.id)
    expect((await waits(second.id)).waiting_for).toMatchObject({
      message: 'fra-1 builds other deployments: place 1 in line for a build slot.',
      position: 1,
    })
    expect(isBuilding('second-of-two')).toBe(false)

    const action = await fixture.post<Task>(`/api/environments/${plain.id}/actions/hello/tasks`)
    expect(await fixture.finished(action.id)).toMatchObject({ status: 'succeeded' })
    await deployed(fixture, other.id)
    await deployed(fixture, plain.id) // the same image once more
    const answer = await fixture.call('DELETE', `/api/environments/${other.id}`)
    const removal = (await answer.json()) as Task
    expect(await fixture.finished(removal.id)).toMatchObject({ status: 'succeeded' })
    expect(isBuilding('second-of-two')).toBe(false)

    // the slot passes to the one that waits
    await cancel(first.id)
    expect(await fixture.finished(first.id)).toMatchObject({ status: 'canceled' })
    await until('the second build', () => isBuilding('second-of-two') || undefined)
    expect((await fixture.get<Task>(`/api/tasks/${second.id}`)).waiting_for).toBeNull()
    await cancel(second.id)
    expect(await fixture.finished(second.id)).toMatchObject({ status: 'canceled' })
    expect(slotFiles()).toEqual([])
  })

  it('are free again after a canceled wait, a killed runner and a restart of the agent', async () => {
    const one = await dockerEnvironment(fixture, 'three', built(endless('holds-the-slot')))
    const two = await dockerEnvironment(fixture, 'four', built(endless('never-built')))
    const first = await fixture.deploy(one.id)
    await until('the build', () => isBuilding('holds-the-slot') || undefined)
    const canceled = await fixture.deploy(two.id)
    await waits(canceled.id)
    await cancel(canceled.id)
    expect(await fixture.finished(canceled.id)).toMatchObject({ status: 'canceled' })

    // a new daemon knows which attempts build, so the only task slot is free
    const gone = fixture.agent && once(fixture.agent, 'exit')
    fixture.agent?.kill('SIGKILL')
    await gone
    await fixture.startAgent()
    const waiting = await fixture.deploy(two.id)
    await waits(waiting.id)
    await deployed(fixture, plain.id)

    const [holder] = slotFiles().filter((name) => name.startsWith('build-hold-'))
    process.kill(Number(holder?.split('-')[3]), 'SIGKILL')
    expect(await fixture.finished(first.id)).toMatchObject({
      status: 'failed',
      failure: { code: 'runner_died' },
    })
    await until('the next build', () => isBuilding('never-built') || undefined)
    await cancel(waiting.id)
    expect(await fixture.finished(waiting.id)).toMatchObject({ status: 'canceled' })
    expect(slotFiles()).toEqual([])
  })

  it('name the limit, the server and the setting when a build or step needs too much memory', async () => {
    await set({ build_memory_bytes: 64 * MiB })
    const wait = 'until [ $(cat /proc/self/oom_score_adj) = 900 ]; do sleep 0.1; done'
    const hog = `awk 'BEGIN { s = "xxxxxxxxxxxxxxxx"; while (1) s = s s }'`
    const greedy = await dockerEnvironment(
      fixture,
      'greedy',
      built(`${wait}; ulimit -v 600000; ${hog}`),
    )
    const failed = await fixture.finished((await fixture.deploy(greedy.id)).id)
    expect(failed.failure).toMatchObject({ code: 'out_of_memory', step: 'build:web' })
    expect(failed.failure?.message).toContain(
      'needed more than 64 MiB, the build limit of server fra-1. An administrator can raise it under Servers › fra-1 › Builds and slots, or with `berth server set fra-1 --build-memory 128m`.',
    )
    const project = await fixture.project(
      'greedy-steps',
      fixture.repository('greedy-steps', {
        '.service.yml': `manual: { deploy: ["awk 'BEGIN { s = \\"xxxxxxxxxxxxxxxx\\"; while (1) s = s s }'"] }\n`,
      }),
      'manual',
    )
    const path = `/api/projects/${project.id}/environments`
    const made = { identifier: 'main', branch: 'main', auto_deploy: false }
    const steps = await fixture.post<Environment>(path, made)
    const stopped = await fixture.finished((await fixture.deploy(steps.id)).id)
    expect(stopped.failure).toMatchObject({ code: 'out_of_memory' })
    expect(stopped.failure?.message).toContain('needed more than 64 MiB, the build limit of server')

    // the next assignment uses a new name
    await set({ build_memory_bytes: null }, 'fra-2')
    const again = await fixture.deploy(plain.id)
    await fixture.finished(again.id)
    expect(String(await fixture.log(again.id))).toContain('Server fra-2: docker recipe')
  })
})
