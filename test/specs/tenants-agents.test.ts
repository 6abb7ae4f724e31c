// Tenants at the agents' gateway: an agent of another organization calls every method of the service, taken from its
// descriptor, with everything it could know of a victim. It is refused or ignored, and nothing of the victim changes.
// Agents have no identity at the users' gateways, and users have none at the agents'.
import { createHash, X509Certificate } from 'node:crypto'
import { AgentMessageSchema, AgentService, AttemptState, createClient } from '@berth/shared/wire'
import { credentials, Metadata, status } from '@grpc/grpc-js'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CONTROL_PLANE_NAME } from '../../agent/src/link/channel.ts'
import { routesOf } from '../../control-plane/src/gateways/rest/reference/openapi.ts'
import { appRouter } from '../../control-plane/src/gateways/trpc/router.ts'
import {
  createAuthority,
  issueProbeCertificate,
  loadAuthority,
} from '../../control-plane/src/keys/authority.ts'
import { newAgent } from '../../control-plane/src/keys/requests.testing.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { LiveSocket } from '../fixtures/platform/live-socket.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'
import { AGENT_ROWS, knock, MESSAGE_ROWS, settle, type Victim } from '../fixtures/tenants/agents.ts'
import { type Organization, Tenants } from '../fixtures/tenants/organizations.ts'
import { ROWS } from '../fixtures/tenants/rows.ts'

const METHODS = AgentService.methods.map((m) => m.localName as keyof typeof AgentService.method)
const PROCEDURES = appRouter._def.procedures as object as Record<
  string,
  { _def: { type: string; meta?: { isOpen?: boolean } } }
>

test('every method and every message has a row, and every row its method or message', () => {
  expect(Object.keys(AGENT_ROWS).toSorted()).toEqual(METHODS.toSorted())
  const messages = AgentMessageSchema.oneofs[0]?.fields.map((f) => f.localName) ?? []
  const known = [...Object.keys(MESSAGE_ROWS), 'hello', 'events']
  expect(known.toSorted()).toEqual(messages.toSorted())
})

describe.each(ENGINES)("tenants on the agents' listener on %s", (engine) => {
  let tenants: Tenants
  const victims: Victim[] = []
  const rogues: WireAgent[] = []
  beforeAll(async () => {
    tenants = await Tenants.build(engine)
    for (const o of tenants.organizations) {
      tenants.cp.token = o.tokens.owner
      victims.push(await settleIn(o))
      const { id } = await o.make('/api/servers', { name: 'rogue', hostname: 'r' })
      rogues.push(await WireAgent.join(tenants.cp, id))
    }
    // a repository check between two comparisons would show up in them
    const { db } = tenants.cp.running.ctx
    const later = tenants.cp.running.ctx.clock.now() + 24 * 3_600_000
    await db.updateTable('projects').set({ reconcileAt: later }).execute()
  })
  afterAll(async () => {
    for (const agent of [...rogues, ...victims.map((v) => v.agent)]) agent.close()
    await tenants.cp.close()
  })

  /** An agent that runs its organization's deployment and has sent a line. */
  async function settleIn(o: Organization): Promise<Victim> {
    const set = { SECRET: `value of ${o.name}` }
    const path = `/api/environments/${o.environment}/variables`
    await tenants.call(o.tokens.owner, 'PATCH', path, { set })
    const agent = await WireAgent.join(tenants.cp, o.server, true)
    const session = agent.connect()
    const { sessionId } = await session.next('welcome')
    const assigned = await until('an assignment', async () => (await session.assignments())[0])
    const { attemptId, fence } = assigned
    session.event({
      attemptId,
      fence,
      body: { case: 'attempt', value: { state: AttemptState.RUNNING } },
    })
    const logs = agent.logs(sessionId, [attemptId])
    await logs.next('resume')
    logs.send(attemptId, fence, 1, [`the log of ${o.name}\n`])
    await logs.next('ack')
    await settle(session)
    return { o, agent, session, sessionId, attemptId, fence }
  }

  /** Every row that is about the victim, its log as users read it, and the bytes of its file. */
  async function belongings({ o, agent, attemptId }: Victim): Promise<string[]> {
    const { db } = tenants.cp.running.ctx
    const own: Record<string, unknown> = {
      organizations: o.organization,
      servers: o.server,
      projects: o.project,
      environments: o.environment,
      tasks: o.task,
      agents: agent.identity.agentId,
      attempts: attemptId,
    }
    const tables =
      engine === 'sqlite'
        ? sql<{ name: string }>`select name from sqlite_master where type = 'table'`
        : sql<{ name: string }>`select tablename as name from pg_tables where schemaname = 'public'`
    const { rows } = await tables.execute(db)
    const found: string[] = []
    for (const { name } of rows) {
      const all = await sql<Record<string, unknown>>`select * from ${sql.table(name)}`.execute(db)
      for (const row of all.rows) {
        const reported = Object.entries(row).map(([c, v]) => [
          c.replaceAll('_', '').toLowerCase(),
          v,
        ])
        const mine = reported.some(
          ([column, value]) =>
            (column === 'id' && value === own[name]) ||
            Object.entries(own).some(([t, id]) => column === `${t.slice(0, -1)}id` && value === id),
        )
        // times of last use change by themselves, and the chain over the audit log is written later
        const kept = reported.filter(
          ([column]) => !/^last(used|seen)|hash|reconcile|chain/.test(`${column}`),
        )
        if (mine) found.push(`${name} ${JSON.stringify(kept)}`)
      }
    }
    const log = await tenants.call(o.tokens.viewer, 'GET', `/api/tasks/${o.task}/log`)
    return [...found.toSorted(), log.text]
  }

  /** The end of its last session is recorded in its own organization, the victim of the next pair. */
  const isGone = (rogue: WireAgent) =>
    until('the end of the session', async () => {
      const { sessionId } = await tenants.cp.running.ctx.db
        .selectFrom('agents')
        .select('sessionId')
        .where('id', '=', rogue.identity.agentId)
        .executeTakeFirstOrThrow()
      return sessionId === null || undefined
    })

  test.each(METHODS)('%s by an agent of another organization', async (method) => {
    const pairs = engine === 'sqlite' ? victims : victims.slice(0, 1)
    for (const [n, victim] of pairs.entries()) {
      await settle(victim.session)
      const before = await belongings(victim)
      const { installationId } = tenants.cp.running.ctx
      const rogue = rogues[(n + 1) % 3] as WireAgent
      await AGENT_ROWS[method]?.({ rogue, victim, installationId })
      await isGone(rogue)
      await settle(victim.session) // still connected, and its session is the newest
      expect(victim.session.ended).toBe(false)
      expect(await belongings(victim)).toEqual(before)
    }
  })

  test('the comparison sees what changes', async () => {
    const [victim] = victims as [Victim]
    const before = await belongings(victim)
    expect(before.join('\n')).toContain(`the log of ${victim.o.name}`)
    expect(before.filter((row) => row.startsWith('attempts '))).toHaveLength(1)
    await tenants.call(victim.o.tokens.owner, 'PATCH', `/api/servers/${victim.o.server}`, {
      paused: true,
    })
    expect(await belongings(victim)).not.toEqual(before)
  })

  test('what an agent is and has opens nothing on the listener of people', async () => {
    const { o, agent, sessionId, attemptId } = victims[0] as Victim
    const { certificate, agentId } = agent.identity
    const raw = new X509Certificate(certificate).raw
    const machine = [
      agentId,
      sessionId,
      attemptId,
      tenants.machine,
      raw.toString('base64'),
      createHash('sha256').update(raw).digest('hex'),
    ]
    const routes = routesOf(tenants.cp.running.http).filter(
      ({ route }) => !route.schema?.hide && (route.config?.needs ?? 'token') !== 'nothing',
    )
    expect(routes.length).toBeGreaterThan(40)
    for (const { method, path } of routes) {
      const row = ROWS[`${method} ${path}`]
      const asked = row?.elsewhere?.(o, tenants) ?? (await row?.ask?.(o, tenants)) ?? {}
      const url = path.replaceAll(/\{(\w+)\}/g, (_, name) => String(asked.params?.[name]))
      for (const token of machine) {
        const answer = await tenants.call(token, method, url + (asked.query ?? ''), asked.body)
        expect([answer.status, answer.body.code], path).toEqual([401, 'token_invalid'])
      }
    }
    // open procedures do not authenticate
    const closed = Object.entries(PROCEDURES).filter(([, { _def }]) => !_def.meta?.isOpen)
    expect(closed.length).toBeGreaterThan(40)
    for (const [name, { _def }] of closed)
      for (const token of _def.type === 'subscription' ? [] : machine) {
        const sent =
          _def.type === 'mutation' ? (['POST', {}] as const) : (['GET', undefined] as const)
        const answer = await tenants.call(token, sent[0], `/trpc/${name}`, sent[1])
        expect(answer.status, name).toBe(401)
      }
    for (const token of machine) {
      const socket = new LiveSocket(tenants.cp, token)
      const id = await socket.ask('organization.events', { organization_id: o.organization })
      expect((await socket.answer(id)).code).toBe('token_invalid')
      await until('the end of the socket', () => socket.ended)
    }
  })

  test("people's tokens and strangers' certificates open nothing on the listener of agents", async () => {
    const { agent, o } = victims[0] as Victim
    const { ctx } = tenants.cp.running
    const [ca = ''] = agent.identity.ca
    const [endpoint = ''] = agent.identity.endpoints
    const metadata = new Metadata()
    metadata.set('authorization', `Bearer ${o.tokens.owner}`)
    const names = { installationId: ctx.installationId, agentId: agent.identity.agentId }
    const other = await loadAuthority(await createAuthority(new Date()))
    const forged = await newAgent(other, names)
    const probe = await issueProbeCertificate(ctx.authority, new Date())
    const dial = (pair?: { keyPem: string; certificatePem: string }) => {
      const key = pair ? Buffer.from(pair.keyPem) : null
      const certificate = pair ? Buffer.from(pair.certificatePem) : null
      const secure = credentials.createSsl(Buffer.from(ca), key, certificate)
      return createClient(AgentService, endpoint, secure, {
        'grpc.ssl_target_name_override': CONTROL_PLANE_NAME,
        'grpc.use_local_subchannel_pool': 1,
        'grpc.enable_http_proxy': 0,
        'grpc.enable_retries': 0,
      })
    }
    const before = await belongings(victims[0] as Victim)
    for (const method of METHODS)
      for (const [what, pair, codes] of [
        ['a token alone', undefined, [status.UNAVAILABLE]],
        ['a certificate of another authority', forged, [status.UNAVAILABLE]],
        // it is admitted but belongs to no agent
        ['a certificate of no agent', probe, [7, 9, 12]],
      ] as const) {
        const client = dial(pair)
        const { code, said } = await knock(client, method, metadata)
        expect([what, method, said]).toEqual([what, method, 0])
        expect(codes, `${what}, ${method}`).toContain(code)
        client.close()
      }
    expect(await belongings(victims[0] as Victim)).toEqual(before)
    // with a valid certificate the token changes nothing: the certificate alone is the identity
    const held = { keyPem: agent.identity.key, certificatePem: agent.identity.certificate }
    const client = dial(held)
    expect((await knock(client, 'connect', metadata)).code).toBe(status.OK)
    client.close()
  })
})
