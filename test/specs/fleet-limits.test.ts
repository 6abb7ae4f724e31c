// Limits that a fleet reaches are settings of the operator, and each refusal names its setting.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'

describe.each(ENGINES)('limits of a fleet on %s', (engine) => {
  let cp: TestControlPlane
  let server: number
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine, {
      env: {
        BERTH_ENROLMENTS_PER_MINUTE: '3',
        BERTH_DOWNLOADS_PER_MINUTE: '2',
        BERTH_SERVERS_PER_ORGANIZATION: '2',
        BERTH_PROJECTS_PER_ORGANIZATION: '1',
      },
    })
    await cp.setUp()
    server = (await cp.server('one')).id
    await cp.server('two')
    await cp.project('first', server)
  })
  afterAll(() => cp.close())

  const refusals = (body: { errors?: { code: string; message: string }[] }) =>
    (body.errors ?? []).map(({ code, message }) => `${code}: ${message}`)

  test('servers and projects of an organization', async () => {
    const third = await cp.call('POST', '/api/servers', { name: 'three', hostname: '127.0.0.1' })
    expect([third.status, ...refusals(third.body)]).toEqual([
      422,
      'too_many_servers: An organization has at most 2 servers. The operator of Berth can raise BERTH_SERVERS_PER_ORGANIZATION.',
    ])
    const second = await cp.call('POST', '/api/projects', {
      name: 'second',
      repo_url: 'https://git.example.com/second.git',
      domain: 'second.example.com',
      server_ids: [server],
      default_recipe: 'manual',
    })
    expect([second.status, ...refusals(second.body)]).toEqual([
      422,
      'too_many_projects: An organization has at most 1 projects. The operator of Berth can raise BERTH_PROJECTS_PER_ORGANIZATION.',
    ])
  })

  test('joins and downloads of one address in a minute', async () => {
    const join = () =>
      cp.call('POST', '/api/agent/enroll', {
        token: 'nonsense',
        csr: 'x',
        install_id: '7b1f0c62-0c37-4c2e-9f62-0d4b7c1f2a33',
        host: { hostname: 'h', os: 'linux', arch: 'x64', agent_version: '1.15.0' },
      })
    const joins = [await join(), await join(), await join(), await join()]
    expect(joins.map(({ status }) => status === 429)).toEqual([false, false, false, true])
    expect(joins[3]?.text).toContain('can raise BERTH_ENROLMENTS_PER_MINUTE.')
    const load = () => cp.call('GET', '/install/berth-agent-linux-x64.tar.gz')
    const loads = [await load(), await load(), await load()]
    expect(loads.map(({ status }) => status)).toEqual([404, 404, 429])
    expect(loads[2]?.text).toContain('can raise BERTH_DOWNLOADS_PER_MINUTE.')
  })
})
