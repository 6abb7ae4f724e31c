// The audit log over REST: every changing call writes exactly one row with actor, address and change; filters, pages,
// read access; the command that verifies it.
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { AuditEntry } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { verifyAudit } from '../../control-plane/src/app/core/audit-check.ts'
import { hashToken, makeToken } from '../../control-plane/src/identity/tokens.ts'
import { listAudit } from '../../control-plane/src/store/core/audit-pages.ts'
import {
  insertMember,
  insertToken,
  insertUser,
} from '../../control-plane/src/store/people/people.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { copyRows } from '../fixtures/platform/many-rows.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

describe.each(ENGINES)('the audit log on %s', (engine) => {
  let cp: TestControlPlane
  let server: number
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    server = (await cp.server()).id
  })
  afterAll(() => cp.close())

  const read = async (query = ''): Promise<AuditEntry[]> =>
    (await cp.call<AuditEntry[]>('GET', `/api/organizations/1/audit${query}`)).body
  const count = async (): Promise<number> =>
    (await cp.running.ctx.db.selectFrom('audit').selectAll().execute()).length

  test('a row says who, with which token, from where, what and which request', async () => {
    const answer = await cp.call('POST', '/api/projects', {
      name: 'told',
      repo_url: 'https://git.example.com/told.git',
      domain: 'told.example.com',
      server_ids: [server],
    })
    const [row] = await read()
    const me = (await cp.call<{ id: number; token: { id: number } }>('GET', '/api/me')).body
    expect(row).toMatchObject({
      organization_id: 1,
      actor: { type: 'user', id: me.id, name: 'Ada' },
      token_id: me.token.id,
      address: '127.0.0.1',
      verb: 'project.create',
      subject: { type: 'project', id: answer.body.id, name: 'told' },
      changes: { name: 'told' },
      request_id: answer.headers.get('x-request-id'),
    })
  })

  test('every changing call has exactly one row, a refused one and a GET none', async () => {
    const project = await cp.project('rows', server)
    const calls: [string, string, unknown, number][] = [
      ['POST', '/api/servers', { name: 'two', hostname: 'h' }, 1],
      ['POST', '/api/servers', { name: 'two', hostname: 'h' }, 0],
      ['POST', `/api/servers/${server}/join_token`, {}, 1],
      ['POST', `/api/projects/${project.id}/environments`, { identifier: 'a', branch: 'main' }, 1],
      ['POST', `/api/projects/${project.id}/environments`, { identifier: 'a', branch: 'main' }, 0],
      ['GET', '/api/projects', undefined, 0],
      ['GET', '/api/organizations/1/audit', undefined, 0],
    ]
    for (const [method, path, body, rows] of calls) {
      const before = await count()
      await cp.call(method, path, body)
      expect([method, path, (await count()) - before]).toEqual([method, path, rows])
    }
  })

  test('filters: actor, verb, subject, since and until', async () => {
    const all = await read('?per_page=100')
    const verbs = (rows: AuditEntry[]): Set<string> => new Set(rows.map((r) => r.verb))
    expect(verbs(await read('?verb=server.create'))).toEqual(new Set(['server.create']))
    expect(verbs(await read('?verb=server.'))).toEqual(
      new Set(['server.create', 'server.join_token']),
    )
    const one = all.find((r) => r.verb === 'project.create')
    expect(await read(`?subject=project:${one?.subject.id}`)).toEqual([one])
    expect((await read('?subject=server')).every((r) => r.subject.type === 'server')).toBe(true)
    expect(await read(`?actor=user:${one?.actor.id}&per_page=100`)).toEqual(
      all.filter((r) => r.actor.type === 'user'),
    )
    expect(await read('?actor=webhook')).toEqual([])
    expect(await read('?until=2020-01-01T00:00:00Z')).toEqual([])
    expect(await read('?since=2020-01-01T00:00:00Z&per_page=100')).toEqual(all)
    const bad = await cp.call('GET', '/api/organizations/1/audit?actor=nobody')
    expect([bad.status, bad.body.code]).toEqual([400, 'invalid_parameter'])
  })

  test('pages follow each other, newest first', async () => {
    const ids: number[] = []
    let next: string | undefined = '/api/organizations/1/audit?per_page=2'
    while (next) {
      const page: Awaited<ReturnType<typeof cp.call<AuditEntry[]>>> = await cp.call('GET', next)
      ids.push(...page.body.map((r) => r.id))
      const url: string | undefined = /<([^>]+)>; rel="next"/.exec(
        page.headers.get('link') ?? '',
      )?.[1]
      next = url && new URL(url).pathname + new URL(url).search
    }
    expect(ids).toEqual((await read('?per_page=100')).map((r) => r.id))
    expect(ids).toEqual(ids.toSorted((a, b) => b - a))
  })

  test('who may read it: audit:read in the organization, the whole for platform administrators', async () => {
    const { db } = cp.running.ctx
    const userId = await insertUser(db, { name: 'Bob', email: 'bob@example.com', createdAt: 1 })
    await insertMember(db, { organizationId: 1, userId, role: 'developer', createdAt: 1 })
    const token = makeToken('berth_pat_')
    await insertToken(db, {
      userId,
      kind: 'personal',
      name: 'bob',
      hash: hashToken(token),
      hint: '',
      scopes: ['read', 'admin'],
      organizationId: null,
      expiresAt: null,
      createdAt: 1,
    })
    const asBob = { authorization: `Bearer ${token}` }
    const own = await cp.call('GET', '/api/organizations/1/audit', undefined, asBob)
    expect([own.status, own.body.code]).toEqual([403, 'permission_denied'])
    const whole = await cp.call('GET', '/api/admin/audit', undefined, asBob)
    expect([whole.status, whole.body.code]).toEqual([403, 'platform_admin_only'])
    expect((await cp.call('GET', '/api/organizations/77/audit')).status).toBe(404)
    const all = await cp.call<AuditEntry[]>('GET', '/api/admin/audit?per_page=100')
    expect(all.body.length).toBe(await count())
  })

  test('no row holds the value of a variable', async () => {
    const project = await cp.project('secret', server)
    await cp.environment(project.id, 'main', { variables: { KEY: 'canary-0815' } })
    const rows = JSON.stringify(await cp.running.ctx.db.selectFrom('audit').selectAll().execute())
    expect(rows).toContain('KEY')
    expect(rows).not.toContain('canary')
  })

  test('two hundred changes at once: one chain, nothing missing', async () => {
    const before = await verifyAudit(cp.running.ctx)
    const asked = Array.from({ length: 200 }, (_, n) =>
      cp.call('PATCH', `/api/servers/${server}`, { hostname: `host-${n}` }),
    )
    expect((await Promise.all(asked)).every((a) => a.status === 200)).toBe(true)
    const after = await verifyAudit(cp.running.ctx)
    expect(after.problems).toEqual([])
    expect(after.rows - before.rows).toBe(200)
  })

  test('verify-audit says whether it is whole, while the control plane runs', async () => {
    const { config, db } = cp.running.ctx
    const run = (): string => {
      try {
        return execFileSync(process.execPath, ['control-plane/src/main.ts', 'verify-audit'], {
          cwd: root,
          encoding: 'utf8',
          env: {
            ...process.env,
            BERTH_DATA_DIR: config.dataDir,
            ...(config.databaseUrl ? { DATABASE_URL: config.databaseUrl } : {}),
          },
        })
      } catch (error) {
        const { status, stdout } = error as { status: number; stdout: string }
        return `exit ${status}: ${stdout}`
      }
    }
    expect(run()).toMatch(/^\d+ rows, head \d+ [0-9a-f]{64}: the audit log is whole\.\n$/)
    await db.updateTable('audit').set({ address: '10.0.0.1' }).where('seq', '=', 3).execute()
    expect(run()).toMatch(/^exit 1: Row \d+ \(place 3\) was changed\.\n.*THE AUDIT LOG WAS CHANGED/)
  })
})

test.each(ENGINES)(
  'a few entries of a long history are found in bounded pages on %s',
  async (engine) => {
    const cp = await TestControlPlane.start(engine)
    await cp.setUp()
    const { db } = cp.running.ctx
    const rare = [5, 700, 2_450, 2_460]
    await copyRows(db, engine, {
      table: 'audit',
      base: 'base.id = (select min(id) from audit where organization_id = 1)',
      count: 2_500,
      over: {
        seq: '100000 + i',
        subject_type: `'environment'`,
        subject_id: `'77'`,
        request_id: `cast(i as text)`,
        verb: `case when i in (${rare.join(', ')}) then 'variable.set' else 'task.create' end`,
      },
    })
    const pagesOf = async (verb: string | undefined, limit: number) => {
      const pages: string[][] = []
      let beforeId: number | undefined
      do {
        const filter = { subjectType: 'environment', subjectId: '77', verb, limit, beforeId }
        const { rows, next } = await listAudit(db, 1, filter)
        pages.push(rows.map(({ requestId }) => String(requestId)))
        beforeId = next
      } while (beforeId !== undefined)
      return pages
    }
    // the two newest are near; the others are further back than one walk
    expect(await pagesOf('variable.set', 1)).toEqual([['2460'], ['2450'], ['700'], ['5']])
    expect(await pagesOf('variable.set', 3)).toEqual([['2460', '2450'], ['700'], ['5']])
    expect(await pagesOf('project.delete', 3)).toEqual([[], [], []])
    const all = await pagesOf(undefined, 100)
    expect([all.length, new Set(all.flat()).size]).toEqual([25, 2_500])
    await cp.close()
  },
)
