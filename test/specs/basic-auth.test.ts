// HTTP Basic Auth credentials: set at creation or on the settings tab, or inherited from the project. They apply from
// the first deployment on, and changes need no deployment. On both databases.
import { createRequire } from 'node:module'
import type { BasicAuth, Environment } from '@berth/shared/api'
import type { EnvironmentEdge, TaskSecrets } from '@berth/shared/wire'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { revisionOnWire } from '../../control-plane/src/gateways/agents/edge.ts'
import { addMember } from '../fixtures/people/members.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { WireAgent, type WireSession } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'

/** The control plane's implementation; the edge verifies with a different one. */
const bcrypt = createRequire(new URL('../../control-plane/package.json', import.meta.url))(
  'bcryptjs',
) as { compare(password: string, hash: string): Promise<boolean> }

const OWN = { mode: 'own', username: 'preview', password: 'correct horse' }

describe.each(ENGINES)('Basic Auth on %s', (engine) => {
  let cp: TestControlPlane
  let agent: WireAgent
  let session: WireSession
  let projectId: number
  beforeEach(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    const server = await cp.server()
    projectId = (await cp.project('shop', server.id)).id
    agent = await WireAgent.join(cp, server.id)
    session = await agent.active()
  })
  afterEach(async () => {
    agent.close()
    await cp.close()
  })

  const put = (environment: { id: number }, body: unknown) =>
    cp.call<BasicAuth>('PUT', `/api/environments/${environment.id}/basic_auth`, body)
  const putProject = (body: unknown) =>
    cp.call<BasicAuth>('PUT', `/api/projects/${projectId}/basic_auth`, body)
  const shown = async (environment: { id: number }) =>
    (await cp.call<Environment>('GET', `/api/environments/${environment.id}`)).body.basic_auth
  const deploy = async (environment: { id: number }): Promise<TaskSecrets | undefined> => {
    await cp.call('POST', `/api/environments/${environment.id}/tasks`)
    const [assignment] = await session.assignments()
    return assignment?.secrets
  }
  /** The next edge state that the control plane sends for this environment. */
  const reported = (environment: { id: number }, revision: number): Promise<EnvironmentEdge> =>
    until('the edge to be told', async () => {
      const { environments } = await session.next('edge')
      return environments.find(
        (e) =>
          e.environmentId === environment.id &&
          e.revision === revisionOnWire(cp.running.ctx, revision),
      )
    })

  test('set on creation, it is in force from the very first deployment', async () => {
    const environment = await cp.environment(projectId, 'main', { basic_auth: OWN })
    expect(environment.basic_auth).toEqual({ mode: 'own', enabled: true, username: 'preview' })
    const secrets = await deploy(environment)
    expect(secrets?.basicAuth?.username).toBe('preview')
    const hash = secrets?.basicAuth?.bcryptHash ?? ''
    expect(hash).toMatch(/^\$2[aby]\$10\$/)
    expect(await bcrypt.compare(OWN.password, hash)).toBe(true)
    expect(await bcrypt.compare('correct horsf', hash)).toBe(false)
  })

  test('inherited from the project unless the environment has its own or none', async () => {
    const environment = await cp.environment(projectId)
    expect(await shown(environment)).toEqual({ mode: 'inherit', enabled: false, username: null })
    expect((await putProject({ ...OWN, username: 'team' })).body).toEqual({
      mode: 'own',
      enabled: true,
      username: 'team',
    })
    expect(await shown(environment)).toEqual({ mode: 'inherit', enabled: true, username: 'team' })
    await put(environment, OWN)
    expect((await shown(environment)).username).toBe('preview')
    await put(environment, { mode: 'off' })
    expect(await shown(environment)).toEqual({ mode: 'off', enabled: false, username: null })
    const back = await put(environment, { mode: 'inherit' })
    expect(back.body).toEqual({ mode: 'inherit', enabled: true, username: 'team' })
    expect((await deploy(environment))?.basicAuth?.username).toBe('team')
    await putProject({ mode: 'off' })
    expect(await shown(environment)).toEqual({ mode: 'inherit', enabled: false, username: null })
  })

  test('a change takes effect without a deployment; an offline server follows when it returns', async () => {
    const environment = await cp.environment(projectId)
    await put(environment, OWN)
    const first = await reported(environment, 1)
    expect(await bcrypt.compare(OWN.password, first.basicAuth?.bcryptHash ?? '')).toBe(true)
    await put(environment, { mode: 'off' })
    expect((await reported(environment, 2)).basicAuth).toBeUndefined()
    await put(environment, { mode: 'inherit' })
    await reported(environment, 3)
    session.cut()
    await until('the end', () => (cp.running.gateway.sessions().length === 0 ? true : undefined))
    await putProject({ ...OWN, username: 'team' })
    session = await agent.active()
    expect((await reported(environment, 4)).basicAuth?.username).toBe('team')
  })

  test('the password is in no answer and in no row', async () => {
    const environment = await cp.environment(projectId, 'main', { basic_auth: OWN })
    const said = [
      (await put(environment, { ...OWN, password: 'correct horse 2' })).text,
      (await putProject({ ...OWN, password: 'correct horse 3' })).text,
      (await cp.call('GET', `/api/environments/${environment.id}`)).text,
      (await cp.call('GET', `/api/projects/${projectId}`)).text,
    ]
    const { db } = cp.running.ctx
    for (const table of ['environments', 'projects', 'audit', 'events'] as const) {
      said.push(JSON.stringify(await db.selectFrom(table).selectAll().execute()))
    }
    for (const text of said) {
      expect(text.includes('correct horse')).toBe(false)
      expect(text.includes('$2')).toBe(false) // nor the hash
    }
  })

  test.each<[string, object]>([
    ['a short password', { ...OWN, password: 'short' }],
    ['more than bcrypt reads', { ...OWN, password: 'é'.repeat(37) }],
    ['NUL', { ...OWN, password: 'correct\0horse' }],
    ['a colon in the name', { ...OWN, username: 'a:b' }],
    ['no name', { mode: 'own', password: 'correct horse' }],
    ['no password', { mode: 'own', username: 'preview' }],
    ['a password without need', { mode: 'off', password: 'correct horse' }],
    ['no mode', {}],
  ])('%s is refused', async (_what, body) => {
    const environment = await cp.environment(projectId)
    for (const answer of [await put(environment, body), await putProject(body)]) {
      expect([answer.status, answer.text.includes('correct')]).toEqual([422, false])
    }
    expect((await putProject({ mode: 'inherit' })).status).toBe(422)
  })

  test('who may not change environments or projects does not change their Basic Auth', async () => {
    const environment = await cp.environment(projectId)
    const viewer = await addMember(cp, 'View', 'viewer')
    const developer = await addMember(cp, 'Dev', 'developer')
    const path = `/api/environments/${environment.id}/basic_auth`
    expect((await viewer.call('PUT', path, OWN)).body.code).toBe('permission_denied')
    expect((await developer.call('PUT', path, OWN)).status).toBe(200)
    const project = `/api/projects/${projectId}/basic_auth`
    expect((await developer.call('PUT', project, OWN)).body.code).toBe('permission_denied')
  })
})
