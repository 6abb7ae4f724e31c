// Credentials of image registries: who may set them, which ones a deployment gets, and that they end with their owner.
import type { AuditEntry, Environment, Registry } from '@berth/shared/api'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { addMember } from '../fixtures/people/members.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'

describe.each(ENGINES)('registries on %s', (engine) => {
  let p: Platform
  let environment: Environment
  let project = ''
  const organization = '/api/organizations/1'
  beforeEach(async () => {
    p = await Platform.start(engine)
    environment = await p.environment('main')
    project = `/api/projects/${environment.project_id}`
  })
  afterEach(() => p.close())

  const put = (owner: string, host: string, password: string, username = 'ada') =>
    p.cp.call<Registry>('PUT', `${owner}/registries/${encodeURIComponent(host)}`, {
      username,
      password,
    })
  const list = async (owner: string) =>
    (await p.cp.call<Registry[]>('GET', `${owner}/registries`)).body
  const deploy = async (): Promise<string[]> => {
    let seen: string[] = []
    p.executor.script = (a) => {
      seen = a.secrets.registries.map(
        (r) => `${r.username}:${Buffer.from(r.password).toString()}@${r.host}`,
      )
      a.succeed()
    }
    const { body } = await p.deploy(environment.id)
    expect((await p.settled(body.id)).status).toBe('succeeded')
    return seen.toSorted()
  }

  test("a deployment gets the organization's and the project's, and the project's win", async () => {
    expect((await put(organization, 'ghcr.io', 'one')).body).toMatchObject({ from: 'organization' })
    await put(organization, 'docker.io', 'two')
    const own = await put(project, 'https://index.docker.io/v1/', 'three', 'grace')
    expect(own.body).toMatchObject({ host: 'docker.io', username: 'grace', from: 'project' })
    await put(project, 'registry.example.com:5000', 'four')
    expect(await deploy()).toEqual([
      'ada:four@registry.example.com:5000',
      'ada:one@ghcr.io',
      'grace:three@docker.io',
    ])
    expect((await list(project)).map(({ host, from }) => `${host} ${from}`)).toEqual([
      'docker.io project',
      'ghcr.io organization',
      'registry.example.com:5000 project',
    ])
    expect((await list(organization)).map(({ host }) => host)).toEqual(['docker.io', 'ghcr.io'])
    await put(project, 'docker.io', 'five', 'grace')
    expect(await deploy()).toContain('grace:five@docker.io')
  })

  test('removed, they are gone; what is not there cannot be removed', async () => {
    await put(project, 'ghcr.io', 'one')
    await put(organization, 'ghcr.io', 'two')
    expect((await p.cp.call('DELETE', `${project}/registries/ghcr.io`)).status).toBe(204)
    expect(await deploy()).toEqual(['ada:two@ghcr.io'])
    const again = await p.cp.call('DELETE', `${project}/registries/ghcr.io`)
    expect([again.status, again.body]).toMatchObject([
      404,
      { detail: 'No credentials for ghcr.io are stored here.' },
    ])
  })

  test('are set by administrators, read by members, and recorded without the password', async () => {
    const developer = await addMember(p.cp, 'Eve', 'developer')
    const refused = await developer.call('PUT', `${project}/registries/ghcr.io`, {
      username: 'eve',
      password: 'secret-of-eve',
    })
    expect(refused.body).toMatchObject({ required_permission: 'project:write' })
    await put(project, 'ghcr.io', 'secret-of-ada')
    const seen = await developer.call<Registry[]>('GET', `${project}/registries`)
    expect(seen.body).toMatchObject([{ host: 'ghcr.io', username: 'ada' }])
    const { body, text } = await p.cp.call<AuditEntry[]>('GET', `${organization}/audit`)
    expect(body.find(({ verb }) => verb === 'registry.set')?.changes).toEqual({
      host: 'ghcr.io',
      username: 'ada',
    })
    expect(text).not.toContain('secret-of')
  })

  test.each(['http://', 'bad host', '-x', 'a:x', `${'a'.repeat(260)}.io`])(
    'is not a registry: %j',
    async (host) => {
      const { status } = await put(project, host, 'one')
      expect(status).toBe(422)
      expect(await list(project)).toEqual([])
    },
  )

  test('are limited in number', async () => {
    for (let n = 0; n < 10; n += 1) await put(project, `r${n}.example.com`, 'one')
    expect((await put(project, 'more.example.com', 'one')).status).toBe(422)
    expect((await put(project, 'r1.example.com', 'two')).status).toBe(200)
  })
})
