// Settings of a server: administrators set what builds may use, the numbers of slots and the name; the agent follows
// each change. A deployment that waits for a build slot says so. On both databases.
import { defaultServerSettings } from '@berth/shared'
import type { AuditEntry, Server, Task } from '@berth/shared/api'
import { AttemptState } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readServerSettings } from '../../agent/src/machine/server-settings.ts'
import { addMember, type Person } from '../fixtures/people/members.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { until } from '../fixtures/server/installation.ts'

const GiB = 1_024 ** 3
const MINUTE = 60_000
const NONE = {
  build_memory_bytes: null,
  build_cpus: null,
  build_timeout_ms: null,
  build_slots: null,
  task_slots: null,
}

describe.each(ENGINES)('settings of a server on %s', (engine) => {
  let p: Platform
  let admin: Person
  let developer: Person
  let server: string
  beforeAll(async () => {
    p = await Platform.start(engine)
    admin = await addMember(p.cp, 'Adm', 'admin')
    developer = await addMember(p.cp, 'Dev', 'developer')
    server = `/api/servers/${p.serverId}`
  })
  afterAll(() => p.close())

  const atAgent = () => readServerSettings({ stateDir: p.agentDir })

  test('none are made; half of the memory and all processors are the default', async () => {
    const { body } = await p.cp.call<Server>('GET', server)
    expect(body.settings).toEqual(NONE)
    const { cpus = 0, memory_bytes: memoryBytes = 0 } = body.facts ?? {}
    const given = defaultServerSettings({ cpus, memoryBytes })
    expect(body.default_settings).toEqual(given)
    expect(given.build_memory_bytes).toBeLessThanOrEqual(Math.max(memoryBytes / 2, GiB / 2))
    expect(given.build_cpus).toBe(cpus)
    expect(atAgent()).toMatchObject({
      name: body.name,
      buildMemoryBytes: given.build_memory_bytes,
      buildSlots: given.build_slots,
      taskSlots: given.task_slots,
    })
  })

  test('an administrator makes them, and the connected agent follows at once', async () => {
    const settings = {
      build_memory_bytes: GiB,
      build_cpus: 0.5,
      build_timeout_ms: 90 * MINUTE,
      build_slots: 3,
      task_slots: 5,
    }
    const set = await admin.call<Server>('PATCH', server, { settings, name: 'fra-1' })
    expect(set.body.settings).toEqual(settings)
    await until('the settings', () => (atAgent().taskSlots === 5 ? true : undefined))
    expect(atAgent()).toEqual({
      name: 'fra-1',
      buildMemoryBytes: GiB,
      buildCpus: 0.5,
      buildTimeoutMs: 90 * MINUTE,
      buildSlots: 3,
      taskSlots: 5,
      isShared: false,
    })
    const less = await admin.call<Server>('PATCH', server, { settings: { build_slots: null } })
    expect(less.body.settings).toEqual({ ...settings, build_slots: null })
    const usual = less.body.default_settings?.build_slots
    await until('the default', () => (atAgent().buildSlots === usual ? true : undefined))
    const audit = await p.cp.call<AuditEntry[]>('GET', '/api/organizations/1/audit?per_page=10')
    const rows = audit.body.filter(({ changes }) => JSON.stringify(changes).includes('build_slots'))
    expect(rows.map(({ verb, actor }) => [verb, actor.name])).toEqual([
      ['server.update', 'Adm'],
      ['server.update', 'Adm'],
    ])
  })

  test('a longer build gives the whole deployment more time', async () => {
    const environment = await p.environment('slow')
    let seconds: bigint | undefined
    p.executor.script = (a) => {
      seconds = a.assignment.spec?.limits?.timeout?.seconds
      a.succeed()
    }
    await p.settled((await p.deploy(environment.id)).body.id)
    expect(seconds).toBe(120n * 60n)
  })

  test('a member gets 403, and nothing changes', async () => {
    const refused = await developer.call('PATCH', server, { settings: { task_slots: 1 } })
    expect([refused.status, refused.body.code]).toEqual([403, 'permission_denied'])
    expect((await p.cp.call<Server>('GET', server)).body.settings.task_slots).toBe(5)
  })

  test('more than the server has is refused with its figures', async () => {
    const { facts } = (await p.cp.call<Server>('GET', server)).body
    const asked = { build_memory_bytes: 4_000 * GiB, build_cpus: 255 }
    const refused = await admin.call('PATCH', server, { settings: asked })
    expect([refused.status, refused.body.code]).toEqual([422, 'validation_failed'])
    const memory = Number(((facts?.memory_bytes ?? 0) / GiB).toFixed(1))
    expect(refused.body.errors).toEqual([
      {
        field: 'settings.build_memory_bytes',
        code: 'too_large',
        message: `A build cannot get 4000 GiB of memory: fra-1 has ${memory} GiB.`,
      },
      {
        field: 'settings.build_cpus',
        code: 'too_large',
        message: `A build cannot get 255 processors: fra-1 has ${facts?.cpus}.`,
      },
    ])
  })

  test.each([
    [{ build_memory_bytes: 1 }],
    [{ build_memory_bytes: '2g' }],
    [{ build_cpus: 0 }],
    [{ build_timeout_ms: 10 }],
    [{ build_slots: 0 }],
    [{ build_slots: 1.5 }],
    [{ task_slots: -1 }],
    [{ pull_slots: 1 }],
    [null],
  ])('%j is no setting', async (settings) => {
    const refused = await admin.call('PATCH', server, { settings })
    expect([refused.status, refused.body.code]).toEqual([422, 'validation_failed'])
  })

  test('a deployment that waits for a build slot says so, with its place, until it goes on', async () => {
    const environment = await p.environment('waits')
    const gate = Promise.withResolvers<void>()
    const waits = (place: number, waitingFor = 'build') => ({
      case: 'attempt' as const,
      value: { state: AttemptState.RUNNING, waitingFor, waitingPlace: place },
    })
    p.executor.script = async (a) => {
      a.emit(waits(2))
      a.emit(waits(1))
      await gate.promise
      a.emit(waits(0, ''))
      await a.stopAsked()
      a.cancel()
    }
    const { body } = await p.deploy(environment.id)
    const shown = async () => (await p.task(body.id)).waiting_for
    const first = await until('the wait', async () => {
      const waiting = await shown()
      return waiting?.position === 1 ? waiting : undefined
    })
    expect(first).toMatchObject({
      code: 'build_slot',
      message: 'fra-1 builds other deployments: place 1 in line for a build slot.',
      position: 1,
    })
    expect((await p.task(body.id)).status).toBe('running')
    gate.resolve()
    await until('its end', async () => ((await shown()) === null ? true : undefined))
    await p.cp.call<Task>('POST', `/api/tasks/${body.id}/cancel`)
    expect(await p.settled(body.id)).toMatchObject({ status: 'canceled', waiting_for: null })
  })
})
