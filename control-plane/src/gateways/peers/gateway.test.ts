// Control planes that call each other over real mutual TLS: who may connect, what reaches an agent that another one
// holds, how uploads find their reader, and what a caller sees of a peer that dies or stops answering.
import { connect, createServer, type Socket, type Server as TcpServer } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { AppError, TRANSFERS } from '@berth/shared'
import {
  type FileFrame,
  FileFrameSchema,
  type Request,
  type ServerMessage,
} from '@berth/shared/wire'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { LiveAgents, PendingRequests, toAskRefusal } from '../../agents/agent-rpc.ts'
import { expectTransfer, receiveUpload, Transfers } from '../../agents/transfers.ts'
import type { RefusedUpload } from '../../agents/uploads.ts'
import {
  type Authority,
  createAuthority,
  issueReplicaCertificate,
  issueServerCertificate,
  type KeyPair,
  loadAuthority,
} from '../../keys/authority.ts'
import { newAgent } from '../../keys/requests.testing.ts'
import { PEERS } from '../../limits/peers.ts'
import { OwnCertificate } from '../../peers/own-certificate.ts'
import { Peers } from '../../peers/peers.ts'
import type { Db } from '../../store/engine/db.ts'
import { openPeerGateway, type PeerGateway } from './gateway.ts'
import { choosePeerHost } from './start.ts'

const installationId = 'installation-1'
const noDatabase = undefined as unknown as Db // only the checks of sessions read it, every few seconds
let authority: Authority
let lines: { kind?: string; message: string }[] = []
const log = {
  error: () => {},
  info: () => {},
  warn: (fields: object, message: string) => void lines.push({ ...fields, message }),
}

const directory = new Map<string, string>()
const nodes: Node[] = []

/** The part of a control plane that talks to others. */
class Node {
  readonly agentRpc = new LiveAgents()
  readonly transfers: Transfers
  readonly peers: Peers
  readonly installationId = installationId
  readonly log = log as never
  readonly own: OwnCertificate
  readonly id: string
  gateway!: PeerGateway

  private constructor(id: string, own: OwnCertificate) {
    this.id = id
    this.own = own
    this.transfers = new Transfers(id, noDatabase)
    this.peers = new Peers(own, {
      find: async (of) => {
        const peerAddress = directory.get(of)
        return peerAddress === undefined ? undefined : { peerAddress }
      },
      listLive: async () => [...directory].map(([of, peerAddress]) => ({ id: of, peerAddress })),
    })
  }

  static async start(id: string): Promise<Node> {
    const own = await OwnCertificate.issue({
      authority,
      installationId,
      replicaId: id,
      log: log as never,
    })
    const node = new Node(id, own)
    node.gateway = await openPeerGateway(node, own, { host: '127.0.0.1', port: 0 })
    directory.set(id, `127.0.0.1:${node.gateway.port}`)
    nodes.push(node)
    return node
  }

  /** An agent with a session here; the test reads what it is sent. */
  hold(agentId: string): { sent: ServerMessage['msg'][]; requests: PendingRequests } {
    const sent: ServerMessage['msg'][] = []
    const requests = new PendingRequests((message) => void sent.push(message))
    this.agentRpc.open(agentId, requests)
    return { sent, requests }
  }

  async close(): Promise<void> {
    directory.delete(this.id)
    this.peers.close()
    this.own.close()
    await this.gateway.close()
  }
}

const FACTS: Request['body'] = {
  case: 'collectFacts',
  value: { $typeName: 'berth.agent.v1.CollectFacts', environmentId: 0 },
}
const signal = new AbortController().signal
const ask = (
  from: Node,
  replicaId: string,
  over: { deadlineMs?: number; signal?: AbortSignal } = {},
) =>
  from.peers.ask({ replicaId, agentId: 'agent-1', body: FACTS, deadlineMs: 5_000, signal, ...over })

const holds = <T>(read: () => T | undefined): Promise<T> =>
  vi.waitFor(
    () => {
      const value = read()
      if (value === undefined || value === false) throw new Error('not yet')
      return value
    },
    { timeout: 10_000, interval: 5 },
  )

beforeAll(async () => {
  authority = await loadAuthority(await createAuthority(new Date()))
})
afterEach(async () => {
  await Promise.all(nodes.splice(0).map((node) => node.close()))
  directory.clear()
  lines = []
})

test('by default it listens where it tells the others to dial', () => {
  const unset = { peerHost: undefined, peerAddress: undefined }
  expect(choosePeerHost(unset, '10.0.0.7')).toBe('10.0.0.7')
  expect(choosePeerHost(unset, '127.0.0.1')).toBe('127.0.0.1')
  const forwarded = { ...unset, peerAddress: '203.0.113.7:7444' }
  expect(choosePeerHost(forwarded, '127.0.0.1')).toBe('0.0.0.0')
  expect(choosePeerHost(forwarded, 'fd00::7')).toBe('::')
  expect(choosePeerHost({ ...forwarded, peerHost: '10.0.0.8' }, '10.0.0.7')).toBe('10.0.0.8')
})

describe('who may connect', () => {
  async function knock(pair: KeyPair | undefined, port: number): Promise<'open' | 'closed'> {
    const socket = connectTls({
      host: '127.0.0.1',
      port,
      rejectUnauthorized: false,
      ALPNProtocols: ['h2'],
      ...(pair ? { cert: pair.certificatePem, key: pair.keyPem } : {}),
    })
    return new Promise((resolve) => {
      socket.on('error', () => {})
      socket.on('close', () => resolve('closed'))
      socket.on('data', () => {
        resolve('open') // the settings of HTTP/2
        socket.destroy()
      })
    })
  }

  test('a control plane of this installation, and no one else', async () => {
    const { gateway } = await Node.start('a')
    const now = new Date()
    const replica = (over: { of?: Authority; installationId?: string; now?: Date } = {}) =>
      issueReplicaCertificate(over.of ?? authority, {
        installationId: over.installationId ?? installationId,
        replicaId: 'b',
        now: over.now ?? now,
        lifeMs: PEERS.certificateMs,
      })
    expect(await knock(await replica(), gateway.port)).toBe('open')
    const refused: [string, KeyPair | undefined][] = [
      ['wrong_purpose', await newAgent(authority, { installationId, agentId: 'b' })],
      ['wrong_purpose', await replica({ installationId: 'another' })],
      ['unknown_authority', await replica({ of: await loadAuthority(await createAuthority(now)) })],
      [
        'certificate_expired',
        await replica({ now: new Date(now.getTime() - 2 * PEERS.certificateMs) }),
      ],
      ['certificate_missing', undefined],
    ]
    const kinds: string[] = []
    for (const [kind, pair] of refused) {
      expect(await knock(pair, gateway.port), kind).toBe('closed')
      kinds.push(kind)
    }
    await holds(() => lines.length >= new Set(kinds).size)
    expect(new Set(lines.map(({ kind }) => kind))).toEqual(new Set(kinds))
    expect(lines.every(({ message }) => message.includes('other control planes'))).toBe(true)
  })

  test('a control plane, however many silent connections there are', async () => {
    const [a, b] = [await Node.start('a'), await Node.start('b')]
    b.hold('agent-1')
    const silent: Socket[] = []
    for (let n = 0; n < 2 * PEERS.connections + PEERS.deliveries + PEERS.pendingHandshakes; n++) {
      const socket = connect(b.gateway.port, '127.0.0.1')
      socket.on('error', () => {}).resume()
      silent.push(socket)
      await new Promise((resolve) => socket.once('connect', resolve))
    }
    expect(await ask(a, 'b', { deadlineMs: 30 })).toMatchObject({ kind: 'refused', refusal: 3 })
    const open = () => silent.filter((socket) => !socket.destroyed).length
    await holds(() => open() < PEERS.pendingHandshakes)
    for (const socket of silent) socket.destroy()
  })

  test('a caller that reaches another control plane, or no control plane, asks nothing', async () => {
    const a = await Node.start('a')
    const b = await Node.start('b')
    const { sent } = b.hold('agent-1')
    directory.set('c', directory.get('b') ?? '') // its port was taken over
    expect(await ask(a, 'c')).toEqual({ kind: 'unreachable' })
    const asked = ask(a, 'b')
    await holds(() => sent.length === 1)
    b.agentRpc.find('agent-1')?.close()
    expect(await asked).toMatchObject({ kind: 'refused' })
    expect(sent).toHaveLength(1)
  })

  test('the agents’ listener is no control plane', async () => {
    const a = await Node.start('a')
    const server = await issueServerCertificate(authority, { names: [], now: new Date() })
    const { createSecureServer } = await import('node:http2')
    const listener = createSecureServer({ cert: server.certificatePem, key: server.keyPem })
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
    directory.set('b', `127.0.0.1:${(listener.address() as { port: number }).port}`)
    expect(await ask(a, 'b')).toEqual({ kind: 'unreachable' })
    listener.close()
  })
})

describe('a question to an agent that a peer holds', () => {
  test('is answered through the peer', async () => {
    const [a, b] = [await Node.start('a'), await Node.start('b')]
    const { sent, requests } = b.hold('agent-1')
    const asked = ask(a, 'b')
    const request = await holds(() => sent[0])
    if (request.case !== 'request') throw new Error('no request')
    expect(request.value.body).toEqual(FACTS)
    requests.answer({
      $typeName: 'berth.agent.v1.Response',
      requestId: request.value.requestId,
      body: { case: 'facts', value: { $typeName: 'berth.agent.v1.Facts', facts: [] } },
    })
    expect(await asked).toMatchObject({ kind: 'answered', body: { case: 'facts' } })
  })

  test('ends at the agent when its caller leaves', async () => {
    const [a, b] = [await Node.start('a'), await Node.start('b')]
    const { sent } = b.hold('agent-1')
    const caller = new AbortController()
    const asked = ask(a, 'b', { signal: caller.signal })
    await holds(() => sent.length === 1)
    caller.abort(new Error('left'))
    await expect(asked).rejects.toThrow('left')
    expect((await holds(() => sent[1])).case).toBe('cancelRequest')
  })

  test('is late as it would be here, and refused where the agent is not', async () => {
    const [a, b] = [await Node.start('a'), await Node.start('b')]
    expect(await ask(a, 'b')).toMatchObject({ kind: 'refused', refusal: 1 })
    const { sent } = b.hold('agent-1')
    expect(await ask(a, 'b', { deadlineMs: 30 })).toMatchObject({ kind: 'refused', refusal: 3 })
    expect((await holds(() => sent[1])).case).toBe('cancelRequest')
    expect(await ask(a, 'never-started')).toEqual({ kind: 'unreachable' })
  })

  test('refusals travel by their codes; a fault is no refusal', () => {
    expect(toAskRefusal(new AppError('transfers_busy', ''))).toBe(4)
    expect(() => toAskRefusal(new Error('fault'))).toThrow('fault')
  })

  test('is lost with the peer, and the next one reaches no one', async () => {
    const [a, b] = [await Node.start('a'), await Node.start('b')]
    const { sent } = b.hold('agent-1')
    const link = await Interposed.before(b)
    const asked = ask(a, 'b')
    await holds(() => sent.length === 1)
    link.kill()
    expect(await asked).toEqual({ kind: 'lost' })
    expect(await ask(a, 'b')).toEqual({ kind: 'unreachable' })
  })

  test('a peer that stopped answering costs a bounded time', async () => {
    const [a, b] = [await Node.start('a'), await Node.start('b')]
    const link = await Interposed.before(b)
    link.freeze()
    vi.useFakeTimers({ toFake: ['setTimeout', 'Date'] })
    try {
      const asked = ask(a, 'b')
      await vi.advanceTimersByTimeAsync(PEERS.dialMs + 1)
      expect(await asked).toEqual({ kind: 'unreachable' })
    } finally {
      vi.useRealTimers()
      link.kill()
    }
  })
})

/** A TCP relay before a node, which a test kills or freezes: the peer dies, or its packets are lost. */
class Interposed {
  readonly #server: TcpServer
  readonly #sockets = new Set<Socket>()
  readonly #pairs: [Socket, Socket][] = []
  #isFrozen = false

  private constructor(server: TcpServer) {
    this.#server = server
  }

  static async before(node: Node): Promise<Interposed> {
    const server = createServer({ pauseOnConnect: true })
    const made = new Interposed(server)
    server.on('connection', (socket) => {
      made.#sockets.add(socket)
      if (made.#isFrozen) return
      const onward = connect(node.gateway.port, '127.0.0.1')
      made.#sockets.add(onward)
      socket.on('error', () => onward.destroy())
      onward.on('error', () => socket.destroy())
      socket.pipe(onward).pipe(socket)
      made.#pairs.push([socket, onward])
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    directory.set(node.id, `127.0.0.1:${(server.address() as { port: number }).port}`)
    return made
  }

  /** Connections stay open, but nothing arrives any more. */
  freeze(): void {
    this.#isFrozen = true
    for (const [one, other] of this.#pairs) {
      one.unpipe(other).pause()
      other.unpipe(one).pause()
    }
  }

  kill(): void {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
  }
}

describe('an upload that arrives at another control plane', () => {
  type Frame = NonNullable<MessageInitShape<typeof FileFrameSchema>['frame']>
  const toFrame = (frame: Frame): FileFrame => create(FileFrameSchema, { frame })

  /** What an agent's connection is to a control plane. */
  class FakeUpload {
    readonly #listeners = new Map<string, (frame: FileFrame) => void>()
    readonly done = Promise.withResolvers<RefusedUpload | null>()
    isPaused = false

    constructor(at: Node, agentId = 'agent-1') {
      receiveUpload(at, agentId, 'file', this, (refused) => this.done.resolve(refused))
    }
    on(event: string, listener: (frame: FileFrame) => void): void {
      this.#listeners.set(event, listener)
    }
    pause(): void {
      this.isPaused = true
    }
    resume(): void {
      this.isPaused = false
    }
    async send(frame: Frame): Promise<void> {
      await holds(() => !this.isPaused)
      this.#listeners.get('data')?.(toFrame(frame))
    }
    end(): void {
      this.#listeners.get('end')?.(undefined as never)
    }
    cut(): void {
      this.#listeners.get('close')?.(undefined as never)
    }
  }

  const expectFile = (at: Node) =>
    expectTransfer(at, 'agent-1', 'file', { firstFrameMs: 20_000, idleMs: 20_000, signal })
  async function readAll(frames: AsyncIterable<FileFrame>): Promise<Buffer> {
    const pieces: Uint8Array[] = []
    for await (const { frame } of frames) if (frame.case === 'data') pieces.push(frame.value)
    return Buffer.concat(pieces)
  }

  test('reaches its reader whole, and the agent hears that it did', async () => {
    const [a, b] = [await Node.start('a'), await Node.start('b')]
    const { transferId, frames } = expectFile(a)
    expect(transferId).toMatch(/^a\./)
    const upload = new FakeUpload(b)
    const read = readAll(frames)
    await upload.send({ case: 'header', value: { transferId } })
    const content = Buffer.alloc(3 * TRANSFERS.frameBytes, 'berth')
    for (let at = 0; at < content.length; at += TRANSFERS.frameBytes)
      await upload.send({ case: 'data', value: content.subarray(at, at + TRANSFERS.frameBytes) })
    await upload.send({ case: 'end', value: {} })
    upload.end()
    expect((await read).equals(content)).toBe(true)
    expect(await upload.done.promise).toBeNull()
  })

  test('is refused unless this agent is expected there, and is never passed on twice', async () => {
    const [a, b] = [await Node.start('a'), await Node.start('b')]
    const { transferId, cancel } = expectFile(a)
    const refused = async (id: string, agentId?: string) => {
      const upload = new FakeUpload(b, agentId)
      await upload.send({ case: 'header', value: { transferId: id } })
      return (await upload.done.promise)?.reason
    }
    expect(await refused(transferId, 'agent-2')).toBe('unexpected')
    expect(await refused('a.guessed')).toBe('unexpected')
    expect(await refused('gone.guessed')).toBe('canceled')
    expect(await refused('guessed')).toBe('unexpected')
    directory.set('c', directory.get('a') ?? '')
    expect(await refused('c.guessed')).toBe('canceled')
    cancel()
  })

  test('a slow reader stops the agent', async () => {
    const [a, b] = [await Node.start('a'), await Node.start('b')]
    const { transferId, frames } = expectFile(a)
    const upload = new FakeUpload(b)
    await upload.send({ case: 'header', value: { transferId } })
    const reader = frames[Symbol.asyncIterator]()
    await reader.next()
    const value = Buffer.alloc(TRANSFERS.frameBytes)
    let sent = 0
    const total = 200
    const pump = (async () => {
      for (; sent < total; sent += 1) await upload.send({ case: 'data', value })
      await upload.send({ case: 'end', value: {} })
      upload.end()
    })()
    // windows, the queue and the sockets' buffers hold far less than 50 MiB
    let seen = -1
    await holds(() => {
      const stopped = upload.isPaused && seen === sent
      seen = sent
      return stopped
    })
    expect(sent).toBeLessThan(total)
    let count = 0
    for (let next = await reader.next(); !next.done; next = await reader.next()) count += 1
    await pump
    expect(count).toBe(total + 1)
    expect(await upload.done.promise).toBeNull()
  })

  test('breaks for its reader when the agent, or the control plane between them, is lost', async () => {
    const [a, b] = [await Node.start('a'), await Node.start('b')]
    const begin = async () => {
      const { transferId, frames } = expectFile(a)
      const upload = new FakeUpload(b)
      await upload.send({ case: 'header', value: { transferId } })
      const reader = frames[Symbol.asyncIterator]()
      await reader.next()
      return { upload, reader }
    }
    const first = await begin()
    first.upload.cut()
    await expect(first.reader.next()).rejects.toThrow('broke')
    const second = await begin()
    b.peers.close()
    await expect(second.reader.next()).rejects.toThrow('broke')
    expect(await second.upload.done.promise).toMatchObject({ reason: 'canceled' })
  })

  test('ends at the agent soon after the control plane of its reader stopped answering', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const [a, b] = [await Node.start('a'), await Node.start('b')]
      const link = await Interposed.before(a)
      const { transferId, frames, cancel } = expectFile(a)
      const upload = new FakeUpload(b)
      await upload.send({ case: 'header', value: { transferId } })
      await frames[Symbol.asyncIterator]().next()
      link.freeze()
      await vi.advanceTimersByTimeAsync(PEERS.keepaliveMs + 1)
      await vi.advanceTimersByTimeAsync(PEERS.keepaliveTimeoutMs + 1)
      expect(await upload.done.promise).toMatchObject({ reason: 'canceled' })
      cancel()
      link.kill()
    } finally {
      vi.useRealTimers()
    }
  })

  test('ends at the agent when the reader leaves or its control plane dies', async () => {
    const [a, b] = [await Node.start('a'), await Node.start('b')]
    const link = await Interposed.before(a)
    const left = expectFile(a)
    const first = new FakeUpload(b)
    await first.send({ case: 'header', value: { transferId: left.transferId } })
    for await (const _ of left.frames) break
    expect(await first.done.promise).toMatchObject({ reason: 'canceled' })
    const { transferId, frames, cancel } = expectFile(a)
    const second = new FakeUpload(b)
    await second.send({ case: 'header', value: { transferId } })
    await frames[Symbol.asyncIterator]().next()
    link.kill()
    expect(await second.done.promise).toMatchObject({ reason: 'canceled' })
    cancel()
  })
})

test('a certificate is replaced before its end, for callers and for the listener', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'Date'] })
  try {
    const own = await OwnCertificate.issue({
      authority,
      installationId,
      replicaId: 'a',
      log: log as never,
    })
    const first = own.current
    const renewed = new Promise<void>((resolve) => own.onRenewed(resolve))
    await vi.advanceTimersByTimeAsync(PEERS.certificateMs)
    await renewed
    expect(own.current.certificatePem).not.toBe(first.certificatePem)
    own.close()
  } finally {
    vi.useRealTimers()
  }
})
afterAll(() => vi.useRealTimers())
