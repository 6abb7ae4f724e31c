// One row a method of the agents' door, one a message of the control stream: what an agent of another organization tries
// with everything it could know of a victim. A method or a message without a row fails the matrix.
import { randomUUID, X509Certificate } from 'node:crypto'
import { sshHostAlias } from '@berth/shared'
import {
  type AgentMessage,
  AgentService,
  AttemptState,
  ContainerLogFrameSchema,
  EventSchema,
  FileFrameSchema,
  GoodbyeReason,
} from '@berth/shared/wire'
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { type Client, type Metadata, status } from '@grpc/grpc-js'
import { expect } from 'vitest'
import { buildRequest, tlv } from '../../control-plane/src/ca/requests.testing.ts'
import { until } from '../lab.ts'
import type { WireAgent, WireSession } from '../wire-agent.ts'
import { publicKey } from './rows-servers.ts'
import type { Organization } from './world.ts'

/** An agent at work: its attempt runs, its log has a line. */
export interface Victim {
  o: Organization
  agent: WireAgent
  session: WireSession
  sessionId: string
  attemptId: string
  fence: bigint
}

export interface Raid {
  /** An agent of another organization, on a server of its own, that has nothing to do. */
  rogue: WireAgent
  victim: Victim
  installationId: string
}

type MessageCase = NonNullable<AgentMessage['msg']['case']>
type Send = (session: WireSession, raid: Raid) => void

/** Everything was taken when a heartbeat sent behind it is answered. */
export async function settle(session: WireSession): Promise<void> {
  session.send({ case: 'heartbeat', value: { n: 77n } })
  await session.next('heartbeatAck')
}

/** Messages of the control stream besides Hello and events, which have rows of their own below. */
export const MESSAGE_ROWS: Record<Exclude<MessageCase, 'hello' | 'events'>, Send> = {
  heartbeat: (s, { victim }) =>
    s.send({ case: 'heartbeat', value: { n: 1n, liveAttemptIds: [victim.attemptId] } }),
  applied: (s) => s.send({ case: 'applied', value: { version: 1_000n } }),
  response: (s, { victim }) => s.send({ case: 'response', value: { requestId: victim.sessionId } }),
  observed: (s, { victim }) => {
    const environment = { environmentId: victim.o.environment, commitSha: 'b'.repeat(40) }
    const environments = [{ ...environment, fence: victim.fence, degradedReason: 'hostile' }]
    s.send({ case: 'observed', value: { complete: true, last: true, environments } })
  },
  trustApplied: (s) => s.send({ case: 'trustApplied', value: { generation: 99n } }),
  draining: (s) => s.send({ case: 'draining', value: {} }),
  goodbye: (s) => s.send({ case: 'goodbye', value: { reason: GoodbyeReason.AGENT_SHUTDOWN } }),
}

/** Hello with the victim's attempt, fences, session, journal or instance in it. */
async function hello({ rogue, victim }: Raid): Promise<void> {
  const { attemptId, fence } = victim
  const fences = [{ environmentId: victim.o.environment, fence: 99n }]
  for (const state of [AttemptState.RUNNING, AttemptState.SUCCEEDED]) {
    const attempts = [{ attemptId, fence, state }]
    const session = rogue.connect({ attempts, fences, previousSessionId: victim.sessionId })
    const given = await session.assignments()
    await settle(session) // a FORGOTTEN was confirmed: it must not release the victim's
    expect(given.map((a) => a.attemptId)).toEqual([attemptId])
    expect([given[0]?.spec, given[0]?.secrets]).toEqual([undefined, undefined])
    session.cut()
  }
  const { journalId, instanceId } = victim.agent
  for (const over of [{ journalId }, { instanceId }, { journalId, instanceId }]) {
    const session = rogue.connect(over)
    expect(await session.assignments()).toEqual([])
    session.cut()
  }
}

type Body = NonNullable<MessageInitShape<typeof EventSchema>['body']>

/** Every kind of event, taken from the schema, about the victim's attempt; then about its other things. */
async function events({ rogue, victim }: Raid): Promise<void> {
  const body = EventSchema.oneofs.find((one) => one.localName === 'body')
  const kinds = body?.fields ?? []
  expect(kinds.length).toBeGreaterThan(10)
  for (const { localName, message } of kinds) {
    const value = message ? create(message) : undefined
    const state = { state: AttemptState.SUCCEEDED, message: 'hostile' }
    const said = { case: localName, value: Object.assign(value ?? {}, state) } as unknown as Body
    const session = await rogue.active()
    session.event({ attemptId: victim.attemptId, fence: victim.fence, body: said })
    expect((await session.next('goodbye')).reason, localName).toBe(GoodbyeReason.PROTOCOL_ERROR)
  }
  const session = await rogue.active()
  const { environment: environmentId } = victim.o
  session.event({ body: { case: 'sshSession', value: { environmentId, verb: 'logs' } } })
  const artifacts = [{ artifactId: victim.attemptId, relativePath: '../x' }]
  session.event({ body: { case: 'artifacts', value: { artifacts } } })
  session.event({ body: { case: 'services', value: { services: [{ name: 'web', port: 1 }] } } })
  await settle(session)
  session.cut()
}

async function connect(raid: Raid): Promise<void> {
  await hello(raid)
  await events(raid)
  for (const [name, send] of Object.entries(MESSAGE_ROWS)) {
    const session = await raid.rogue.active()
    send(session, raid)
    if (name === 'goodbye') await until('the end', () => session.ended || undefined)
    else await settle(session)
    session.cut()
  }
}

async function streamLogs({ rogue, victim }: Raid): Promise<void> {
  const { attemptId, fence } = victim
  const own = await rogue.active()
  const logs = rogue.logs((await own.next('welcome')).sessionId, [attemptId, randomUUID()])
  const stops = [await logs.next('stop'), await logs.next('stop')]
  expect(stops[0]?.attemptId).toBe(attemptId)
  expect(stops[0]?.message).toBe(stops[1]?.message) // as one that does not exist
  expect((await logs.next('resume')).from).toEqual([])
  for (const first of [1, 2]) {
    logs.send(attemptId, fence, first, ['hostile\n'])
    expect((await logs.next('stop')).attemptId).toBe(attemptId)
  }
  own.cut()
  const again = await rogue.active()
  rogue.logs(victim.sessionId, [attemptId])
  expect((await again.next('goodbye')).reason).toBe(GoodbyeReason.PROTOCOL_ERROR)
  // without a session of its own: the victim's does not serve
  await until('the end', () => again.ended || undefined)
  expect(await knock(rogue.client, 'streamLogs')).toMatchObject({
    code: status.FAILED_PRECONDITION,
  })
}

/** A request that asks for the victim's name; what is issued names the caller, or nothing is. */
async function renewCertificate({ rogue, victim, installationId }: Raid): Promise<void> {
  const name = `spiffe://${installationId}/agent/${victim.agent.identity.agentId}`
  const oid = (text: string) => Buffer.from(text, 'hex')
  const names = tlv(0x04, tlv(0x30, tlv(0x86, Buffer.from(name))))
  const extension = tlv(0x30, tlv(0x30, oid('0603551d11'), names))
  const attributes = tlv(0xa0, tlv(0x30, oid('06092a864886f70d01090e'), tlv(0x31, extension)))
  const ask = (csrDer: Buffer) =>
    new Promise<string>((resolve) => {
      const $typeName = 'berth.agent.v1.RenewCertificateRequest' as const
      rogue.client.renewCertificate({ $typeName, csrDer, generation: 9n }, {}, (error, answer) =>
        resolve(
          error ? `refused ${error.code}` : Buffer.from(answer?.certificatePem ?? []).toString(),
        ),
      )
    })
  for (const csr of [buildRequest({ attributes }), buildRequest()]) {
    const given = await ask(csr)
    if (given.startsWith('refused')) continue
    const { subjectAltName, subject } = new X509Certificate(given)
    expect(subjectAltName).toContain(rogue.identity.agentId)
    expect(`${subjectAltName} ${subject}`).not.toContain(victim.agent.identity.agentId)
  }
  expect(await ask(buildRequest())).toContain('BEGIN CERTIFICATE') // it is not refused for another reason
}

async function signSshHostKey({ rogue, victim }: Raid): Promise<void> {
  const alias = sshHostAlias(victim.o.server)
  const line = `${publicKey()} ${alias}`.replace(' test ', ' ')
  const given = await new Promise<string>((resolve) => {
    const $typeName = 'berth.agent.v1.SignSshHostKeyRequest' as const
    rogue.client.signSshHostKey({ $typeName, publicKey: line }, {}, (error, answer) =>
      resolve(error ? `refused: ${error.details}` : (answer?.certificate ?? '')),
    )
  })
  const blob = Buffer.from(given.split(' ')[1] ?? '', 'base64').toString('latin1')
  expect(blob, given).toContain(sshHostAlias(rogue.identity.serverId))
  expect(blob).not.toContain(alias)
}

/** With the victim's attempt, in every shape; an unknown attempt gets the same words. */
async function claimHosts({ rogue, victim }: Raid): Promise<void> {
  const own = await rogue.active()
  const ask = (attemptId: string, fence: bigint): Promise<string> =>
    new Promise((resolve) => {
      const $typeName = 'berth.agent.v1.ClaimHostsRequest' as const
      const hosts = ['hostile.example.net']
      rogue.client.claimHosts({ $typeName, attemptId, fence, hosts }, {}, (error) =>
        resolve(error ? `${error.code} ${error.details}` : 'granted'),
      )
    })
  const unknown = await ask(randomUUID(), 1n)
  expect(unknown).toMatch(/^7 /)
  for (const fence of [victim.fence, 0n, 99n]) {
    expect(await ask(victim.attemptId, fence)).toBe(unknown)
  }
  own.cut()
}

/** Bytes that nobody expects of it, under every name it could know; the same words for one that nobody has. */
const sendUnasked =
  (
    method: 'sendFile' | 'sendContainerLogs',
    schema: typeof FileFrameSchema | typeof ContainerLogFrameSchema,
  ) =>
  async ({ rogue, victim }: Raid): Promise<void> => {
    const own = await rogue.active()
    for (const transferId of [victim.sessionId, victim.attemptId, randomUUID(), '']) {
      const frame = { case: 'header' as const, value: { transferId } }
      const bytes = Buffer.from(toBinary(schema, create(schema, { frame })))
      const refused = { code: status.PERMISSION_DENIED, said: 0 }
      expect(await knock(rogue.client, method, undefined, bytes)).toMatchObject(refused)
    }
    own.cut()
  }

/** Not offered yet: whoever offers it writes its row. */
const notOffered =
  (method: keyof typeof AgentService.method) =>
  async ({ rogue }: Raid): Promise<void> => {
    expect(await knock(rogue.client, method)).toMatchObject({ code: status.UNIMPLEMENTED, said: 0 })
  }

export const AGENT_ROWS: Record<string, (raid: Raid) => Promise<void>> = {
  connect,
  streamLogs,
  sendFile: sendUnasked('sendFile', FileFrameSchema),
  sendContainerLogs: sendUnasked('sendContainerLogs', ContainerLogFrameSchema),
  claimHosts,
  renewCertificate,
  signSshHostKey,
  fetchRelease: notOffered('fetchRelease'),
}

const KNOCK_MS = 10_000

/** An empty request to any method, whatever its kind: with what it ended, and how much was said before. */
export function knock(
  client: Client,
  method: keyof typeof AgentService.method,
  metadata?: Metadata,
  message: Buffer = Buffer.alloc(0),
): Promise<{ code: number; said: number }> {
  const same = (bytes: Buffer): Buffer => bytes
  const path = `/${AgentService.typeName}/${AgentService.method[method].name}`
  const options = { deadline: Date.now() + KNOCK_MS }
  const call = metadata
    ? client.makeBidiStreamRequest(path, same, same, metadata, options)
    : client.makeBidiStreamRequest(path, same, same, options)
  let said = 0
  call.on('data', () => {
    said += 1
  })
  call.on('error', () => {}) // its status tells
  call.write(message)
  call.end()
  return new Promise((resolve) => call.on('status', ({ code }) => resolve({ code, said })))
}
