// Custom variables: the specification's sentences, on both databases. values-nowhere.test.ts proves that no value ever
// leaks.
import type { Environment, Variable, VariablesPatched } from '@berth/shared/api'
import { Recipe } from '@berth/shared/wire'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { addMember, addOrganization } from '../fixtures/people/members.ts'
import { type Answer, TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'

const HINT = 'Variables changed since the last deployment'

describe.each(ENGINES)('variables on %s', (engine) => {
  let p: Platform
  let environment: Environment
  let path: string
  beforeEach(async () => {
    p = await Platform.start(engine)
    environment = await p.environment('main', { variables: { GIVEN: 'at creation' } })
    path = `/api/environments/${environment.id}`
  })
  afterEach(() => p.close())

  const patch = (body: unknown) => p.cp.call<VariablesPatched>('PATCH', `${path}/variables`, body)
  const list = async () => (await p.cp.call<Variable[]>('GET', `${path}/variables`)).body
  const flag = async () => (await p.cp.call<Environment>('GET', path)).body.variables_changed
  const deploy = async (): Promise<Record<string, string>> => {
    const seen: Record<string, string> = {}
    p.executor.script = (a) => {
      for (const v of a.secrets.variables) seen[v.key] = Buffer.from(v.value).toString()
      Object.assign(seen, a.assignment.spec?.systemVariables)
      a.succeed()
    }
    const { body } = await p.deploy(environment.id)
    expect((await p.settled(body.id)).status).toBe('succeeded')
    return seen
  }

  test('set before the first deployment, they are in the first deployment', async () => {
    await patch({ set: { C: 'three\nlines', GIVEN: 'other' } })
    expect(await flag()).toBe(true)
    expect(await deploy()).toMatchObject({ GIVEN: 'other', C: 'three\nlines' })
    expect(await flag()).toBe(false)
  })

  test("After a variable change the environment is flagged 'Variables changed since the last deployment' until the next deployment", async () => {
    await deploy()
    expect(await flag()).toBe(false)
    const changed = await patch({ set: { NEW: 'x' } })
    expect(changed.body).toEqual({
      set: ['NEW'],
      unset: [],
      unchanged: [],
      missing: [],
      keys: ['GIVEN', 'NEW'],
      variables_changed: true,
      hint: HINT,
    })
    expect(await flag()).toBe(true)
    expect((await list()).map((v) => [v.key, v.changed_since_deployment])).toEqual([
      ['GIVEN', false],
      ['NEW', true],
    ])
    await deploy()
    expect(await flag()).toBe(false)
    expect((await list()).some((v) => v.changed_since_deployment)).toBe(false)
  })

  test('a failed deployment does not lower the flag, a removal raises it', async () => {
    await patch({ set: { NEW: 'x' } })
    p.executor.script = (a) => a.fail('no')
    const { body } = await p.deploy(environment.id)
    await p.settled(body.id)
    expect(await flag()).toBe(true)
    await deploy()
    expect((await patch({ unset: ['NEW'] })).body).toMatchObject({ unset: ['NEW'], hint: HINT })
    expect(await flag()).toBe(true)
  })

  test('a value that is the same raises nothing, also without a deployment in between', async () => {
    await patch({ set: { A: 'one\ntwo', B: 'b' } })
    await deploy()
    const same = await patch({ set: { A: 'one\ntwo' }, unset: ['NOPE'] })
    expect(same.body).toMatchObject({
      set: [],
      unchanged: ['A'],
      missing: ['NOPE'],
      variables_changed: false,
      hint: null,
    })
    expect(await flag()).toBe(false)
    const mixed = await patch({ set: { A: 'one\ntwo', B: 'c' } })
    expect(mixed.body).toMatchObject({ set: ['B'], unchanged: ['A'], variables_changed: true })
  })

  test('a change while a deployment runs applies to the next one', async () => {
    const gate = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    p.executor.script = async (a) => {
      begun.resolve()
      await gate.promise
      a.succeed()
    }
    const { body } = await p.deploy(environment.id)
    await begun.promise
    expect((await patch({ set: { LATE: 'x' } })).status).toBe(200)
    gate.resolve()
    await p.settled(body.id)
    expect(await flag()).toBe(true)
    expect(await deploy()).toMatchObject({ LATE: 'x', GIVEN: 'at creation' })
    expect(await flag()).toBe(false)
  })

  test('System variables are always present, even when custom variables exist, and cannot be set', async () => {
    const reserved = ['SERVICE_DOMAIN', 'SERVICE_ENV_IDENTIFIER', 'SERVICE_ENV_TYPE']
    for (const key of [...reserved, 'SERVICE_ENV_BRANCH', 'BERTH_X']) {
      const refused = await patch({ set: { [key]: 'mine', OK: 'x' } })
      expect([refused.status, fieldCodes(refused)]).toEqual([422, [[`set.${key}`, 'reserved_key']]])
    }
    expect((await list()).map((v) => v.key)).toEqual(['GIVEN']) // all or nothing
    await patch({ set: { SERVICE_OTHER: 'mine' } })
    expect(await deploy()).toEqual({
      GIVEN: 'at creation',
      SERVICE_OTHER: 'mine',
      SERVICE_DOMAIN: 'main.shop.example.com',
      SERVICE_ENV_IDENTIFIER: 'main',
      SERVICE_ENV_TYPE: 'manual',
      SERVICE_ENV_BRANCH: 'main',
    })
  })
})

const fieldCodes = (answer: Answer<unknown>): [string, string][] =>
  ((answer.body as { errors?: { field: string; code: string }[] }).errors ?? []).map((e) => [
    e.field,
    e.code,
  ])

describe.each(ENGINES)('requests for variables on %s', (engine) => {
  let cp: TestControlPlane
  let path: string
  let projectId: number
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    const server = await cp.server()
    projectId = (await cp.project('shop', server.id)).id
    path = `/api/environments/${(await cp.environment(projectId)).id}/variables`
  })
  afterAll(() => cp.close())

  test.each<[string, unknown, [string, string][]]>([
    ['a digit first', { set: { '2FA': 'x' } }, [['set.2FA', 'invalid_key']]],
    ['a dash', { set: { 'A-B': 'x' } }, [['set.A-B', 'invalid_key']]],
    ['no name', { set: { '': 'x' } }, [['set.', 'invalid_key']]],
    ['null', { set: { A: null } }, [['set.A', 'invalid_value']]],
    ['a number', { set: { A: 1 } }, [['set.A', 'invalid_value']]],
    ['NUL', { set: { A: 'a\0b' } }, [['set.A', 'invalid_value']]],
    ['64 KiB and one', { set: { A: 'x'.repeat(65_537) } }, [['set.A', 'value_too_large']]],
    ['multi-byte', { set: { A: '€'.repeat(21_846) } }, [['set.A', 'value_too_large']]],
    ['a value for a key', { set: { 'KEY=hunter2!': 'x' } }, [['set.KEY=…', 'invalid_key']]],
    ['a value to unset', { unset: ['hunter2!'] }, [['unset.hunt…', 'invalid_key']]],
    ['a value for a field', { 'hunter2!': {} }, [['hunt…', 'unknown_field']]],
    ['both lists', { set: { A: 'x' }, unset: ['A'] }, [['set.A', 'conflicting_key']]],
    ['nothing', {}, [['set', 'empty_change']]],
    ['nothing at all', { set: {}, unset: [] }, [['set', 'empty_change']]],
    ['another field', { values: {} }, [['values', 'unknown_field']]],
  ])('%s is refused by name', async (_what, body, codes) => {
    const refused = await cp.call('PATCH', path, body)
    expect([refused.status, refused.body.code]).toEqual([422, 'validation_failed'])
    expect(fieldCodes(refused)).toEqual(codes)
    expect((await cp.call('GET', path)).body).toEqual([])
  })

  test('the limits hold for the set as it would be', async () => {
    const many = (from: number, count: number, value: string) =>
      Object.fromEntries(Array.from({ length: count }, (_, i) => [`K${from + i}`, value]))
    const made = await cp.environment(projectId, 'full', { variables: many(0, 200, 'x') })
    const full = `/api/environments/${made.id}/variables`
    const refused = await cp.call('PATCH', full, { set: { MORE: 'x' } })
    expect(fieldCodes(refused)).toEqual([['set', 'too_many_variables']])
    expect((await cp.call('PATCH', full, { set: { MORE: 'x' }, unset: ['K0'] })).status).toBe(200)
    // a body can hold many more: they are counted before they are encrypted
    const seal = vi.spyOn(cp.running.ctx.secretStore, 'seal')
    const flood = await cp.call('PATCH', full, { set: many(0, 50_000, '') })
    expect(fieldCodes(flood)).toEqual([['set', 'too_many_variables']])
    expect(seal).not.toHaveBeenCalled()
    seal.mockRestore()
    const large = await cp.environment(projectId, 'large', {
      variables: many(0, 8, 'x'.repeat(65_000)),
    })
    const url = `/api/environments/${large.id}/variables`
    const tooLarge = await cp.call('PATCH', url, { set: { MORE: 'x'.repeat(5_000) } })
    expect(fieldCodes(tooLarge)).toEqual([['set', 'variables_too_large']])
    expect((await cp.call('PATCH', url, { set: { K0: '', MORE: 'x'.repeat(5_000) } })).status).toBe(
      200,
    )
    const create = await cp.call('POST', `/api/projects/${projectId}/environments`, {
      identifier: 'more',
      branch: 'main',
      variables: many(0, 201, 'x'),
    })
    expect(fieldCodes(create)).toEqual([['variables', 'too_many_variables']])
  })

  test('sorted by key, with who and when, whatever the language of the database', async () => {
    const made = await cp.environment(projectId, 'sorted')
    const url = `/api/environments/${made.id}/variables`
    await cp.call('PATCH', url, { set: { b: '1', B: '2', _A: '3', A: '4', a_B: '5', aB: '6' } })
    const rows = (await cp.call<Variable[]>('GET', url)).body
    expect(rows.map((r) => r.key)).toEqual(['A', 'B', '_A', 'aB', 'a_B', 'b'])
    expect(Object.keys(rows[0] ?? {})).toEqual([
      'key',
      'level',
      'shadows',
      'updated_at',
      'updated_by',
      'changed_since_deployment',
    ])
    expect(rows[0]?.updated_by).toEqual({ id: 1, name: 'Ada' })
  })

  test('a role without the permission, a stranger and a token without the scope are refused', async () => {
    const viewer = await addMember(cp, 'View', 'viewer')
    const reader = await addMember(cp, 'Read', 'developer', { scopes: ['read', 'deploy'] })
    const elsewhere = await addOrganization(cp, 'elsewhere')
    const stranger = await addMember(cp, 'Eve', 'owner', { organizationId: elsewhere })
    const body = { set: { A: 'x' } }
    expect((await viewer.call('PATCH', path, body)).body.code).toBe('permission_denied')
    expect((await reader.call('PATCH', path, body)).body.code).toBe('insufficient_scope')
    for (const method of ['GET', 'PATCH']) {
      const hidden = await stranger.call(method, path, method === 'GET' ? undefined : body)
      expect([hidden.status, hidden.body.code]).toEqual([404, 'not_found'])
    }
  })

  test('Custom variables set before the first deployment of an environment take effect from that first deployment, for both recipes', async () => {
    const server = await cp.server('wire')
    const project = await cp.project('wire', server.id)
    const agent = await WireAgent.join(cp, server.id)
    const session = await agent.active()
    for (const recipe of ['manual', 'docker'] as const) {
      const variables = { A: 'one', B: '' }
      const made = await cp.environment(project.id, recipe, { recipe, variables })
      const set = { C: 'three\nlines', A: 'other' }
      await cp.call('PATCH', `/api/environments/${made.id}/variables`, { set, unset: ['B'] })
      await cp.call('POST', `/api/environments/${made.id}/tasks`)
      const [assignment] = await session.assignments()
      expect(assignment?.spec?.recipe).toBe(recipe === 'docker' ? Recipe.DOCKER : Recipe.MANUAL)
      const seen = assignment?.secrets?.variables.map((v) => [v.key, `${Buffer.from(v.value)}`])
      expect(seen).toEqual([
        ['A', 'other'],
        ['C', 'three\nlines'],
      ])
    }
    agent.close()
  })

  test('two changes at once both count', async () => {
    const made = await cp.environment(projectId, 'both')
    const url = `/api/environments/${made.id}/variables`
    const answers = await Promise.all(
      ['A', 'B', 'C', 'D'].map((key) => cp.call('PATCH', url, { set: { [key]: key } })),
    )
    expect(answers.map((a) => a.status)).toEqual([200, 200, 200, 200])
    expect((await cp.call<Variable[]>('GET', url)).body.map((v) => v.key)).toEqual([
      'A',
      'B',
      'C',
      'D',
    ])
  })
})

test.each(ENGINES)('equal values look different in every row on %s', async (engine) => {
  const cp = await TestControlPlane.start(engine)
  await cp.setUp()
  const project = await cp.project('shop', (await cp.server()).id)
  const variables = { A: 'the same value', B: 'the same value' }
  for (const name of ['one', 'two', 'three']) await cp.environment(project.id, name, { variables })
  const rows = await cp.running.ctx.db
    .selectFrom('variables')
    .select(['sealed', 'fingerprint'])
    .execute()
  expect(new Set(rows.map((r) => r.fingerprint)).size).toBe(6)
  expect(new Set(rows.map((r) => r.sealed)).size).toBe(6)
  await cp.close()
})
