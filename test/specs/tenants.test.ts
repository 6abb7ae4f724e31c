// Tenants: every route of the router × three organizations × every role, a platform administrator, a machine and an
// anonymous caller × own, foreign and mixed ids × a foreign organization header. The route's `needs` gives the expected
// result; foreign ids answer as missing ones, byte for byte except the request's id.
import { type Permission, ROLES, type Role, type Scope } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { permissionsOf, SCOPE_OF } from '../../control-plane/src/domain/core/access.ts'
import { routesOf } from '../../control-plane/src/gateways/rest/reference/openapi.ts'
import { hashToken, makeToken } from '../../control-plane/src/identity/tokens.ts'
import { insertToken } from '../../control-plane/src/store/people/people.ts'
import type { Answer } from '../fixtures/platform/control-plane.ts'
import { differences, snapshot } from '../fixtures/platform/database-snapshot.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { type Ids, MISSING, type Organization, Tenants } from '../fixtures/tenants/organizations.ts'
import { type Asked, ROWS, type Row } from '../fixtures/tenants/rows.ts'

const SCOPES = ['read', 'deploy', 'write', 'ssh', 'admin'] as const
type Actor = Role | 'platform administrator' | 'machine' | 'nobody'
const ACTORS: Actor[] = [...ROLES, 'platform administrator', 'machine', 'nobody']

interface Route {
  name: string
  method: string
  path: string
  needs: string
  row: Row
}

/** Removes ids and the request's own name; everything else must be equal. */
const strip = ({ status, text, headers }: Answer): string => {
  const reported = [...headers].filter(
    ([name]) => !/^(date|x-request-id|content-length|ratelimit|etag)$/.test(name),
  )
  const body = text.replace(/req_[\w-]+/, 'R').replace(/"instance":"[^"]*"/, '"instance":"I"')
  return JSON.stringify([status, reported, body])
}

describe.each(ENGINES)('tenants on %s', (engine) => {
  let tenants: Tenants
  let routes: Route[] = []
  beforeAll(async () => {
    tenants = await Tenants.build(engine)
    routes = routesOf(tenants.cp.running.http)
      .filter(({ route }) => !route.schema?.hide)
      .map(({ method, path, route }) => ({
        name: `${method} ${path}`,
        method,
        path,
        needs: route.config?.needs ?? 'token',
        row: ROWS[`${method} ${path}`] as Row,
      }))
  })
  afterAll(() => tenants.cp.close())

  const send = (route: Route, token: string, asked: Asked, headers = {}): Promise<Answer> => {
    const path = route.path.replaceAll(/\{(\w+)\}/g, (_, name) => String(asked.params?.[name]))
    return tenants.call(token, route.method, path + (asked.query ?? ''), asked.body, headers)
  }
  const tokenOf = (actor: Actor, o: Organization): string => {
    if (actor === 'nobody') return ''
    if (actor === 'machine') return tenants.machine
    return actor === 'platform administrator' ? tenants.admin : o.tokens[actor]
  }
  const ask = async (row: Row, o: Organization): Promise<Asked> =>
    (await row.ask?.(o, tenants)) ?? {}
  const askElsewhere = async (row: Row, other: Ids): Promise<Asked> =>
    row.elsewhere?.(other, tenants) ?? ask(row, other as Organization)
  const say = (route: Route, actor: Actor, o: Organization, a: Answer): string =>
    `${route.name} by ${actor} of ${o.name}: ${a.status} ${a.text.slice(0, 200)}`

  /** The expected status and code of a refusal; undefined if it is allowed. */
  function refusal(route: Route, actor: Actor): [number, string] | undefined {
    const { needs, row } = route
    if (needs === 'nothing') return undefined
    if (actor === 'nobody') return [401, 'token_missing']
    if (actor === 'machine') return [401, 'token_invalid']
    if (needs === 'token') return undefined
    if (needs === 'platform_admin') {
      return actor === 'platform administrator' ? undefined : [403, 'platform_admin_only']
    }
    if (actor === 'platform administrator') {
      if (row.isList) return undefined
      return row.isCreation ? [422, 'organization_required'] : [404, 'not_found']
    }
    const granted = (permissionsOf(actor, SCOPES) as string[]).includes(needs)
    const may = granted && (row.only ?? ROLES).includes(actor)
    return may ? undefined : [403, 'permission_denied']
  }

  test('every route has a row, and every row a route', () => {
    expect(routes.length).toBeGreaterThan(20)
    expect(routes.filter((r) => !r.row).map((r) => r.name)).toEqual([])
    const known = new Set(routes.map((r) => r.name))
    expect(Object.keys(ROWS).filter((name) => !known.has(name))).toEqual([])
  })

  test('GET changes no row, whoever asks for whatever', async () => {
    const { db } = tenants.cp.running.ctx
    const before = await snapshot(db, engine)
    const [own, other] = tenants.organizations as [Organization, Organization]
    for (const route of routes.filter((r) => r.method === 'GET')) {
      for (const target of [own, other, MISSING as Organization]) {
        const asked = await askElsewhere(route.row, target)
        for (const actor of ['owner', 'viewer', 'platform administrator'] as const)
          await send(route, tokenOf(actor, own), asked)
      }
    }
    expect(differences(before, await snapshot(db, engine))).toEqual([])
    await own.make('/api/servers', { name: `seen-${tenants.next()}`, hostname: 'h' })
    const after = await snapshot(db, engine)
    expect(differences(before, after)).toContain('servers') // the comparison notices changes
  })

  test('own things: as the role allows, and no more', async () => {
    for (const o of tenants.organizations)
      for (const route of routes)
        for (const actor of ACTORS) {
          const answer = await send(route, tokenOf(actor, o), await ask(route.row, o))
          const refused = refusal(route, actor)
          const what = say(route, actor, o, answer)
          if (refused) expect([answer.status, answer.body.code], what).toEqual(refused)
          else expect(route.row.accepts, what).toContain(answer.status)
          if (refused?.[1] === 'permission_denied' && !route.row.only)
            expect(answer.body.required_permission, what).toBe(route.needs)
          if (route.row.isList && actor === 'platform administrator')
            expect(answer.body, what).toEqual([])
        }
  })

  test('a token with the scope a route needs, and no other, is enough', async () => {
    const [o] = tenants.organizations as [Organization]
    const narrow = new Map<Scope, string>()
    for (const scope of SCOPES) {
      const token = makeToken('berth_pat_')
      narrow.set(scope, token)
      await insertToken(tenants.cp.running.ctx.db, {
        userId: o.users.owner,
        kind: 'personal',
        name: scope,
        hash: hashToken(token),
        hint: token.slice(-4),
        scopes: [scope],
        organizationId: null,
        expiresAt: null,
        createdAt: 1,
      })
    }
    const refused: string[] = []
    // `only` is a rule beyond `needs`, with its own scope; a reset is a deployment, too
    const plain = routes.filter((r) => !r.row.only && !r.path.endsWith('/reset'))
    for (const route of plain.filter((r) => Object.hasOwn(SCOPE_OF, r.needs))) {
      const scope = SCOPE_OF[route.needs as Permission]
      const answer = await send(route, narrow.get(scope) ?? '', await ask(route.row, o))
      if (!route.row.accepts.includes(answer.status)) refused.push(say(route, 'owner', o, answer))
    }
    expect(refused).toEqual([])
  })

  test('foreign things are as missing ones, for every role, byte for byte', async () => {
    let compared = 0
    for (const [n, o] of tenants.organizations.entries())
      for (const route of routes.filter((r) => r.path.includes('{') && r.needs !== 'nothing'))
        for (const actor of ROLES) {
          const other = tenants.organizations[(n + 1) % 3] as Organization
          const token = tokenOf(actor, o)
          const foreign = await send(route, token, await askElsewhere(route.row, other))
          const missing = await send(route, token, await askElsewhere(route.row, MISSING))
          const what = say(route, actor, o, foreign)
          // calls for platform administrators are refused before any look-up
          const refused: unknown[] = [[404, 'not_found']]
          if (route.needs === 'platform_admin') refused.push([403, 'platform_admin_only'])
          expect(refused, what).toContainEqual([foreign.status, foreign.body.code])
          expect(strip(foreign), what).toBe(strip(missing))
          compared += 1
        }
    expect(compared).toBeGreaterThan(100)
  })

  test('own and foreign ids mixed: refused, and as with missing ones', async () => {
    for (const [n, o] of tenants.organizations.entries())
      for (const route of routes)
        for (const mix of route.row.mixed ?? []) {
          const other = tenants.organizations[(n + 1) % 3] as Organization
          const attempt = async () => {
            const before = await snapshot(tenants.cp.running.ctx.db, engine)
            const foreign = await send(route, o.tokens.owner, mix(o, other, tenants))
            const missing = await send(route, o.tokens.owner, mix(o, MISSING, tenants))
            const what = say(route, 'owner', o, foreign)
            expect([404, 409, 422], what).toContain(foreign.status)
            expect(strip(foreign), what).toBe(strip(missing))
            const after = await snapshot(tenants.cp.running.ctx.db, engine)
            return { what, changed: differences(before, after) }
          }
          // a request that writes does so each time; background work of the control plane (a server goes offline,
          // an alert begins) ends after a few attempts, even on a slow machine
          let last = await attempt()
          for (let left = 5; last.changed.length > 0 && left > 0; left--) last = await attempt()
          expect(last.changed, last.what).toEqual([])
        }
  })

  test('X-Service-Organization: a foreign and a missing one are refused alike', async () => {
    for (const [n, o] of tenants.organizations.entries())
      for (const route of routes.filter((r) => r.needs !== 'nothing'))
        for (const actor of [...ROLES, 'platform administrator'] as const) {
          const other = tenants.organizations[(n + 1) % 3] as Organization
          const token = tokenOf(actor, o)
          const by = (id: number) => ({ 'x-service-organization': String(id) })
          // rows of that organization: the header must not open them
          const asked = await askElsewhere(route.row, other)
          const foreign = await send(route, token, asked, by(other.organization))
          const missing = await send(route, token, asked, by(MISSING.organization))
          const what = say(route, actor, o, foreign)
          const refused = [403, 'organization_forbidden']
          expect([foreign.status, foreign.body.code], what).toEqual(refused)
          expect(strip(foreign), what).toBe(strip(missing))
        }
  })

  test('lists show own things alone', async () => {
    for (const o of tenants.organizations) {
      const ids = async (path: string): Promise<number[]> =>
        (
          (await tenants.call(o.tokens.viewer, 'GET', path)).body as unknown as { id: number }[]
        ).map((thing) => thing.id)
      const others = tenants.organizations.filter((other) => other !== o)
      const projects = await ids('/api/projects?per_page=100')
      const servers = await ids('/api/servers')
      expect(projects).toContain(o.project)
      expect(servers).toContain(o.server)
      for (const other of others) {
        expect(projects).not.toContain(other.project)
        expect(servers).not.toContain(other.server)
      }
    }
  })
})
