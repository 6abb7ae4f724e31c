// Tenants at the dashboard's gateway: every query, change and subscription of the router × three organizations × every
// role, a platform administrator, a machine and an anonymous caller × own, foreign and mixed ids. Foreign ids answer as
// missing ones, byte for byte except the request's id; subscriptions use real sockets.

import { ROLES, type Role, SCOPES } from '@berth/shared/api'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { change, emit } from '../../control-plane/src/app/core/transaction.ts'
import { checkAlerts } from '../../control-plane/src/app/installation/alerts.ts'
import { permissionsOf } from '../../control-plane/src/domain/core/access.ts'
import { appRouter } from '../../control-plane/src/gateways/trpc/router.ts'
import { ALERTS } from '../../control-plane/src/limits/installation.ts'
import { listDueLanes } from '../../control-plane/src/store/notices/notices.ts'
import type { Answer } from '../fixtures/platform/control-plane.ts'
import { differences, snapshot } from '../fixtures/platform/database-snapshot.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { LiveSocket } from '../fixtures/platform/live-socket.ts'
import { until } from '../fixtures/server/installation.ts'
import { LIVE_ROWS, type LiveRow } from '../fixtures/tenants/dashboard.ts'
import { MISSING, type Organization, Tenants } from '../fixtures/tenants/organizations.ts'

type Actor = Role | 'platform administrator' | 'machine' | 'nobody'
const ACTORS: Actor[] = [...ROLES, 'platform administrator', 'machine', 'nobody']

interface Procedure {
  name: string
  type: 'query' | 'mutation' | 'subscription'
  row: LiveRow
}

const PROCEDURES: Procedure[] = Object.entries(
  appRouter._def.procedures as object as Record<string, { _def: { type: Procedure['type'] } }>,
).map(([name, { _def }]) => ({ name, type: _def.type, row: LIVE_ROWS[name] as LiveRow }))
const CALLS = PROCEDURES.filter((p) => p.type !== 'subscription')
const SUBSCRIPTIONS = PROCEDURES.filter((p) => p.type === 'subscription')

interface Said {
  result?: { data: Record<string, unknown[]> }
  error?: { data: { code: string; required_permission?: string } }
}

const strip = (text: string): string => text.replaceAll(/req_[\w-]+/g, 'R')
const written = ({ status, headers, text }: Answer): string => {
  const reported = [...headers].filter(
    ([h]) => !/^(date|x-request-id|content-length|ratel)/.test(h),
  )
  return JSON.stringify([status, reported, strip(text)])
}

test('every procedure has a row, and every row a procedure', () => {
  expect(CALLS.length).toBeGreaterThan(70)
  expect(SUBSCRIPTIONS.length).toBeGreaterThan(3)
  expect(PROCEDURES.filter((p) => !p.row).map((p) => p.name)).toEqual([])
  const known = new Set(PROCEDURES.map((p) => p.name))
  expect(Object.keys(LIVE_ROWS).filter((name) => !known.has(name))).toEqual([])
})

describe.each(ENGINES)("tenants at the dashboard's gateway on %s", (engine) => {
  let tenants: Tenants
  let organizations: Organization[] = []
  const open: LiveSocket[] = []
  beforeAll(async () => {
    tenants = await Tenants.build(engine)
    // the rules are the same code; only the look-up of rows differs
    organizations = tenants.organizations.slice(0, engine === 'sqlite' ? 3 : 1)
  })
  afterEach(() => {
    for (const socket of open.splice(0)) socket.close()
  })
  afterAll(() => tenants.cp.close())

  const otherOf = (o: Organization): Organization =>
    tenants.organizations[(tenants.organizations.indexOf(o) + 1) % 3] as Organization
  const tokenOf = (actor: Actor, o: Organization): string => {
    if (actor === 'nobody') return ''
    if (actor === 'machine') return tenants.machine
    return actor === 'platform administrator' ? tenants.admin : o.tokens[actor]
  }
  const send = (p: Procedure, token: string, input?: object, headers = {}): Promise<Answer> => {
    if (p.type === 'mutation')
      return tenants.call(token, 'POST', `/trpc/${p.name}`, input ?? {}, headers)
    const query = input ? `?input=${encodeURIComponent(JSON.stringify(input))}` : ''
    return tenants.call(token, 'GET', `/trpc/${p.name}${query}`, undefined, headers)
  }
  const said = (answer: Answer): Said => answer.body as Said
  const say = (p: Procedure, actor: Actor, o: Organization, text: string): string =>
    `${p.name} by ${actor} of ${o.name}: ${text.slice(0, 300)}`
  const socketOf = (token: string): LiveSocket => {
    const socket = new LiveSocket(tenants.cp, token)
    open.push(socket)
    return socket
  }

  /** The expected refusal code; undefined if it is allowed. */
  function refusal({ row }: Procedure, actor: Actor): string | undefined {
    if (row.needs === 'nothing') return undefined
    if (actor === 'nobody') return 'token_missing'
    if (actor === 'machine') return 'token_invalid'
    if (row.needs === 'token') return undefined
    if (row.needs === 'browser') return 'token_missing'
    if (row.needs === 'platform_admin')
      return actor === 'platform administrator' ? undefined : 'platform_admin_only'
    if (actor === 'platform administrator')
      return row.isCreation ? 'organization_required' : 'not_found'
    const granted = permissionsOf(actor, SCOPES).includes(row.needs)
    return granted && (row.only ?? ROLES).includes(actor) ? undefined : 'permission_denied'
  }
  const own = async ({ row }: Procedure, o: Organization): Promise<object | undefined> =>
    row.own ? row.own(o, tenants) : row.input?.(o)
  /** Every actor in the first organization; the others, and the other engine, run the same code. */
  const actorsOf = (o: Organization): (Role | 'platform administrator')[] =>
    engine === 'sqlite' && o === organizations[0]
      ? [...ROLES, 'platform administrator']
      : ['owner', 'platform administrator']
  /** Calls with ids of an organization; platform administrators may use those of all. */
  const NAMED = CALLS.filter((p) => p.row.input && p.row.needs !== 'platform_admin')

  // before any test starts background work
  test('foreign things are as missing ones, byte for byte, and nothing changes', async () => {
    const { db, clock } = tenants.cp.running.ctx
    // background work runs first, so that it cannot interfere: alerts about servers without an agent
    await tenants.cp.advance(ALERTS.serverOfflineMs + 60_000)
    await checkAlerts(tenants.cp.running.ctx)
    await until('all mail is sent, and the first try of every notification is over', async () => {
      const unsent = db.selectFrom('mails').select('id').where('nextAt', 'is not', null)
      const due = await listDueLanes(db, clock.now(), 1)
      return due.length + (await unsent.execute()).length === 0 || undefined
    })
    // no receiver is there, so notifications of these alerts would be tried again and again
    await db.updateTable('noticeChannels').set({ brokenAt: 1 }).execute()
    await db.updateTable('notices').set({ status: 'skipped' }).execute()
    const before = await snapshot(db, engine)
    let compared = 0
    for (const o of organizations)
      for (const p of NAMED)
        for (const actor of actorsOf(o)) {
          const token = tokenOf(actor, o)
          const foreign = await send(p, token, p.row.input?.(otherOf(o)))
          const missing = await send(p, token, p.row.input?.(MISSING))
          const what = say(p, actor, o, foreign.text)
          expect([foreign.status, said(foreign).error?.data.code], what).toEqual([404, 'not_found'])
          expect(written(foreign), what).toBe(written(missing))
          compared += 1
        }
    const actors = organizations.flatMap(actorsOf).length
    expect(compared).toBe(actors * NAMED.length)
    expect(NAMED.length).toBeGreaterThan(50)
    expect(differences(before, await snapshot(db, engine))).toEqual([])
  })

  test('own things: as the role allows, and no more', async () => {
    for (const o of organizations)
      for (const p of CALLS)
        for (const actor of [...actorsOf(o), 'machine', 'nobody'] as const) {
          const answer = await send(p, tokenOf(actor, o), await own(p, o))
          const what = say(p, actor, o, `${answer.status} ${answer.text}`)
          const refused = refusal(p, actor)
          if (refused) expect(said(answer).error?.data.code, what).toBe(refused)
          else expect(p.row.accepts ?? [200], what).toContain(answer.status)
          if (refused === 'permission_denied' && !p.row.only)
            expect(said(answer).error?.data.required_permission, what).toBe(p.row.needs)
          if (p.row.listed && actor === 'platform administrator')
            expect(p.row.listed(said(answer).result?.data ?? {}), what).toEqual([])
        }
  })

  // decided before any row is read, so one engine is enough
  test.runIf(engine === 'sqlite')(
    'X-Service-Organization: a foreign and a missing one are alike',
    async () => {
      for (const o of organizations.slice(0, 1))
        for (const p of CALLS.filter((one) => one.row.needs !== 'nothing'))
          for (const actor of ['owner', 'platform administrator'] as const) {
            const other = otherOf(o)
            const by = (id: number) => ({ 'x-service-organization': String(id) })
            const input = p.row.input?.(other)
            const token = tokenOf(actor, o)
            const foreign = await send(p, token, input, by(other.organization))
            const missing = await send(p, token, input, by(MISSING.organization))
            const what = say(p, actor, o, foreign.text)
            expect(said(foreign).error?.data.code, what).toBe('organization_forbidden')
            expect(written(foreign), what).toBe(written(missing))
          }
    },
  )

  test('own and foreign in one request: each answers for itself', async () => {
    for (const o of organizations) {
      const other = otherOf(o)
      for (const p of NAMED.filter((one) => one.type === 'query')) {
        const both = async (second: object | undefined) => {
          const input = JSON.stringify({ 0: p.row.input?.(o), 1: second })
          const path = `/trpc/${p.name},${p.name}?batch=1&input=${encodeURIComponent(input)}`
          return tenants.call(o.tokens.owner, 'GET', path)
        }
        const foreign = await both(p.row.input?.(other))
        const [mine, refused] = foreign.body as unknown as [Said, Said]
        // a refusal by state is an answer for its own part too
        const own = p.row.accepts ? mine.error?.data.code : mine.result
        expect(own, p.name).toBeDefined()
        expect(own, p.name).not.toBe('not_found')
        expect(refused.error?.data.code, p.name).toBe('not_found')
        expect(strip(foreign.text)).toBe(strip((await both(p.row.input?.(MISSING))).text))
      }
      for (const p of CALLS.filter((one) => one.row.crossed)) {
        const answer = await send(p, o.tokens.owner, p.row.crossed?.(o, other, tenants))
        expect([404, 422], `${p.name}: ${answer.text}`).toContain(answer.status)
      }
      // a foreign id as a cursor of an own list returns only own rows
      for (const p of CALLS.filter((one) => one.row.mixed)) {
        const answer = await send(p, o.tokens.viewer, p.row.mixed?.(o, other))
        expect(answer.status, p.name).toBe(200)
        const named = [...answer.text.matchAll(/"(organization|environment)_id":(\d+)/g)]
        for (const [, kind, id] of named)
          expect(Number(id), p.name).toBe(o[kind as 'organization' | 'environment'])
      }
    }
  })

  test('subscriptions: own ones start, foreign ones are as missing ones, nobody hears nothing', async () => {
    for (const o of organizations)
      for (const actor of ACTORS) {
        const socket = socketOf(tokenOf(actor, o))
        for (const p of SUBSCRIPTIONS) {
          const refused = refusal(p, actor)
          if (refused?.startsWith('token')) continue // the socket itself is refused, below
          const ask = async (input: object | undefined) =>
            socket.answer(await socket.ask(p.name, input ?? {}))
          const mine = await ask(p.row.input?.(o))
          expect(mine.code, say(p, actor, o, mine.text)).toBe(refused ?? 'started')
          const foreign = await ask(p.row.input?.(otherOf(o)))
          const missing = await ask(p.row.input?.(MISSING))
          expect(foreign.code, say(p, actor, o, foreign.text)).toBe('not_found')
          expect(strip(foreign.text)).toBe(strip(missing.text))
        }
        socket.close()
      }
    for (const [token, code] of [
      ['', 'token_missing'],
      [tenants.machine, 'token_invalid'],
    ] as const)
      for (const p of SUBSCRIPTIONS) {
        const socket = socketOf(token)
        const asked = await socket.ask(
          p.name,
          p.row.input?.(organizations[0] as Organization) ?? {},
        )
        expect((await socket.answer(asked)).code, p.name).toBe(code)
        await until('the end of the socket', () => socket.ended)
        expect(socket.ended).toBe(4401)
        expect(socket.heard(asked)).toEqual([])
      }
  })

  test('what happens elsewhere is not heard, also not by resuming from a foreign number', async () => {
    const { ctx } = tenants.cp.running
    const watched = await Promise.all(
      tenants.organizations.map(async (o) => {
        const socket = socketOf(o.tokens.viewer)
        const asked: number[] = []
        for (const p of SUBSCRIPTIONS.filter((one) => !one.row.isQuiet))
          for (const from of [{}, { lastEventId: p.row.first ?? '0' }])
            asked.push(await socket.ask(p.name, { ...p.row.input?.(o), ...from }))
        for (const id of asked) expect((await socket.answer(id)).code).toBe('started')
        return { o, socket, asked }
      }),
    )
    const happen = (o: Organization) =>
      change(ctx, async (c) => {
        const about = { organizationId: o.organization, projectId: o.project }
        const whole = { ...about, environmentId: o.environment, taskId: o.task }
        emit(c, whole, 'task.step', { mark: `mark-${o.name}` })
      })
    // each before and after the others, so any leak has shown itself when the last event arrives
    for (const o of [...tenants.organizations, ...tenants.organizations]) await happen(o)
    for (const { o, socket, asked } of watched) {
      const marks = (id: number) =>
        socket.heard(id).filter((m) => JSON.stringify(m).includes(`mark-${o.name}`)).length
      await until(
        `both events of ${o.name}`,
        () => asked.every((id) => marks(id) >= 2) || undefined,
      )
      for (const message of asked.flatMap((id) => socket.heard(id)))
        expect(message.organization_id ?? o.organization).toBe(o.organization)
      for (const other of tenants.organizations.filter((one) => one !== o))
        expect(socket.said).not.toContain(`mark-${other.name}`)
    }
  })
})
