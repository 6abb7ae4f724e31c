// Ceilings: administrators limit what an environment may use, per server and per project; the agent receives the lower
// one with the task. On both databases.
import { defaultCeilings } from '@berth/shared'
import type { AuditEntry, ProjectDetail, Server } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addMember, type Person } from '../fixtures/people/members.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'

const GiB = 1_024 ** 3
const NONE = { memory_bytes: null, cpus: null, pids: null, disk_bytes: null }

describe.each(ENGINES)('ceilings on %s', (engine) => {
  let p: Platform
  let admin: Person
  let developer: Person
  let project: string
  let server: string
  beforeAll(async () => {
    p = await Platform.start(engine)
    admin = await addMember(p.cp, 'Adm', 'admin')
    developer = await addMember(p.cp, 'Dev', 'developer')
    project = `/api/projects/${p.projectId}`
    server = `/api/servers/${p.serverId}`
  })
  afterAll(() => p.close())

  /** The limits that the agent receives with a deployment. */
  async function reported(identifier: string) {
    const environment = await p.environment(identifier)
    let limits: unknown
    p.executor.script = (a) => {
      const given = a.assignment.spec?.environment?.limits
      limits = given && [
        Number(given.memoryBytes),
        given.cpuMillis,
        given.pids,
        Number(given.diskBytes),
      ]
      a.succeed()
    }
    const { body } = await p.deploy(environment.id)
    await p.settled(body.id)
    return limits
  }

  test('none are set; the size of the server gives them, and processors stay free', async () => {
    const { body } = await p.cp.call<Server>('GET', server)
    expect(body.limits).toEqual(NONE)
    const { cpus = 0, memory_bytes: memoryBytes = 0, disk_bytes: diskBytes = 0 } = body.facts ?? {}
    const given = defaultCeilings({ cpus, memoryBytes, diskBytes })
    expect(body.default_limits).toEqual(given)
    expect(given.memory_bytes).toBeLessThanOrEqual(Math.max(memoryBytes * 0.75, 512 * 1_024 ** 2))
    expect((await p.cp.call<ProjectDetail>('GET', project)).body.limits).toEqual(NONE)
    expect(await reported('size')).toEqual([given.memory_bytes, 0, given.pids, given.disk_bytes])
  })

  test('an administrator sets them; what is left out stays, null takes one back', async () => {
    const set = await admin.call<ProjectDetail>('PATCH', project, {
      limits: { memory_bytes: 2 * GiB, cpus: 1.5, pids: 300, disk_bytes: 3 * GiB },
    })
    expect(set.body.limits).toEqual({
      memory_bytes: 2 * GiB,
      cpus: 1.5,
      pids: 300,
      disk_bytes: 3 * GiB,
    })
    const less = await admin.call<ProjectDetail>('PATCH', project, { limits: { pids: null } })
    expect(less.body.limits).toMatchObject({ memory_bytes: 2 * GiB, pids: null })
    const onServer = await admin.call<Server>('PATCH', server, {
      limits: { memory_bytes: 8 * GiB, cpus: 1, pids: 200, disk_bytes: 2 * GiB },
    })
    expect(onServer.body.limits).toMatchObject({ memory_bytes: 8 * GiB, cpus: 1 })
    // the lower of both
    expect(await reported('both')).toEqual([2 * GiB, 1_000, 200, 2 * GiB])
    const audit = await p.cp.call<AuditEntry[]>('GET', '/api/organizations/1/audit?per_page=10')
    const rows = audit.body.filter(({ changes }) => JSON.stringify(changes).includes('disk_bytes'))
    expect(rows.map(({ verb, actor }) => [verb, actor.name])).toEqual([
      ['server.update', 'Adm'],
      ['project.update', 'Adm'],
    ])
  })

  test('a member gets 403, and nothing changes', async () => {
    for (const path of [project, server]) {
      const refused = await developer.call('PATCH', path, { limits: { memory_bytes: null } })
      expect([refused.status, refused.body.code]).toEqual([403, 'permission_denied'])
    }
    expect((await p.cp.call<Server>('GET', server)).body.limits.memory_bytes).toBe(8 * GiB)
  })

  test.each([
    [{ memory_bytes: 1 }],
    [{ memory_bytes: '2g' }],
    [{ cpus: 0 }],
    [{ cpus: 1_000 }],
    [{ pids: 1.5 }],
    [{ disk_bytes: -1 }],
    [{ swap_bytes: 1 }],
    [null],
  ])('%j is no limit', async (limits) => {
    for (const path of [project, server]) {
      const refused = await admin.call('PATCH', path, { limits })
      expect([path, refused.status, refused.body.code]).toEqual([path, 422, 'validation_failed'])
    }
  })
})
