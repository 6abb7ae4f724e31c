// The whole daemon in this process, over real mutual TLS, against a small peer that speaks the real protocol. Runners
// are real processes. Cuts, kills and restarts must lose nothing and repeat nothing.
import { randomBytes } from 'node:crypto'
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LOGS } from '@berth/shared'
import {
  type Assignment,
  AssignmentSchema,
  AttemptState,
  Desired,
  GoodbyeReason,
  Recipe,
  RequestErrorCode,
} from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type AgentOptions, type RunningAgent, startAgent } from './agent.ts'
import { systemClock } from './clock.ts'
import { readClaim } from './journal/attempt-files.ts'
import { type Authority, createAuthority } from './link/identity/authority.testing.ts'
import { createKeyRequest } from './link/identity/certificate.ts'
import { readIdentity, writeIdentity } from './link/identity/identity.ts'
import { Peer, type PeerOptions } from './link/peer.testing.ts'
import { isSameProcess } from './machine/process/processes.ts'
import { type AgentSettings, attemptDir, readSettings } from './settings.ts'

let authority: Authority
let settings: AgentSettings
let peers: Peer[]
let agents: RunningAgent[]
beforeAll(async () => {
  authority = await createAuthority()
})
beforeEach(() => {
  settings = readSettings({
    BERTH_STATE_DIR: mkdtempSync(join(tmpdir(), 'berth-agent-')),
    DOCKER_HOST: 'unix:///nonexistent/docker.sock', // never the machine's own
  })
  peers = []
  agents = []
})
afterEach(() => {
  for (const agent of agents) agent.kill()
  for (const peer of peers) peer.stop()
  const attempts = join(settings.stateDir, 'attempts')
  for (const name of existsSync(attempts) ? readdirSync(attempts) : []) {
    const claim = readClaim(join(attempts, name))
    if (claim?.by === 'runner' && isSameProcess(claim.pid, claim.startTicks)) {
      process.kill(claim.pid, 'SIGKILL')
    }
  }
  rmSync(settings.stateDir, { recursive: true, force: true })
})

async function startPeer(options: PeerOptions = {}, by: Authority = authority, name?: string) {
  const peer = new Peer(by, options)
  peers.push(peer)
  await peer.listen(0, name)
  const { key, csrPem } = await createKeyRequest()
  writeIdentity(settings, {
    agentId: 'agent-1',
    serverId: 7,
    baseUrl: 'http://127.0.0.1:1/',
    endpoints: [`127.0.0.1:${peer.port}`],
    generation: 1,
    renewAt: '',
    sshUserCaKeys: [],
    key,
    certificate: await authority.issueAgent(csrPem),
    ca: [authority.pem],
  })
  return peer
}
/** Dials at the beginning of each back-off window. */
const clock = { ...systemClock, random: () => 0 }
const program = [process.execPath, join(import.meta.dirname, 'attempts/tiny-runner.testing.ts')]
async function start(over: AgentOptions = {}): Promise<RunningAgent> {
  const agent = await startAgent(settings, { clock, program, ...over })
  agents.push(agent)
  return agent
}
const shorten = (_key: string, v: unknown): unknown => (typeof v === 'bigint' ? `${v}` : v)
async function until(what: string, holds: () => unknown): Promise<void> {
  const deadline = Date.now() + 30_000
  while (!holds()) {
    if (Date.now() > deadline) {
      const reported = peers
        .flatMap((p) => p.events)
        .map(({ body }) => JSON.stringify(body, shorten))
      throw new Error(`never happened: ${what}; told: ${reported.join(' ')}`)
    }
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

// unique to this run: processes are found by their attempt, and several tests may run concurrently
const run = randomBytes(4).toString('hex')
const id = (n: number): string => `${run}-0000-7000-8000-${String(n).padStart(12, '0')}`
const assign = (n: number, behaviour: string, desired: Desired = Desired.RUNNING): Assignment =>
  create(AssignmentSchema, {
    attemptId: id(n),
    environmentId: n,
    fence: BigInt(n),
    desired,
    ...(desired === Desired.RUNNING
      ? {
          secrets: {},
          spec: {
            kind: { case: 'deploy', value: {} },
            recipe: Recipe.MANUAL,
            environment: { branch: behaviour },
          },
        }
      : {}),
  })
const states = (peer: Peer, n: number): number[] =>
  peer.events
    .filter((e) => e.attemptId === id(n))
    .flatMap((e) => (e.body.case === 'attempt' ? [e.body.value.state] : []))
const isDone = (peer: Peer, n: number): boolean => (states(peer, n).at(-1) ?? 0) >= 100
const SUCCESS = [20, 30, 40, 100]

test('Hello, complete set, events, logs: a deployment from assignment to forgetting', async () => {
  const peer = await startPeer({ heartbeatMs: 100 })
  const agent = await start()
  await agent.reached('active')
  const [hello] = peer.hellos
  expect(hello).toMatchObject({ protocolMin: 1, protocolMax: 1, attempts: [], lastEventSeq: 0n })
  expect(hello?.host?.parts.map((p) => p.name)).toContain('git')
  peer.assign(assign(1, 'succeed'))
  await until('it succeeded', () => isDone(peer, 1))
  await until('its log', () => peer.logs.get(id(1))?.length === 1)
  expect(states(peer, 1)).toEqual(SUCCESS)
  expect(peer.logs.get(id(1))).toEqual([{ seq: 1, text: 'hello\n' }])
  peer.assign(assign(1, '', Desired.FORGOTTEN))
  await until('it was forgotten', () => !existsSync(attemptDir(settings, id(1))))
  await until('a heartbeat', () => peer.heartbeats.length > 1)
  await until('what runs', () => peer.heard.some((m) => m.msg.case === 'observed'))
  const order = peer.heard.map((m) => m.msg.case)
  expect(order.slice(0, 2)).toEqual(['hello', 'applied'])
  expect(order.indexOf('observed')).toBeGreaterThan(order.indexOf('applied'))
})

test('the control plane is killed in the middle and comes back: nothing lost, nothing twice', async () => {
  const peer = await startPeer()
  const agent = await start()
  await agent.reached('active')
  peer.assign(assign(1, 'loud'))
  await until('it talks', () => (peer.logs.get(id(1))?.length ?? 0) > 100)
  const { port } = peer
  peer.stop()
  await agent.reached('backoff')
  writeFileSync(join(attemptDir(settings, id(1)), 'finish'), '')
  await peer.listen(port)
  await until('it succeeded', () => isDone(peer, 1))
  await until('the whole log', () => peer.logs.get(id(1))?.length === 5_001)
  expect(states(peer, 1)).toEqual(SUCCESS)
  const lines = peer.logs.get(id(1)) ?? []
  expect(lines.every((line, i) => line.seq === i + 1)).toBe(true)
  expect(lines[5_000]?.text).toMatch(/^line 4999 /)
  expect(peer.hellos.at(-1)?.attempts[0]).toMatchObject({ attemptId: id(1) })
  expect(peer.hellos.at(-1)?.previousSessionId).toBe('session-1')
})

test('the daemon dies and another one takes over: same journal, new instance, one start', async () => {
  const peer = await startPeer()
  const first = await start()
  await first.reached('active')
  peer.assign(assign(1, 'wait'))
  await until('it runs', () => states(peer, 1).includes(AttemptState.RUNNING))
  const claim = readFileSync(join(attemptDir(settings, id(1)), 'claim.json'), 'utf8')
  first.kill()
  const second = await start()
  await second.reached('active')
  peer.assign(assign(1, '', Desired.STOPPED))
  await until('it was canceled', () => isDone(peer, 1))
  expect(states(peer, 1)).toEqual([20, 30, 40, 50, 120])
  expect(readFileSync(join(attemptDir(settings, id(1)), 'claim.json'), 'utf8')).toBe(claim)
  const [one, two] = peer.hellos
  expect(one?.journalId).toBe(two?.journalId)
  expect(one?.instanceId).not.toBe(two?.instanceId)
})

test('a second daemon on the state directory does not start', async () => {
  await startPeer()
  await start()
  await expect(start()).rejects.toThrow(/Another berth-agent holds/)
})

test.each([
  ['another authority', async () => createAuthority('Stranger'), undefined],
  ['the right authority for another name', async () => authority, 'somebody-else'],
])('a peer with a certificate of %s hears nothing', async (_name, by, name) => {
  const peer = await startPeer({}, await by(), name)
  const agent = await start()
  await agent.reached('backoff')
  expect(peer.hellos).toEqual([])
})

test.each([
  ['REVOKED', GoodbyeReason.REVOKED],
  ['DUPLICATE_IDENTITY', GoodbyeReason.DUPLICATE_IDENTITY],
])('goodbye %s stops the daemon for good, with exit code 78', async (_name, reason) => {
  const firstAnswer = { case: 'goodbye' as const, value: { reason } }
  const peer = await startPeer({ firstAnswer })
  const fatal = Promise.withResolvers<number>()
  const agent = await start({ onFatal: fatal.resolve })
  expect(await fatal.promise).toBe(78)
  expect([agent.phase, peer.hellos.length]).toEqual(['stopped', 1])
})

test('goodbye with a time: back after it', async () => {
  const reconnectAfter = durationFromMs(50)
  const value = { reason: GoodbyeReason.SERVER_DRAINING, reconnectAfter }
  const peer = await startPeer({ firstAnswer: { case: 'goodbye', value } })
  const agent = await start()
  await agent.reached('active')
  expect(peer.hellos).toHaveLength(2)
})

test('a change on the wrong base version: goodbye, and a complete set again', async () => {
  const peer = await startPeer()
  const agent = await start()
  await agent.reached('active')
  peer.send({ case: 'assignments', value: { baseVersion: 1n, version: 2n } })
  await until('a second session', () => peer.hellos.length === 2)
  await until('it said why', () =>
    peer.heard.some(
      (m) => m.msg.case === 'goodbye' && m.msg.value.reason === GoodbyeReason.PROTOCOL_ERROR,
    ),
  )
  await agent.reached('active')
})

test('the end of the log stream ends the session', async () => {
  const peer = await startPeer()
  const agent = await start()
  await agent.reached('active')
  await until('the log stream', () => peer.logStream)
  peer.logStream?.end()
  await until('a second session', () => peer.hellos.length === 2)
})

test('silence of the control plane ends the session', async () => {
  const peer = await startPeer({ heartbeatMs: 50, timeoutMs: 400 })
  const agent = await start()
  await agent.reached('active')
  peer.send = () => {} // receives without answering; the connection stays open
  await agent.reached('backoff')
})

test('the log budget holds while nothing is acknowledged, and everything arrives after', async () => {
  const peer = await startPeer({ holdLogAcks: true })
  const agent = await start()
  await agent.reached('active')
  peer.assign(assign(1, 'loud'))
  await until('the budget is used', () => peer.logBytesUnderWay > LOGS.unackedBytesPerAttempt / 2)
  writeFileSync(join(attemptDir(settings, id(1)), 'finish'), '')
  await until('it ended', () => isDone(peer, 1))
  expect(peer.logBytesMost).toBeLessThanOrEqual(LOGS.unackedBytesPerAttempt)
  expect(peer.logs.get(id(1))?.length).toBeLessThan(5_001)
  peer.options.holdLogAcks = false
  peer.ackLogs()
  await until('the whole log', () => peer.logs.get(id(1))?.length === 5_001)
})

test('a watched log follows; a resume in the middle goes back; a stop is silence', async () => {
  const peer = await startPeer()
  const agent = await start()
  await agent.reached('active')
  peer.sendLog({ case: 'pace', value: { flushInterval: durationFromMs(200) } })
  peer.assign(assign(1, 'wait'))
  await until('its line', () => peer.logs.get(id(1))?.length === 1)
  peer.logs.set(id(1), [])
  peer.sendLog({ case: 'resume', value: { from: [{ attemptId: id(1), ackedSeq: 0n }] } })
  await until('its line again', () => peer.logs.get(id(1))?.length === 1)
})

test('the certificate is renewed when it is due, and the session comes back with it', async () => {
  const peer = await startPeer({ heartbeatMs: 50, renewAt: new Date(Date.now() - 60_000) })
  await start()
  await until('a second session', () => peer.hellos.length >= 2)
  expect(readlinkSync(join(settings.stateDir, 'identity/current'))).not.toBe('gen-1')
  expect(readIdentity(settings).generation).toBeGreaterThan(1)
})

test('SIGTERM: draining, flush, goodbye; the runner goes on', async () => {
  const peer = await startPeer()
  const agent = await start()
  await agent.reached('active')
  peer.assign(assign(1, 'wait'))
  await until('it runs', () => states(peer, 1).includes(AttemptState.RUNNING))
  await agent.close()
  const said = peer.heard.map((m) => m.msg)
  expect(said.some((m) => m.case === 'draining')).toBe(true)
  const last = said.at(-1)
  expect(last?.case === 'goodbye' && last.value.reason).toBe(GoodbyeReason.AGENT_SHUTDOWN)
  const claim = readClaim(attemptDir(settings, id(1)))
  expect(isSameProcess(claim?.pid ?? 0, claim?.startTicks ?? '')).toBe(true)
  agents.length = 0
})

test('questions: facts are given, unknown ones refused; trust bundles are installed', async () => {
  const peer = await startPeer()
  const agent = await start()
  await agent.reached('active')
  peer.send({
    case: 'request',
    value: { requestId: 'a', body: { case: 'collectFacts', value: {} } },
  })
  peer.send({
    case: 'request',
    value: { requestId: 'b', body: { case: 'listContainers', value: {} } },
  })
  const tlsCaPem = [Buffer.from(authority.pem)]
  peer.send({ case: 'trust', value: { generation: 3n, tlsCaPem } })
  const answer = (requestId: string) =>
    peer.heard
      .map((m) => m.msg)
      .find((m) => m.case === 'response' && m.value.requestId === requestId)?.value
  await until('both answers', () => answer('a') && answer('b'))
  expect(answer('a')).toMatchObject({ body: { case: 'facts' } })
  expect(answer('b')).toMatchObject({
    body: { case: 'error', value: { code: RequestErrorCode.UNSUPPORTED } },
  })
  await until('trust applied', () => peer.heard.some((m) => m.msg.case === 'trustApplied'))
  expect(readIdentity(settings).trustGeneration).toBe(3)
})

test('events that were never acknowledged go up again, and are deleted once they are', async () => {
  const peer = await startPeer({ holdAcks: true })
  const first = await start()
  await first.reached('active')
  peer.assign(assign(1, 'succeed'))
  await until('it succeeded', () => isDone(peer, 1))
  first.kill()
  peer.options.holdAcks = false
  const second = await start()
  await second.reached('active')
  const sent = (): number =>
    peer.heard
      .filter((m) => m.msg.case === 'events')
      .flatMap((m) => (m.msg.case === 'events' ? m.msg.value.events : [])).length
  await until('they came twice', () => sent() >= 2 * peer.events.length)
  expect(states(peer, 1)).toEqual(SUCCESS)
  await second.close()
  agents.length = 0
  const third = await start()
  await third.reached('active')
  const { firstEventSeq, lastEventSeq } = peer.hellos.at(-1) ?? {}
  expect(firstEventSeq).toBe((lastEventSeq ?? 0n) + 1n)
})
