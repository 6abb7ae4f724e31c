import { X509Certificate } from 'node:crypto'
import { connect as connectHttp2 } from 'node:http2'
import { type AddressInfo, connect as connectTcp, createServer, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { connect as connectTls, type SecureVersion, type TLSSocket } from 'node:tls'
import { SESSION } from '@berth/shared'
import {
  AgentService,
  createClient,
  LogDownSchema,
  openRawStream,
  RenewCertificateRequestSchema,
  RenewCertificateResponseSchema,
} from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { credentials, Server, ServerCredentials, type ServiceError, status } from '@grpc/grpc-js'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  type Authority,
  CONTROL_PLANE_NAME,
  createAuthority,
  issueProbeCertificate,
  issueServerCertificate,
  type KeyPair,
  loadAuthority,
} from '../../keys/authority.ts'
import { newAgent } from '../../keys/requests.testing.ts'
import { ENROLMENT } from '../../limits/keys.ts'
import { checkWindows } from '../grpc/http2-windows.ts'
import type { Listener } from '../grpc/listener.ts'
import { type AgentHandlers, agentIdentity, openListener } from './listener.ts'

const installationId = 'installation-1'
const now = () => new Date()
let authority: Authority
let foreign: Authority
let own: KeyPair
let agent: KeyPair
let listener: Listener
let lines: { kind?: string; address?: string; message: string }[] = []
const log = {
  info: () => {},
  warn: (fields: object, message: string) => void lines.push({ ...fields, message }),
}

// renewCertificate answers with the caller's identity; streams stay open; logs are echoed as their length
const refuse = (): never => {
  throw Object.assign(new Error('not in this test'), { code: status.UNIMPLEMENTED })
}
const handlers: AgentHandlers = {
  renewCertificate: (call, done) => {
    const identity = agentIdentity(call, installationId)
    if (!identity) return done({ code: status.PERMISSION_DENIED, details: 'not an agent' })
    const certificatePem = Buffer.from(JSON.stringify(identity))
    done(null, create(RenewCertificateResponseSchema, { certificatePem }))
  },
  streamLogs: (call) => {
    call.on('data', (bytes: Buffer) => {
      const ack = { attemptId: `${Buffer.isBuffer(bytes)}`, ackedSeq: BigInt(bytes.length) }
      call.write(create(LogDownSchema, { msg: { case: 'ack', value: ack } }))
    })
    call.on('end', () => call.end())
    call.on('error', () => {})
  },
  connect: (call) => call.on('error', () => {}),
  sendFile: refuse,
  sendContainerLogs: refuse,
  claimHosts: refuse,
  signSshHostKey: refuse,
  fetchRelease: refuse,
}

beforeAll(async () => {
  authority = await loadAuthority(await createAuthority(now()))
  foreign = await loadAuthority(await createAuthority(now()))
  own = await issueServerCertificate(authority, { names: ['127.0.0.1'], now: now() })
  agent = await newAgent(authority, { installationId, agentId: 'agent-7' })
})
beforeEach(async () => {
  lines = []
  listener = await openTestListener()
})
afterEach(() => listener.forceClose())

const openTestListener = (port = 0, server = own) =>
  openListener({ host: '127.0.0.1', port, authority, server, handlers, log })

function newClient(pair: KeyPair | undefined, port = listener.port) {
  const pems = pair && [Buffer.from(pair.keyPem), Buffer.from(pair.certificatePem)]
  const tls = credentials.createSsl(Buffer.from(authority.certificatePem), pems?.[0], pems?.[1])
  const byName = { 'grpc.ssl_target_name_override': CONTROL_PLANE_NAME }
  const apart = { 'grpc.use_local_subchannel_pool': 1 }
  return createClient(AgentService, `127.0.0.1:${port}`, tls, { ...byName, ...apart })
}
/** Makes one call; returns the identity that the listener sees, or the error. */
async function callAs(pair: KeyPair | undefined, port = listener.port): Promise<string> {
  const client = newClient(pair, port)
  const request = create(RenewCertificateRequestSchema)
  try {
    return await new Promise((resolve, reject) => {
      const deadline = Date.now() + 30_000
      client.renewCertificate(request, { deadline }, (error, answer) =>
        error ? reject(error) : resolve(Buffer.from(answer?.certificatePem ?? []).toString()),
      )
    })
  } finally {
    client.close()
  }
}
const refusal = (pair?: KeyPair) =>
  callAs(pair).then(
    () => expect.unreachable(),
    (e: ServiceError) => e,
  )

function openTls(
  pair: KeyPair,
  more: { maxVersion?: SecureVersion; session?: Buffer; socket?: Duplex } = {},
  port = listener.port,
) {
  const { certificatePem: cert, keyPem: key } = pair
  const ca = authority.certificatePem
  const ALPNProtocols = ['h2']
  return connectTls({
    host: '127.0.0.1',
    port,
    cert,
    key,
    ca,
    ALPNProtocols,
    ...more,
  })
}
const ended = (socket: Socket) =>
  new Promise<void>((resolve) => {
    socket.on('error', () => {})
    socket.on('close', () => resolve())
    socket.resume()
  })
async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    if (await holds()) return
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  expect.unreachable('it never came true')
}

describe('who may connect', () => {
  test('an agent with a certificate of ours, known by that certificate alone', async () => {
    const read = new X509Certificate(agent.certificatePem)
    const identity = JSON.parse(await callAs(agent))
    expect(identity).toEqual({
      agentId: 'agent-7',
      fingerprint: read.fingerprint256.replaceAll(':', '').toLowerCase(),
      issuedAt: new Date(read.validFromDate.getTime() + ENROLMENT.backdateMs).toISOString(),
      notAfter: read.validToDate.toISOString(),
    })
    expect(JSON.parse(await callAs(agent))).toEqual(identity) // the second call uses the cache
    const other = await newAgent(authority, { installationId, agentId: 'agent-8' })
    expect(JSON.parse(await callAs(other)).agentId).toBe('agent-8')
    expect(lines).toEqual([])
  })

  test('one certificate is an agent of its own installation alone', () => {
    const { raw } = new X509Certificate(agent.certificatePem)
    const call = { getAuthContext: () => ({ sslPeerCertificate: { raw } }) }
    expect(agentIdentity(call, 'another')).toBeUndefined()
    expect(agentIdentity(call, installationId)?.agentId).toBe('agent-7')
    expect(agentIdentity({ getAuthContext: () => null }, installationId)).toBeUndefined()
    expect(agentIdentity({ getAuthContext: () => ({}) }, installationId)).toBeUndefined()
  })

  test('nobody without a certificate', async () => {
    expect(await refusal()).toMatchObject({ code: status.UNAVAILABLE })
    expect(lines).toMatchObject([{ kind: 'certificate_missing', address: '127.0.0.1' }])
  })

  test('nobody with a certificate of another authority', async () => {
    const unknown = await newAgent(foreign, { installationId, agentId: 'agent-7' })
    expect(await refusal(unknown)).toMatchObject({ code: status.UNAVAILABLE })
    expect(lines).toMatchObject([{ kind: 'unknown_authority', address: '127.0.0.1' }])
  })

  test("nobody with the listener's own certificate", async () => {
    expect(await refusal(own)).toMatchObject({ code: status.UNAVAILABLE })
    expect(lines).toMatchObject([{ kind: 'wrong_purpose', address: '127.0.0.1' }])
  })

  test('nobody with an expired certificate', async () => {
    const past = new Date(Date.now() - 2 * ENROLMENT.certificateMs)
    const old = await newAgent(authority, { installationId, agentId: 'agent-7', now: past })
    expect(await refusal(old)).toMatchObject({ code: status.UNAVAILABLE })
    expect(lines).toMatchObject([{ kind: 'certificate_expired', address: '127.0.0.1' }])
  })

  test('nobody who changed the name in his certificate', async () => {
    const der = Buffer.from(new X509Certificate(agent.certificatePem).raw)
    const at = der.indexOf('/agent/agent-7') + '/agent/agent-'.length
    der.write('8', at)
    const base64 = der.toString('base64').replace(/.{64}/g, '$&\n')
    const certificatePem = `-----BEGIN CERTIFICATE-----\n${base64}\n-----END CERTIFICATE-----\n`
    expect(new X509Certificate(certificatePem).subjectAltName).toMatch(/agent-8$/)
    expect(await refusal({ ...agent, certificatePem })).toMatchObject({ code: status.UNAVAILABLE })
    expect(lines).toMatchObject([{ kind: 'unknown_authority' }])
  })

  test('a certificate of ours that names no agent here gets in and is nobody', async () => {
    const probe = await issueProbeCertificate(authority, now())
    expect(await refusal(probe)).toMatchObject({ code: status.PERMISSION_DENIED })
    const elsewhere = await newAgent(authority, { installationId: 'other', agentId: 'agent-7' })
    expect(await refusal(elsewhere)).toMatchObject({ code: status.PERMISSION_DENIED })
  })

  test('nobody below TLS 1.3, and nobody who does not speak TLS', async () => {
    await ended(openTls(agent, { maxVersion: 'TLSv1.2' }))
    const plain = connectTcp(listener.port, '127.0.0.1')
    plain.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await ended(plain)
    expect(lines.map(({ kind }) => kind)).toEqual(['old_tls', 'not_tls'])
  })

  test('nobody by resuming a session, which would skip the look at the certificate', async () => {
    const first = openTls(agent)
    const session = await new Promise<Buffer>((resolve) => first.once('session', resolve))
    first.destroy()
    const second = openTls(agent, { session })
    await new Promise((resolve) => second.once('secureConnect', resolve))
    expect(second.isSessionReused()).toBe(false)
    second.destroy()
  })
})

describe('the connection', () => {
  test('has wide receive windows and at most 16 streams', async () => {
    const session = connectHttp2(`https://127.0.0.1:${listener.port}`, {
      ca: authority.certificatePem,
      cert: agent.certificatePem,
      key: agent.keyPem,
    })
    await new Promise((resolve) => session.once('remoteSettings', resolve))
    await new Promise((resolve) => session.ping(resolve))
    expect(session.remoteSettings.initialWindowSize).toBe(4 * 1024 * 1024)
    expect(session.remoteSettings.maxConcurrentStreams).toBe(SESSION.streamsPerConnection)
    expect(session.state.remoteWindowSize).toBe(8 * 1024 * 1024)
    session.destroy()
  })

  test('without the enlarging does not pass the self-test', async () => {
    const bare = new Server()
    const pair = {
      private_key: Buffer.from(own.keyPem),
      cert_chain: Buffer.from(own.certificatePem),
    }
    const tls = ServerCredentials.createSsl(Buffer.from(authority.certificatePem), [pair], true)
    const port = await new Promise<number>((resolve, reject) =>
      bare.bindAsync('127.0.0.1:0', tls, (error, bound) =>
        error ? reject(error) : resolve(bound),
      ),
    )
    const { keyPem: key, certificatePem: cert } = await issueProbeCertificate(authority, now())
    const probe = { ca: authority.certificatePem, key, cert, servername: CONTROL_PLANE_NAME }
    const check = checkWindows(`127.0.0.1:${port}`, probe, 'It')
    await expect(check).rejects.toThrow(/windows of 65535 and 65535 bytes/)
    bare.forceShutdown()
  })

  test('carries log chunks as bytes, and no message above 1 MiB', async () => {
    const client = newClient(agent)
    const stream = openRawStream(client, AgentService, AgentService.method.streamLogs)
    const answers: unknown[] = []
    stream.on('data', (down: { msg: { value?: unknown } }) => answers.push(down.msg.value))
    const failure = new Promise<ServiceError>((resolve) => stream.on('error', resolve))
    stream.write(Buffer.alloc(100_000))
    await until(() => answers.length === 1)
    expect(answers).toMatchObject([{ attemptId: 'true', ackedSeq: 100_000n }])
    stream.write(Buffer.alloc(SESSION.receiveBytes + 1))
    expect(await failure).toMatchObject({ code: status.RESOURCE_EXHAUSTED })
    client.close()
  })
})

describe('handshakes under way', () => {
  let reports: object[] = []
  beforeEach(() => {
    reports = []
  })
  // a listener with a log of its own: what it ends may be reported after its test
  function openLimited(handshakeLimits: { width: number; limit: number }): Promise<Listener> {
    const into = reports
    const warn = (fields: object): void => void into.push(fields)
    const settings = { host: '127.0.0.1', port: 0, authority, server: own, handlers }
    return openListener({ ...settings, handshakeLimits, log: { info: () => {}, warn } })
  }

  async function connectMany(port: number, count: number): Promise<Socket[]> {
    const sockets: Socket[] = []
    for (let n = 0; n < count; n++) {
      const socket = connectTcp(port, '127.0.0.1')
      socket.on('error', () => {})
      sockets.push(socket)
      await new Promise((resolve) => socket.once('connect', resolve))
    }
    return sockets
  }

  /** What an agent sends first. */
  async function firstRecord(): Promise<Buffer> {
    const sent: Buffer[] = []
    const line = new Duplex({
      read: () => {},
      write: (bytes: Buffer, _encoding, done) => {
        sent.push(bytes)
        done()
      },
    })
    const socket = openTls(agent, { socket: line })
    socket.on('error', () => {})
    await until(() => sent.length > 0)
    socket.destroy()
    return Buffer.concat(sent)
  }

  /** A line that carries the client's bytes one by one, and keeps the answers until it is released. */
  async function openSlowLine(to: number) {
    const held: Buffer[] = []
    let isReleased = false
    let release = (): void => {}
    const server = createServer((client) => {
      const onward = connectTcp(to, '127.0.0.1').setNoDelay()
      for (const socket of [client, onward]) socket.on('error', () => {})
      client.on('close', () => onward.destroy())
      const sent: number[] = []
      const send = (): void => {
        const byte = sent.shift()
        if (byte !== undefined) onward.write(Buffer.of(byte), () => setImmediate(send))
      }
      client.on('data', (bytes) => {
        const isIdle = sent.length === 0
        sent.push(...bytes)
        if (isIdle) send()
      })
      onward.on('data', (bytes) => {
        if (isReleased) client.write(bytes)
        else held.push(bytes)
      })
      release = () => {
        isReleased = true
        client.write(Buffer.concat(held))
      }
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    return { port, holdsAnswer: () => held.length > 0, release: () => release(), server }
  }

  test('have a bound: above it the oldest ends, and the newcomer is served', async () => {
    const limit = 16
    const { port, forceClose } = await openLimited({ width: 2, limit })
    const silent = await connectMany(port, limit)
    expect(JSON.parse(await callAs(agent, port)).agentId).toBe('agent-7')
    await until(() => silent[0]?.destroyed === true)
    expect(silent.filter((socket) => socket.destroyed)).toHaveLength(1)
    silent.push(...(await connectMany(port, 3 * limit)))
    expect(JSON.parse(await callAs(agent, port)).agentId).toBe('agent-7')
    await until(() => silent.filter((socket) => !socket.destroyed).length === limit - 1)
    expect(silent.slice(1 - limit).filter((socket) => socket.destroyed)).toEqual([])
    expect(reports).toMatchObject([{ kind: 'too_many', address: '127.0.0.1' }])
    for (const socket of silent) socket.destroy()
    // finished handshakes do not count: far more connections than the limit, all open together
    const many: TLSSocket[] = []
    for (let n = 0; n < limit + 10; n++) {
      const socket = openTls(agent, {}, port)
      many.push(socket)
      await new Promise((resolve, reject) =>
        socket.once('secureConnect', resolve).once('error', reject),
      )
    }
    await callAs(agent, port)
    for (const socket of many) socket.destroy()
    await forceClose()
  })

  test('have no turn before their first record is whole', async () => {
    const count = (1.5 * SESSION.dialMs) / SESSION.handshakeTurnMs // with turns, they would take too long
    const { port, forceClose } = await openLimited({ width: 1, limit: 2 * count })
    const stalled = await connectMany(port, count)
    const hello = await firstRecord()
    for (const socket of stalled) socket.write(hello.subarray(0, -1))
    expect(JSON.parse(await callAs(agent, port)).agentId).toBe('agent-7')
    for (const socket of stalled) socket.destroy()
    await forceClose()
  })

  test('that stall in their turn lose it to those who wait, and end first', async () => {
    const limit = 16
    const { port, forceClose } = await openLimited({ width: 1, limit })
    const hello = await firstRecord()
    const stalled = await connectMany(port, limit)
    for (const socket of stalled) socket.write(hello)
    const [first] = stalled
    first?.resume()
    await callAs(agent, port) // below the time an agent has for its connection
    stalled.push(...(await connectMany(port, 1)))
    await until(() => first?.destroyed === true)
    for (const socket of stalled) socket.destroy()
    await forceClose()
  })

  test('of a slow client succeed: bytes that come one by one, an answer after its turn', async () => {
    const { port, forceClose } = await openLimited({ width: 1, limit: 4 })
    const line = await openSlowLine(port)
    const socket = openTls(agent, {}, line.port)
    const secured = new Promise((resolve, reject) =>
      socket.once('secureConnect', resolve).once('error', reject),
    )
    await until(line.holdsAnswer)
    await callAs(agent, port) // the turn of the slow one is over
    line.release()
    await secured
    socket.destroy()
    line.server.close()
    await forceClose()
  })

  test('wait for their turn: none of many that come together is refused', async () => {
    const opened = Array.from({ length: 5 * SESSION.handshakesAtOnce }, () => openTls(agent))
    await Promise.all(
      opened.map((socket) => new Promise((resolve) => socket.once('secureConnect', resolve))),
    )
    expect(lines).toEqual([])
    for (const socket of opened) socket.destroy()
  })

  test('that fail are logged once for each kind, however many there are', async () => {
    for (let n = 0; n < 100; n++) {
      const socket = connectTcp(listener.port, '127.0.0.1')
      socket.write('\x16\x03\x01\x00\x05hello')
      await ended(socket)
    }
    expect(lines.length).toBeGreaterThan(0)
    expect(lines.length).toBeLessThan(4)
  })
})

// below the timeouts after which abandoned handshakes and connections end by themselves
describe('opening and closing', { timeout: SESSION.dialMs - 2_000 }, () => {
  test('a port in use is refused with what to do', async () => {
    await expect(openTestListener(listener.port)).rejects.toThrow(/cannot use .*BERTH_AGENT_PORT/s)
  })

  test('a listener that agents would not trust does not start at all', async () => {
    const other = await issueServerCertificate(foreign, { names: [], now: now() })
    const spare = await openTestListener()
    await spare.close(0)
    await expect(openTestListener(spare.port, other)).rejects.toThrow(/does not answer/)
    const again = await openTestListener(spare.port)
    await again.close(0)
  })

  test('closing lets calls end, then cuts what is left, strangers included', async () => {
    const one = await openTestListener()
    const unknown = connectTcp(one.port, '127.0.0.1')
    await new Promise((resolve) => unknown.once('connect', resolve))
    const unknownAttemptEnded = ended(unknown)
    const client = newClient(agent, one.port)
    const stream = openRawStream(client, AgentService, AgentService.method.streamLogs)
    const answers: unknown[] = []
    stream.on('data', (down) => answers.push(down))
    const failed = new Promise<ServiceError>((resolve) => stream.on('error', resolve))
    stream.write(Buffer.alloc(1))
    await until(() => answers.length === 1)
    const closing = one.close(300)
    stream.write(Buffer.alloc(1))
    await until(() => answers.length === 2) // within the grace period
    await Promise.all([closing, failed, unknownAttemptEnded])
    client.close()
    await expect(callAs(agent, one.port)).rejects.toMatchObject({ code: status.UNAVAILABLE })
  })

  test('closing without calls waits neither for the grace nor for strangers', async () => {
    const one = await openTestListener()
    await callAs(agent, one.port)
    const unknown = connectTcp(one.port, '127.0.0.1')
    await new Promise((resolve) => unknown.once('connect', resolve))
    await one.close(3_600_000)
    await (await openTestListener(one.port)).forceClose()
  })

  test('a new certificate is shown to new connections; open ones go on', async () => {
    const one = await openTestListener()
    const client = newClient(agent, one.port)
    const stream = openRawStream(client, AgentService, AgentService.method.streamLogs)
    const answers: unknown[] = []
    stream.on('data', (down) => answers.push(down))
    stream.on('error', () => {})
    stream.write(Buffer.alloc(1))
    await until(() => answers.length === 1)
    const fresh = await issueServerCertificate(authority, { names: ['127.0.0.1'], now: now() })
    one.reloadCertificate(fresh, [authority.certificatePem, foreign.certificatePem])
    const socket = connectTls({
      port: one.port,
      host: '127.0.0.1',
      ca: authority.certificatePem,
      cert: agent.certificatePem,
      key: agent.keyPem,
    })
    await new Promise((resolve, reject) =>
      socket.once('secureConnect', resolve).once('error', reject),
    )
    const shown = socket.getPeerX509Certificate()?.fingerprint256
    expect(shown).toBe(new X509Certificate(fresh.certificatePem).fingerprint256)
    socket.destroy()
    const newcomer = await newAgent(foreign, { installationId, agentId: 'agent-9' })
    expect(JSON.parse(await callAs(newcomer, one.port)).agentId).toBe('agent-9')
    await expect(callAs(undefined, one.port)).rejects.toMatchObject({
      code: status.UNAVAILABLE,
    })
    stream.write(Buffer.alloc(1))
    await until(() => answers.length === 2)
    client.close()
    await one.forceClose()
  })
})
