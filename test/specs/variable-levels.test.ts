// Variables of a project's levels, on both databases: the nearest level wins, forks get only what is marked for them, a
// change marks exactly the environments that get another value, and protection holds against the levels too.
import type {
  Environment,
  ProjectVariable,
  ProjectVariablesPatched,
  PullRequest,
  Task,
  Variable,
  VariableChange,
} from '@berth/shared/api'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Host, makeHost, sha } from '../fixtures/forge/webhook-sender.ts'
import { addMember } from '../fixtures/people/members.ts'
import type { Answer } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'

const HINT = 'Variables changed since the last deployment'
const FORK = { number: 51, head: sha(1), branch: 'main', fork: 9_001 }

describe.each(ENGINES)('levels of variables on %s', (engine) => {
  let p: Platform
  let h: Host
  /** What deployments got, by environment. */
  const given = new Map<number, Record<string, string>>()
  let registries: number[]
  beforeEach(async () => {
    p = await Platform.start(engine)
    h = await makeHost(p.cp, p.serverId, { default_recipe: 'docker' })
    given.clear()
    registries = []
    p.executor.script = (a) => {
      const values = a.secrets.variables.map((v) => [v.key, Buffer.from(v.value).toString()])
      if (a.isDeploy) {
        given.set(a.assignment.environmentId, Object.fromEntries(values))
        registries.push(a.secrets.registries.length)
        a.serve([{ name: 'web' }])
      } else expect(values).toEqual([])
      a.succeed()
    }
  })
  afterEach(() => p.close())

  const path = () => `/api/projects/${h.projectId}/variables`
  const level = (name: string, body: object) =>
    p.cp.call<ProjectVariablesPatched>('PATCH', path(), { level: name, ...body })
  const must = async (name: string, body: object): Promise<ProjectVariablesPatched> => {
    const answer = await level(name, body)
    expect(answer.status, answer.text).toBe(200)
    return answer.body
  }
  const own = (id: number, body: object) =>
    p.cp.call('PATCH', `/api/environments/${id}/variables`, body)
  const list = async (id: number) =>
    (await p.cp.call<Variable[]>('GET', `/api/environments/${id}/variables`)).body
  const flagged = async () =>
    (await h.environments())
      .filter((e) => e.variables_changed)
      .map((e) => e.identifier)
      .toSorted()
  const manual = (identifier: string, over: object = {}) =>
    p.cp.environment(h.projectId, identifier, over)
  const deploy = async (id: number, body?: object): Promise<Record<string, string>> => {
    const answer = await p.deploy(id, body)
    expect(answer.status, answer.text).toBe(201)
    expect((await p.settled(answer.body.id)).status).toBe('succeeded')
    return given.get(id) ?? {}
  }
  const preview = async (number: number): Promise<Environment> => {
    const opened = await h.opened({ number, head: sha(number) })
    for (const task of opened.body.task_ids) await p.settled(task)
    return (await h.environment(`pr-${number}`)) as Environment
  }
  const approve = async (head = sha(1)): Promise<Environment> => {
    const url = `/api/projects/${h.projectId}/pull_requests/51/approve`
    const answer = await p.cp.call<PullRequest & { task: Task | null }>('POST', url, {
      head_sha: head,
    })
    expect(answer.status, answer.text).toBe(200)
    if (answer.body.task) await p.settled(answer.body.task.id)
    return (await h.environment('pr-51')) as Environment
  }
  const codes = (answer: Answer<unknown>) =>
    (answer.body as { errors: { field: string; code: string }[] }).errors.map((e) => [
      e.field,
      e.code,
    ])

  test("a pull request's first deployment has its variables; the nearest level wins", async () => {
    await must('project', { set: { A: 'project', B: 'project', C: 'project' } })
    await must('previews', { set: { B: 'previews', C: 'previews', P: 'previews' } })
    await must('manual', { set: { B: 'manual', M: 'manual' } })
    const pr = await preview(7)
    expect(given.get(pr.id)).toEqual({ A: 'project', B: 'previews', C: 'previews', P: 'previews' })
    expect(pr.variables_changed).toBe(false)
    const staging = await manual('staging', { variables: { C: 'own' } })
    const first = await deploy(staging.id)
    expect(first).toEqual({ A: 'project', B: 'manual', C: 'own', M: 'manual' })
    await own(pr.id, { set: { C: 'own' } })
    const redeployed = await deploy(pr.id)
    expect(redeployed).toEqual({ A: 'project', B: 'previews', C: 'own', P: 'previews' })
    expect((await list(pr.id)).map((v) => [v.key, v.level, v.shadows])).toEqual([
      ['A', 'project', []],
      ['B', 'previews', ['project']],
      ['C', 'environment', ['previews', 'project']],
      ['P', 'previews', []],
    ])
    const url = `/api/environments/${pr.id}/variables?level=environment`
    const ownKeys = (await p.cp.call<Variable[]>('GET', url)).body.map((v) => v.key)
    expect(ownKeys).toEqual(['C'])
    const levels = (await p.cp.call<ProjectVariable[]>('GET', path())).body
    expect(
      levels.map((v) => [
        `${v.level} ${v.key}`,
        v.shadowed_by.map((by) => by.environment?.identifier ?? by.level),
      ]),
    ).toEqual([
      ['project A', []],
      ['project B', ['previews', 'manual']],
      ['project C', ['previews', 'staging', 'pr-7']],
      ['previews B', []],
      ['previews C', ['pr-7']],
      ['previews P', []],
      ['manual B', []],
      ['manual M', []],
    ])
    const one = await p.cp.call<ProjectVariable[]>('GET', `${path()}?level=manual`)
    expect(one.body.map((v) => v.key)).toEqual(['B', 'M'])
  })

  test('a change marks the environments that get another value, and only these, until the next deployment', async () => {
    const pr = await preview(7)
    const staging = await manual('staging', { variables: { OWN: 'x' } })
    await deploy(staging.id)
    expect(await flagged()).toEqual([])
    const first = await must('project', { set: { A: '1' } })
    expect(first).toMatchObject({
      set: ['A'],
      keys: ['A'],
      environments: [
        { identifier: 'pr-7', keys: ['A'] },
        { identifier: 'staging', keys: ['A'] },
      ],
      variables_changed: true,
      hint: HINT,
    })
    expect(await flagged()).toEqual(['pr-7', 'staging'])
    expect((await list(staging.id)).map((v) => [v.key, v.changed_since_deployment])).toEqual([
      ['A', true],
      ['OWN', false],
    ])
    await deploy(pr.id)
    expect(await flagged()).toEqual(['staging'])
    expect((await list(pr.id)).some((v) => v.changed_since_deployment)).toBe(false)
    await deploy(staging.id)
    // the same value, and one that a nearer level shadows everywhere, mark nothing
    const same = await must('project', { set: { A: '1', OWN: 'far' }, unset: ['NOPE'] })
    expect(same).toMatchObject({ set: ['OWN'], unchanged: ['A'], missing: ['NOPE'] })
    expect(same.environments).toEqual([{ id: pr.id, identifier: 'pr-7', keys: ['OWN'] }])
    await deploy(pr.id)
    const shadowed = await must('previews', { set: { A: '2' } })
    expect(shadowed.environments.map((e) => e.identifier)).toEqual(['pr-7'])
    await deploy(pr.id)
    expect((await must('project', { set: { A: '3' } })).environments).toEqual([
      { id: staging.id, identifier: 'staging', keys: ['A'] },
    ])
    const none = await must('manual', { unset: ['A'] })
    expect(none).toMatchObject({ missing: ['A'], environments: [], hint: null })
    // what was shadowed comes back
    const back = await must('previews', { unset: ['A'] })
    expect(back.environments.map((e) => e.identifier)).toEqual(['pr-7'])
    expect(await deploy(pr.id)).toEqual({ A: '3', OWN: 'far' })
    expect(await deploy(staging.id)).toEqual({ A: '3', OWN: 'x' })
    expect(await flagged()).toEqual([])
    const diagnosed = await p.cp.call('GET', `/api/environments/${staging.id}`)
    expect(diagnosed.text).not.toContain('"3"')
  })

  test('a fork gets nothing but its own variables and keys that are marked for forks', async () => {
    await must('project', { set: { SECRET: 's', OPEN: 'o', BOTH: 'far' } })
    await must('previews', { set: { HIDDEN: 'h', BOTH: 'near' } })
    await must('manual', { set: { MANUAL: 'm' } })
    const registry = `/api/projects/${h.projectId}/registries/ghcr.io`
    await p.cp.call('PUT', registry, { username: 'ada', password: 'pw-of-registry' })
    await h.opened(FORK)
    const fork = await approve()
    expect(given.get(fork.id)).toEqual({})
    expect(await list(fork.id)).toEqual([])
    expect(registries).toEqual([0])
    // a switch is about one key of one level
    const on = await must('project', { forks: { OPEN: true, BOTH: true } })
    expect(on).toMatchObject({ forks: ['BOTH', 'OPEN'], set: [], environments: [{ id: fork.id }] })
    expect(await flagged()).toEqual(['pr-51'])
    expect(await deploy(fork.id)).toEqual({ OPEN: 'o', BOTH: 'far' })
    // a value that is replaced keeps its switch; one that is removed and set again loses it
    await must('project', { set: { OPEN: 'o2' } })
    expect(await deploy(fork.id)).toEqual({ OPEN: 'o2', BOTH: 'far' })
    await must('project', { unset: ['OPEN'] })
    await must('project', { set: { OPEN: 'o3' } })
    expect(await deploy(fork.id)).toEqual({ BOTH: 'far' })
    await must('project', { forks: { BOTH: false } })
    expect(await flagged()).toEqual(['pr-51'])
    expect(await deploy(fork.id, { no_cache: true })).toEqual({})
    // every other task runs with what was deployed; the script above refuses values in them
    for (const verb of ['restart', 'stop', 'start']) {
      const answer = await p.cp.call<Task>('POST', `/api/environments/${fork.id}/${verb}`)
      await p.settled(answer.body.id)
    }
    const backup = await p.cp.call<Task>('POST', `/api/environments/${fork.id}/backups`, {})
    expect(backup.status, backup.text).toBe(201)
    await p.settled(backup.body.id)
    const reset = { confirm: 'pr-51' }
    const again = await p.cp.call<Task>('POST', `/api/environments/${fork.id}/reset`, reset)
    await p.settled(again.body.id)
    expect(given.get(fork.id)).toEqual({})
    const rolled = await deploy(fork.id, { commit_sha: sha(1), reuse_release: true })
    expect(rolled).toEqual({})
    // a new commit after a new approval
    await h.updated({ ...FORK, head: sha(2), before: sha(1) })
    await approve(sha(2))
    expect(given.get(fork.id)).toEqual({})
    await own(fork.id, { set: { FOR_IT: 'x' } })
    expect(await deploy(fork.id)).toEqual({ FOR_IT: 'x' })
    expect(new Set(registries)).toEqual(new Set([0]))
  })

  test('what becomes a fork loses the values of the levels with its next deployment', async () => {
    await must('previews', { set: { SECRET: 's', OPEN: 'o' }, forks: { OPEN: true } })
    const pr = await preview(60)
    expect(given.get(pr.id)).toEqual({ SECRET: 's', OPEN: 'o' })
    await h.edited({ number: 60, head: sha(60), fork: null, title: 'Whose?' })
    expect(await flagged()).toEqual(['pr-60'])
    expect((await list(pr.id)).map((v) => v.key)).toEqual(['OPEN'])
    const url = `/api/projects/${h.projectId}/pull_requests/60/approve`
    const approved = await p.cp.call<{ task: Task | null }>('POST', url, { head_sha: sha(60) })
    if (approved.body.task) await p.settled(approved.body.task.id)
    expect(await deploy(pr.id)).toEqual({ OPEN: 'o' })
    expect(await flagged()).toEqual([])
  })

  test('bad switches and bad requests change nothing', async () => {
    await must('manual', { set: { A: 'a' } })
    const refused: [string, object, string[][]][] = [
      ['manual', { forks: { A: true } }, [['forks.A', 'forks_impossible']]],
      ['project', { forks: { A: true } }, [['forks.A', 'not_set']]],
      ['previews', { set: { B: 'b' }, forks: { C: true } }, [['forks.C', 'not_set']]],
      ['project', { set: { SERVICE_DOMAIN: 'x' } }, [['set.SERVICE_DOMAIN', 'reserved_key']]],
      ['project', { set: { A: 'x' }, unset: ['A'] }, [['set.A', 'conflicting_key']]],
      ['project', {}, [['set', 'empty_change']]],
      ['manual', { generate: { A: {} } }, [['generate.A', 'already_set']]],
      ['manual', { set: { B: 'b' }, generate: { B: {} } }, [['generate.B', 'conflicting_key']]],
      ['manual', { generate: { '2FA': {} } }, [['generate.2FA', 'invalid_key']]],
    ]
    for (const [name, body, expected] of refused) {
      const answer = await level(name, body)
      expect([answer.status, codes(answer)], JSON.stringify(body)).toEqual([422, expected])
    }
    for (const body of [
      { level: 'organization', set: { A: 'x' } },
      { set: { A: 'x' } },
      { level: 'project', forks: { A: 'yes' } },
      { level: 'project', generate: { A: { length: 4 } } },
      { level: 'project', generate: { A: { length: 1_000 } } },
      { level: 'project', set: { A: 'x' }, more: true },
    ]) {
      const answer = await p.cp.call('PATCH', path(), body)
      expect(answer.status, JSON.stringify(body)).toBe(422)
    }
    const rows = (await p.cp.call<ProjectVariable[]>('GET', path())).body
    expect(rows.map((v) => [v.level, v.key])).toEqual([['manual', 'A']])
  })

  test('only who may change the project changes its levels; everyone who reads it sees keys', async () => {
    const roles = [
      ['Vera', 'viewer', 403],
      ['Dan', 'developer', 403],
      ['Adam', 'admin', 200],
    ] as const
    for (const [name, role, status] of roles) {
      const who = await addMember(p.cp, name, role)
      const body = { level: 'previews', set: { [`KEY_${name}`]: 'x' } }
      expect((await who.call('PATCH', path(), body)).status).toBe(status)
      expect((await who.call('GET', path())).status).toBe(200)
      expect((await who.call('GET', `${path()}/history`)).status).toBe(200)
    }
    const narrow = await addMember(p.cp, 'Nina', 'admin', { scopes: ['read', 'write'] })
    const answer = await narrow.call('PATCH', path(), { level: 'project', set: { A: 'x' } })
    expect([answer.status, answer.body.code]).toEqual([403, 'insufficient_scope'])
  })

  test('no role changes the values of a protected environment through a level, only its owner', async () => {
    const adam = await addMember(p.cp, 'Adam', 'owner')
    await must('project', { set: { A: 'a', SHADOWED: 'far' } })
    const production = await manual('production', {
      protected: true,
      variables: { SHADOWED: 'near' },
    })
    await deploy(production.id)
    const change = (name: string, body: object) =>
      adam.call('PATCH', path(), { level: name, ...body })
    for (const [name, body] of [
      ['project', { set: { A: 'b' } }],
      ['project', { set: { NEW: 'n' } }],
      ['project', { unset: ['A'] }],
      ['manual', { set: { A: 'b' } }],
      ['manual', { generate: { NEW: {} } }],
      ['project', { generate: { A: { replace: true } } }],
    ] as const) {
      const answer = await change(name, body)
      expect([answer.status, answer.body.code], JSON.stringify(body)).toEqual([
        403,
        'environment_protected',
      ])
      expect(answer.body.detail).toContain('production is protected by Ada')
    }
    expect(await flagged()).toEqual([])
    // what does not reach it, or is shadowed there, is allowed
    expect((await change('previews', { set: { A: 'b' } })).status).toBe(200)
    expect((await change('project', { set: { SHADOWED: 'other' } })).status).toBe(200)
    expect(await deploy(production.id)).toEqual({ A: 'a', SHADOWED: 'near' })
    // the owner shadows the key, or changes the level
    await own(production.id, { set: { A: 'mine' } })
    expect((await change('project', { set: { A: 'b' } })).status).toBe(200)
    await must('manual', { set: { NEW: 'n' } })
    expect(await deploy(production.id)).toEqual({ A: 'mine', NEW: 'n', SHADOWED: 'near' })
    // unsetting its own would bring the level's value back: the environment is its owner's
    const bring = { unset: ['A'] }
    const url = `/api/environments/${production.id}/variables`
    expect((await adam.call('PATCH', url, bring)).status).toBe(403)
  })

  test('the limits hold for what an environment gets from all levels together', async () => {
    const many = (prefix: string, count: number, value = 'x') =>
      Object.fromEntries(Array.from({ length: count }, (_, i) => [`${prefix}${i}`, value]))
    await must('project', { set: many('P', 100) })
    const alone = await level('previews', { set: many('Q', 101) })
    expect([alone.status, codes(alone)]).toEqual([422, [['set', 'too_many_variables']]])
    expect(alone.text).toContain('in a preview')
    await must('previews', { set: many('P', 100) }) // the same keys count once
    await must('manual', { set: many('M', 60) })
    const staging = await manual('staging', { variables: many('O', 40) })
    const more = await own(staging.id, { set: { ONE_MORE: 'x' } })
    expect([more.status, codes(more)]).toEqual([422, [['set', 'too_many_variables']]])
    expect(more.text).toContain('in staging with those of its project')
    const far = await level('project', { set: { ONE_MORE: 'x' } })
    expect([far.status, codes(far)]).toEqual([422, [['set', 'too_many_variables']]])
    expect(far.text).toContain('in staging with its own')
    const created = await p.cp.call('POST', `/api/projects/${h.projectId}/environments`, {
      identifier: 'other',
      branch: 'main',
      variables: many('O', 41),
    })
    expect([created.status, codes(created)]).toEqual([422, [['variables', 'too_many_variables']]])
    const large = await level('previews', { set: many('L', 8, 'x'.repeat(65_536)) })
    expect(large.status, large.text).toBe(422)
    expect(codes(large)).toContainEqual(['set', 'variables_too_large'])
    expect(await flagged()).toEqual([])
  })

  test('a generated value is made on the server, shown nowhere, and replaced only on request', async () => {
    const staging = await manual('staging')
    await own(staging.id, { generate: { TOKEN: {}, LONG: { length: 64 } } })
    const made = await must('previews', { generate: { TOKEN: { length: 20 } } })
    expect(made).toMatchObject({ set: ['TOKEN'] })
    const first = await deploy(staging.id)
    expect(first.TOKEN).toMatch(/^[A-Za-z0-9]{32}$/)
    expect(first.LONG).toMatch(/^[A-Za-z0-9]{64}$/)
    const pr = await preview(7)
    expect(given.get(pr.id)?.TOKEN).toMatch(/^[A-Za-z0-9]{20}$/)
    const refused = await own(staging.id, { generate: { TOKEN: {} } })
    expect([refused.status, codes(refused)]).toEqual([422, [['generate.TOKEN', 'already_set']]])
    const replaced = await own(staging.id, { generate: { TOKEN: { replace: true } } })
    expect(replaced.body).toMatchObject({ set: ['TOKEN'], variables_changed: true })
    const second = await deploy(staging.id)
    expect(second.TOKEN).not.toBe(first.TOKEN)
    expect(second.LONG).toBe(first.LONG)
    expect(replaced.text).not.toContain(second.TOKEN)
  })

  test('the history says who changed which key at which level and when, and never a value', async () => {
    const value = 'canary-4711-value'
    await must('project', { set: { A: value, B: value } })
    await must('previews', { set: { A: value }, forks: { A: true } })
    await must('manual', { set: { M: value } })
    const dan = await addMember(p.cp, 'Dan', 'developer')
    const staging = await manual('staging', { variables: { OWN: value } })
    const url = `/api/environments/${staging.id}/variables`
    await dan.call('PATCH', url, { set: { A: value }, unset: ['OWN'] })
    await dan.call('PATCH', url, { set: { A: value } }) // changes nothing
    const pr = await preview(7)
    await must('project', { unset: ['B'] })
    const read = async (where: string) => {
      const answer = await p.cp.call<VariableChange[]>('GET', where)
      expect(answer.status, answer.text).toBe(200)
      expect(answer.text).not.toContain(value)
      return answer.body.map((one) => [
        one.by.name,
        one.environment?.identifier ?? one.level,
        `+${one.set} -${one.unset} forks+${one.forks_on}`,
      ])
    }
    const ofProject = [
      ['Ada', 'project', '+ -B forks+'],
      ['Dan', 'staging', '+A -OWN forks+'],
      ['Ada', 'staging', '+OWN - forks+'],
      ['Ada', 'manual', '+M - forks+'],
      ['Ada', 'previews', '+A - forks+A'],
      ['Ada', 'project', '+A,B - forks+'],
    ]
    expect(await read(`${path()}/history`)).toEqual(ofProject)
    expect(await read(`${path()}/history?level=previews`)).toEqual([ofProject[4]])
    expect(await read(`${path()}/history?level=environment`)).toEqual([ofProject[1], ofProject[2]])
    expect(await read(`${path()}/history?key=B`)).toEqual([ofProject[0], ofProject[5]])
    expect(await read(`${path()}/history?key=%25`)).toEqual([])
    expect(await read(`${url}/history`)).toEqual([0, 1, 2, 3, 5].map((n) => ofProject[n]))
    const ofPreview = `/api/environments/${pr.id}/variables/history`
    expect(await read(ofPreview)).toEqual([0, 4, 5].map((n) => ofProject[n]))
    const paged = await p.cp.call<VariableChange[]>('GET', `${path()}/history?per_page=4`)
    const next = /<([^>]+)>; rel="next"/.exec(paged.headers.get('link') ?? '')?.[1] ?? ''
    expect(paged.body).toHaveLength(4)
    const rest = new URL(next, p.cp.url)
    expect(await read(rest.pathname + rest.search)).toEqual(ofProject.slice(4))
  })

  test('they end with their project, and a project that is being deleted takes none', async () => {
    await must('project', { set: { A: 'a' } })
    const staging = await manual('staging')
    await deploy(staging.id)
    await p.cp.call('PATCH', `/api/servers/${p.serverId}`, { paused: true })
    const { body } = await p.cp.call('GET', `/api/projects/${h.projectId}`)
    const url = `/api/projects/${h.projectId}?confirm=${body.name}`
    expect((await p.cp.call('DELETE', url)).status).toBe(202)
    const late = await level('project', { set: { B: 'b' } })
    expect([late.status, (late.body as unknown as { code: string }).code]).toEqual([
      409,
      'project_deleting',
    ])
    const rows = () => p.cp.running.ctx.db.selectFrom('projectVariables').selectAll().execute()
    expect(await rows()).toHaveLength(1)
    await p.cp.call('PATCH', `/api/servers/${p.serverId}`, { paused: false })
    await expect.poll(rows, { timeout: 30_000 }).toEqual([])
  })

  test('a deployment that began before a change leaves the flag up', async () => {
    const staging = await manual('staging')
    const gate = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    p.executor.script = async (a) => {
      begun.resolve()
      await gate.promise
      a.succeed()
    }
    const { body } = await p.deploy(staging.id)
    await begun.promise
    await must('project', { set: { LATE: 'x' } })
    gate.resolve()
    await p.settled(body.id)
    expect(await flagged()).toEqual(['staging'])
  })
})
