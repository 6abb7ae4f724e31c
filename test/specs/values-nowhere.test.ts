// No endpoint, log line, row, mail or file ever holds the value of a custom variable in readable form: random values go
// through everything that touches variables, and through requests that carry them in wrong places; then all of it is
// searched. The same search finds a value that was planted on purpose.
import { randomUUID } from 'node:crypto'
import { SESSION } from '@berth/shared'
import type { Environment, VariablesPatched } from '@berth/shared/api'
import fc from 'fast-check'
import { afterEach, describe, expect, test } from 'vitest'
import { change, emit } from '../../control-plane/src/app/core/transaction.ts'
import { checkAlerts } from '../../control-plane/src/app/installation/alerts.ts'
import { ENROLMENT } from '../../control-plane/src/limits/keys.ts'
import { type Host, makeHost, sha } from '../fixtures/forge/webhook-sender.ts'
import { listMails, mailTo } from '../fixtures/people/people.ts'
import type { Answer } from '../fixtures/platform/control-plane.ts'
import { ENGINES, type EngineName } from '../fixtures/platform/engines.ts'
import { LiveSocket } from '../fixtures/platform/live-socket.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import {
  formsOf,
  readFolder,
  readTables,
  type Traces,
  tracesOf,
} from '../fixtures/platform/traces.ts'
import { until } from '../fixtures/server/installation.ts'

const GRACE = SESSION.graceTimeouts * SESSION.timeoutIntervals * SESSION.heartbeatMinMs + 1_000
const LARGE = 1_100_000
const KEY = /^[A-Za-z_]\w*$/

/** A secret, and the parts that reveal enough alone: finding one of them counts. */
interface Secret {
  value: string
  parts: string[]
}

const LETTERS = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789']
/** Random enough that a match is never a coincidence. */
const part = fc
  .string({ unit: fc.constantFrom(...LETTERS), minLength: 8, maxLength: 14 })
  .filter((text) => new Set(text).size > 5)
const decorated = (of: (text: string, other: string) => string): fc.Arbitrary<Secret> =>
  fc.tuple(part, part).map(([a, b]) => {
    const value = of(a, b)
    return { value, parts: [a, b].filter((one) => value.includes(one)) }
  })
const secret: fc.Arbitrary<Secret> = fc.oneof(
  decorated((a) => a),
  decorated((a, b) => `${a}\n${b}\n`),
  decorated((a, b) => `"${a}" '${b}' \`$(x)\` \\n`),
  decorated((a) => `ü€😀${a}äß`),
  decorated((a, b) => JSON.stringify({ user: a, password: b })),
  decorated((a, b) => `-----BEGIN KEY-----\r\n${a}\r\n${b}\r\n-----END KEY-----`),
  fc
    .uint8Array({ minLength: 12, maxLength: 48 })
    .filter((bytes) => new Set(bytes).size > 8)
    .map((bytes) => ({ value: Buffer.from(bytes).toString('base64'), parts: [] })),
)

class Secrecy {
  readonly p: Platform
  readonly host: Host
  readonly engine: EngineName
  readonly #seen: string[]
  readonly #logged: string[]
  #runs = 0

  private constructor(p: Platform, host: Host, engine: EngineName, seen: string[], log: string[]) {
    this.p = p
    this.host = host
    this.engine = engine
    this.#seen = seen
    this.#logged = log
  }

  static async open(engine: EngineName): Promise<Secrecy> {
    const logged: string[] = []
    const seen: string[] = []
    const p = await Platform.start(engine, { logTo: (line) => void logged.push(line) })
    const call = p.cp.call.bind(p.cp) as (...of: unknown[]) => Promise<Answer>
    p.cp.call = (async (...of: unknown[]) => {
      const answer = await call(...of)
      seen.push(JSON.stringify([...answer.headers]), answer.text)
      return answer
    }) as typeof p.cp.call
    p.cp.clock.offsetMs += GRACE
    const host = await makeHost(p.cp, p.serverId)
    return new Secrecy(p, host, engine, seen, logged)
  }

  async #paths(): Promise<Traces> {
    const { cp } = this.p
    const mails = (await listMails(cp)).map((m) => `${m.subject}\n${m.text}`)
    return new Map([
      ['an answer', Buffer.from(this.#seen.join('\n'))],
      ['a log line', Buffer.from(this.#logged.join('\n'))],
      ['a mail', Buffer.from(mails.join('\n'))],
      ...(await readTables(cp.running.ctx.db, this.engine)),
      ...readFolder(cp.dir, 'data'),
      ...readFolder(this.p.agentDir, 'agent'),
    ])
  }

  async find(texts: string[]): Promise<string[]> {
    const paths = await this.#paths()
    return texts.flatMap((text) => tracesOf(text, paths))
  }

  /** Everything the product does with variables, and related operations. */
  async live(secrets: Secret[]): Promise<void> {
    const { cp } = this.p
    this.#runs += 1
    const variables = Object.fromEntries(secrets.map((s, i) => [`KEY_${i}`, s.value]))
    const body = { identifier: `e${this.#runs}`, branch: 'main', variables }
    const path = `/api/projects/${this.host.projectId}/environments`
    const made = await this.#twice<Environment>('POST', path, body)
    expect(made.status).toBe(201)
    const { id } = made.body
    const socket = new LiveSocket(cp, cp.token)
    await socket.ask('environment.events', { environment_id: id, lastEventId: '0' })
    const turned = Object.fromEntries(secrets.map((s, i) => [`OTHER_${i}`, s.value]))
    const asked = { set: { ...turned, KEY_0: secrets[1]?.value }, unset: ['KEY_1', 'NOT_THERE'] }
    const patched = await this.#twice<VariablesPatched>(
      'PATCH',
      `/api/environments/${id}/variables`,
      asked,
    )
    expect(patched.status).toBe(200)
    await this.#levels(secrets)
    await this.#registries(secrets)
    await this.#deploy(id, secrets)
    await this.#around()
    await this.#hostile(id, secrets)
    await this.#look(id)
    this.#seen.push(socket.said)
    expect(socket.said).toContain('variables') // the subscription reported the change
    socket.close()
  }

  /** Values of the project's levels; the manual one reaches the environment. */
  async #levels(secrets: Secret[]): Promise<void> {
    const path = `/api/projects/${this.host.projectId}/variables`
    for (const [n, level] of (['project', 'previews', 'manual'] as const).entries()) {
      const set = Object.fromEntries(secrets.map((s, i) => [`${level}_${i}`, s.value]))
      const forks = level === 'manual' ? {} : { forks: { [`${level}_0`]: n === 0 } }
      const patched = await this.#twice('PATCH', path, { level, set, ...forks })
      expect(patched.status).toBe(200)
      const lost = await this.#twice('PATCH', path, { level, set: [secrets[0]?.value] })
      expect(lost.status).toBe(422)
    }
  }

  /** Passwords of registries are as secret as variables; `lost` has one in a wrong place. */
  async #registries(secrets: Secret[]): Promise<void> {
    const owners = [`/api/projects/${this.host.projectId}`, '/api/organizations/1']
    for (const [n, owner] of owners.entries()) {
      const path = `${owner}/registries/registry.example.com:500${n}`
      const password = secrets[n]?.value
      const put = await this.#twice('PUT', path, { username: 'ada', password })
      expect(put.status).toBe(200)
      const lost = await this.#twice('PUT', path, { username: 'ada', password: [password] })
      expect(lost.status).toBe(422)
      await this.p.cp.call('GET', `${owner}/registries`)
    }
  }

  /** Plants a value where user texts are stored; the same search must find it. */
  async plant(): Promise<string> {
    const { p, host } = this
    const { cp } = p
    const canary = `Canary "ü€" ${randomUUID()}`
    await host.opened({ number: 7, title: canary, head: sha(7) })
    await host.pullRequests()
    await this.#twice('PATCH', '/api/organizations/1', { name: canary })
    const { ctx } = cp.running
    ctx.log.info({ canary }, 'a line of the log')
    await change(ctx, async (c) => emit(c, { organizationId: 1 }, 'project.updated', { canary }))
    let running: string[] = []
    p.executor.script = (a) => {
      a.say(`${canary}\n`)
      running = tracesOf(canary, readFolder(p.agentDir, 'agent'))
      a.succeed()
    }
    const { id } = await cp.environment(host.projectId, 'canary')
    await p.settled((await p.deploy(id)).body.id)
    expect(running.length).toBeGreaterThan(0)
    const email = 'canary@example.com'
    await cp.make('/api/organizations/1/invitations', { email, role: 'viewer' })
    await mailTo(cp, email, 'invitation')
    return canary
  }

  /** With an Idempotency-Key, and once more with the same. */
  async #twice<T>(method: string, path: string, body: unknown): Promise<Answer<T>> {
    const headers = { 'idempotency-key': randomUUID() }
    const first = await this.p.cp.call<T>(method, path, body, headers)
    await this.p.cp.call(method, path, body, headers)
    return first
  }

  /** One that succeeds, one that fails, one that a push started. The executor gets the values. */
  async #deploy(id: number, secrets: Secret[]): Promise<void> {
    const { p } = this
    const given = new Set<string>()
    const found: string[] = []
    let fails = false
    p.executor.script = (a) => {
      for (const v of a.secrets.variables) given.add(Buffer.from(v.value).toString())
      a.checkedOut('a'.repeat(40))
      a.say('installing\nall is well here\n')
      // while it runs, because its files are deleted afterwards
      const paths = readFolder(p.agentDir, 'agent, running')
      found.push(...searched(secrets).flatMap((text) => tracesOf(text, paths)))
      if (fails) a.fail('`make` exited with 2.', 2)
      else a.succeed()
    }
    for (fails of [false, true]) {
      const { body } = await p.deploy(id)
      const settled = await p.settled(body.id)
      expect(settled.status).toBe(fails ? 'failed' : 'succeeded')
      await p.log(body.id)
    }
    fails = false
    const pushed = await this.host.push('main', sha(`${this.#runs}abc`))
    expect(pushed.status).toBe(202)
    for (const task of pushed.body.task_ids) await p.settled(task)
    expect(secrets.every((s) => given.has(s.value))).toBe(true)
    expect(found).toEqual([])
    await p.cp.call('GET', `/api/environments/${id}/diagnostics`)
  }

  /** An invitation, and an alert that begins and ends. */
  async #around(): Promise<void> {
    const { cp } = this.p
    const { ctx } = cp.running
    const before = (await listMails(cp)).length
    const email = `new-${this.#runs}@example.com`
    await cp.make('/api/organizations/1/invitations', { email, role: 'viewer' })
    for (const age of [0.9, 0.1]) {
      const life = ENROLMENT.certificateMs
      const now = ctx.clock.now()
      const dates = { issuedAt: now - life * age, notAfter: now + life * (1 - age) }
      await ctx.db.updateTable('agentCertificates').set(dates).execute()
      await checkAlerts(ctx)
    }
    await until('three mails', async () =>
      (await listMails(cp)).length >= before + 3 ? true : undefined,
    )
  }

  /** Values in wrong places. All of it is refused; the replies kept for idempotency are searched as well. */
  async #hostile(id: number, secrets: Secret[]): Promise<void> {
    const variables = `/api/environments/${id}/variables`
    const environments = `/api/projects/${this.host.projectId}/environments`
    const levels = `/api/projects/${this.host.projectId}/variables`
    const make = (given: unknown) => ({ identifier: 'never', branch: 'main', variables: given })
    for (const [n, { value }] of secrets.entries()) {
      const large = n === 0 ? 'x'.repeat(LARGE) + value : [value] // one request of this size is enough
      const calls: [string, string, unknown][] = [
        ['PATCH', variables, { set: value }],
        ['PATCH', variables, { set: [value] }],
        ['PATCH', variables, { set: { A: [value], B: { c: value } } }],
        ['PATCH', variables, { set: { A: { [value]: value } } }],
        ['PATCH', variables, { set: { '2FA': value, SERVICE_DOMAIN: value } }],
        ['PATCH', variables, { set: { A: value }, unset: ['A'] }],
        ['PATCH', variables, { set: { A: value + 'x'.repeat(65_536) } }],
        ['PATCH', variables, { set: { A: large } }],
        ['PATCH', variables, `{"set": {"A": ${JSON.stringify(value)}`],
        ['PATCH', variables, JSON.stringify(value)],
        ['PUT', variables, { set: { A: value } }],
        ['PATCH', variables, { generate: { A: { length: value } } }],
        ['PATCH', levels, { level: value, set: { A: value } }],
        ['PATCH', levels, { level: 'project', set: { A: 'x' }, forks: { A: value } }],
        ['PATCH', levels, { level: 'manual', set: { A: value }, forks: { A: true } }],
        ['POST', environments, make(value)],
        ['POST', environments, make([value])],
        ['POST', environments, make({ A: { b: value } })],
        ['POST', environments, make({ '2FA': value })],
        ['POST', environments, make({ A: large })],
        ['POST', `/api/environments/${id}/tasks`, { variables: { A: value } }],
        ['POST', '/trpc/environment.deploy', { environment_id: id, variables: { A: value } }],
        ['POST', '/trpc/environment.deploy', { environment_id: value }],
        ['POST', '/trpc/variable.change', { environment_id: id, set: { A: [value] } }],
        ['POST', '/trpc/variable.change', { environment_id: id, set: value, unset: [value, 7] }],
        ['POST', '/trpc/environment.create', { project_id: this.host.projectId, ...make([value]) }],
      ]
      // a value that could be a key counts as one and is shown, as keys are
      if (!KEY.test(value)) {
        calls.push(
          ['PATCH', variables, { set: { [value]: 'x' } }],
          ['PATCH', variables, { set: { [value]: 7 } }],
          ['PATCH', variables, { set: { [value]: 'x' }, unset: [value] }],
          ['PATCH', variables, { unset: [value] }],
          ['PATCH', variables, { generate: { [value]: {} } }],
          ['PATCH', levels, { level: 'project', forks: { [value]: true } }],
          ['PATCH', variables, { [value]: { A: 'x' } }],
          ['POST', environments, make({ [value]: 'x' })],
          ['POST', environments, { ...make({}), [value]: 'x' }],
          ['POST', '/trpc/environment.deploy', { environment_id: id, [value]: 'x' }],
          ['POST', '/trpc/variable.change', { environment_id: id, set: { [value]: 7 } }],
        )
      }
      for (const [method, path, body] of calls) {
        const { status } = await this.#twice(method, path, body)
        expect(status, `${method} ${path}`).toBeGreaterThanOrEqual(400)
        expect(status, `${method} ${path}`).toBeLessThan(500)
      }
    }
  }

  /** Everything that a user could read afterwards. */
  async #look(id: number): Promise<void> {
    const project = `/api/projects/${this.host.projectId}`
    const input = (of: object) => `?input=${encodeURIComponent(JSON.stringify(of))}`
    const deliveries = await this.host.deliveries()
    for (const path of [
      `/api/environments/${id}`,
      `/api/environments/${id}/variables`,
      `/api/environments/${id}/tasks?type=all`,
      `/api/environments/${id}/diagnostics`,
      project,
      `${project}/environments`,
      `${project}/variables`,
      `${project}/variables/history`,
      `/api/environments/${id}/variables/history`,
      `/trpc/variable.levels${input({ project_id: this.host.projectId })}`,
      `/trpc/variable.projectHistory${input({ project_id: this.host.projectId })}`,
      `/trpc/variable.history${input({ environment_id: id })}`,
      `${project}/tasks`,
      `${project}/pull_requests`,
      `/api/deliveries/${deliveries[0]?.id}`,
      '/api/organizations/1/audit?per_page=100',
      '/api/admin/audit?per_page=100',
      '/api/organizations/1/invitations',
      `/trpc/environment.get${input({ environment_id: id })}`,
      `/trpc/variable.list${input({ environment_id: id })}`,
      `/trpc/environment.diagnostics${input({ environment_id: id })}`,
      `/trpc/audit.list${input({ organization_id: 1 })}`,
      `/trpc/environment.list${input({ project_id: this.host.projectId })}`,
      `/trpc/task.list${input({ environment_id: id })}`,
    ])
      expect((await this.p.cp.call('GET', path)).status, path).toBe(200)
  }
}

const searched = (secrets: Secret[]): string[] => [
  ...new Set(secrets.flatMap((s) => [s.value, ...s.parts])),
]

describe.each(ENGINES)('values on %s', (engine) => {
  let secrecy: Secrecy | undefined
  afterEach(() => secrecy?.p.close())

  test('No endpoint ever returns the value of a custom variable, and nothing keeps it in clear', async () => {
    secrecy = await Secrecy.open(engine)
    const it = secrecy
    const all: string[] = []
    await fc.assert(
      fc.asyncProperty(fc.array(secret, { minLength: 2, maxLength: 4 }), async (secrets) => {
        all.push(...searched(secrets))
        await it.live(secrets)
        expect(await it.find(searched(secrets))).toEqual([])
      }),
      { numRuns: engine === 'sqlite' ? 4 : 1, endOnFailure: true },
    )
    expect(await it.find(all)).toEqual([])

    expect(await it.find([await it.plant()])).toEqual(
      expect.arrayContaining([
        'an answer: JSON',
        'a log line: JSON',
        'a mail: raw',
        'table pull_requests: raw',
        'table audit: JSON',
        'table events: JSON',
        'table deliveries: JSON',
        'table idempotency_keys: JSON',
        expect.stringMatching(/^data\/logs\/.*: raw$/),
        ...(engine === 'sqlite' ? [expect.stringMatching(/^data\/berth\.db.*: raw$/)] : []),
      ]),
    )
  }, 240_000)
})

test('every form is found wherever it begins', () => {
  fc.assert(
    fc.property(secret, fc.string(), fc.string(), ({ value }, before, after) => {
      const text = Buffer.from(before + value + after)
      const written: [string, string][] = [
        ['base64', text.toString('base64')],
        ['base64url', text.toString('base64url')],
        ['hexadecimal', text.toString('hex')],
        ['JSON', JSON.stringify({ text: before + value + after })],
        ['percent-encoded', encodeURIComponent((before + value + after).toWellFormed())],
      ]
      for (const [form, bytes] of written) {
        const paths = new Map([['here', Buffer.from(bytes)]])
        expect(tracesOf(value, paths).some((trace) => trace.includes(form))).toBe(true)
      }
    }),
    { numRuns: 200 },
  )
  expect([...formsOf('12345678').values()].every((form) => form.length >= 8)).toBe(true)
})
