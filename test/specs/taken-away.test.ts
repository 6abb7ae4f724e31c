// The parent of a new row is removed at the same moment: an organization is deleted, a server is removed. One of the
// two wins, the other is refused, on both databases; no orphaned row is left.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createEnvironment } from '../../control-plane/src/app/environments/environments.ts'
import { changeEnvironment } from '../../control-plane/src/app/environments/settings.ts'
import { authenticate } from '../../control-plane/src/app/people/callers.ts'
import { createProject } from '../../control-plane/src/app/projects/projects.ts'
import { changeProject } from '../../control-plane/src/app/projects/settings.ts'
import { createServer } from '../../control-plane/src/app/servers/servers.ts'
import type { Context } from '../../control-plane/src/context.ts'
import type { Caller } from '../../control-plane/src/domain/core/access.ts'
import { addMember, addOrganization, type Person } from '../fixtures/people/members.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { holdChanges } from '../fixtures/platform/hold-changes.ts'

const ROUNDS = 12

describe.each(ENGINES)('taken away on %s', (engine) => {
  let cp: TestControlPlane
  let count = 0
  const fresh = (word: string): string => {
    count += 1
    return `${word}-${count}`
  }
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
  })
  afterAll(() => cp.close())

  const callerOf = async (token: string): Promise<Caller> => {
    const from = { address: '', requestId: 'test' }
    return (await authenticate(cp.running.ctx, `Bearer ${token}`, from)).caller
  }
  /** Runs `work` up to its first write, then `meanwhile`, then the rest; returns the refusal's code. */
  const interrupted = async (
    work: (ctx: Context) => Promise<unknown>,
    meanwhile: () => Promise<{ status: number }>,
  ): Promise<string> => {
    const held = holdChanges(cp.running.ctx.db)
    const done = work({ ...cp.running.ctx, db: held.db }).then(
      () => 'done',
      (error: { code?: string; details?: { errors?: { code: string }[] } }) =>
        error.details?.errors?.[0]?.code ?? String(error.code),
    )
    await held.reached
    expect((await meanwhile()).status).toBe(204)
    held.go()
    return done
  }
  const newOrganization = async (): Promise<{
    id: number
    owner: Person
    end: () => Promise<{ status: number }>
  }> => {
    const slug = fresh('org')
    const id = await addOrganization(cp, slug)
    const owner = await addMember(cp, fresh('Eve'), 'owner', { organizationId: id })
    const end = () => owner.call('DELETE', `/api/organizations/${id}?confirm=${slug}`)
    return { id, owner, end }
  }
  const projectOf = (serverIds: number[]) => {
    const name = fresh('shop')
    return {
      name,
      repo_url: 'https://git.example.com/x.git',
      domain: `${name}.example.com`,
      server_ids: serverIds,
    }
  }
  const dropServer = (server: { id: number; name: string }) =>
    cp.call('DELETE', `/api/servers/${server.id}?confirm=${server.name}`)

  test('an organization that ended gets no server', async () => {
    const { id, owner, end } = await newOrganization()
    const caller = await callerOf(owner.token)
    const server = { name: fresh('s'), hostname: 'h' }
    expect(await interrupted((ctx) => createServer(ctx, caller, server), end)).toBe('not_found')
    const { db } = cp.running.ctx
    const left = db.selectFrom('servers').select('id').where('organizationId', '=', id)
    expect(await left.execute()).toEqual([])
  })

  test('an organization that ended gets no project', async () => {
    const { id, owner, end } = await newOrganization()
    const server = { name: fresh('s'), hostname: 'h' }
    const made = await owner.call<{ id: number }>('POST', '/api/servers', server)
    const caller = await callerOf(owner.token)
    const asked = projectOf([made.body.id])
    const meanwhile = async () => {
      await owner.call('DELETE', `/api/servers/${made.body.id}?confirm=${server.name}`)
      return end()
    }
    expect(await interrupted((ctx) => createProject(ctx, caller, asked as never), meanwhile)).toBe(
      'not_found',
    )
    const { db } = cp.running.ctx
    const left = db.selectFrom('projects').select('id').where('organizationId', '=', id)
    expect(await left.execute()).toEqual([])
  })

  test('a server that was removed gets no project, no environment and no moved one', async () => {
    const caller = await callerOf(cp.token)
    const stays = await cp.server(fresh('stays'))
    const own = async () => cp.server(fresh('goes'))
    const first = await own()
    const asked = projectOf([first.id])
    expect(
      await interrupted(
        (ctx) => createProject(ctx, caller, asked as never),
        () => dropServer(first),
      ),
    ).toBe('not_found')
    const second = await own()
    const both = await cp.project(fresh('p'), stays.id, { server_ids: [stays.id, second.id] })
    const environment = { identifier: 'main', branch: 'main', server_id: second.id }
    expect(
      await interrupted(
        (ctx) => createEnvironment(ctx, caller, both.id, environment, 'api'),
        () => dropServer(second),
      ),
    ).toBe('server_not_in_project')
    const third = await own()
    expect(
      await interrupted(
        (ctx) => changeProject(ctx, caller, both.id, { server_ids: [stays.id, third.id] }),
        () => dropServer(third),
      ),
    ).toBe('not_found')
    const fourth = await own()
    await cp.call('PATCH', `/api/projects/${both.id}`, { server_ids: [stays.id, fourth.id] })
    const { id } = await cp.environment(both.id, 'moves', { server_id: stays.id })
    expect(
      await interrupted(
        (ctx) => changeEnvironment(ctx, caller, id, { server_id: fourth.id }),
        () => dropServer(fourth),
      ),
    ).toBe('server_not_in_project')
  })

  test('at once, many times: never both', async () => {
    const stays = await cp.server(fresh('stays'))
    const project = await cp.project(fresh('p'), stays.id)
    for (let round = 0; round < ROUNDS; round++) {
      const server = await cp.server(fresh('goes'))
      const ids = [stays.id, server.id]
      await cp.call('PATCH', `/api/projects/${project.id}`, { server_ids: ids })
      const identifier = fresh('e')
      const body = { identifier, branch: 'main', server_id: server.id }
      const [made, gone] = await Promise.all([
        cp.call<{ id: number }>('POST', `/api/projects/${project.id}/environments`, body),
        dropServer(server),
      ])
      const answers = [made.status, gone.status].join()
      expect(['201,409', '422,204']).toContain(answers)
      if (made.status === 201) await cp.call('DELETE', `/api/environments/${made.body.id}`)
    }
  })
})
