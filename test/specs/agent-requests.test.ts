// The control plane calls a live agent and receives its uploads: a real agent's answer, and agents that are silent,
// busy, disconnected, or send unexpected messages.
import { AppError, DAEMON, TRANSFERS } from '@berth/shared'
import {
  type ContainerLogFrame,
  type FileFrame,
  FileFrameSchema,
  type Request,
  RequestErrorCode,
} from '@berth/shared/wire'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { type ServiceError, status } from '@grpc/grpc-js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { uploadEnd } from '../../agent/src/link/bulk.ts'
import { callAgent, findLiveAgent } from '../../control-plane/src/agents/agent-rpc.ts'
import { expectTransfer } from '../../control-plane/src/agents/transfers.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { WireAgent, type WireSession } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'

const FACTS: Request['body'] = {
  case: 'collectFacts',
  value: { $typeName: 'berth.agent.v1.CollectFacts', environmentId: 0 },
}
const code = (error: unknown): string => (error instanceof AppError ? error.code : String(error))
const refusal = (promise: Promise<unknown>): Promise<string> =>
  promise.then(() => 'no refusal', code)

type Frame = NonNullable<MessageInitShape<typeof FileFrameSchema>['frame']>

/** An upload of a WireAgent with the given frames, and its result. */
function upload(agent: WireAgent) {
  const ended = Promise.withResolvers<ServiceError | undefined>()
  const call = agent.client.sendFile((error) => ended.resolve(error ?? undefined))
  call.on('error', () => {})
  return {
    call,
    ended: ended.promise,
    send: (frame: Frame) => call.write(create(FileFrameSchema, { frame })),
  }
}

async function readAll<F>(frames: AsyncIterable<F>): Promise<F[]> {
  const all: F[] = []
  for await (const frame of frames) all.push(frame)
  return all
}

describe('the control plane asks a live agent', () => {
  let platform: Platform
  let agent: WireAgent
  let session: WireSession
  let serverId: number
  const signal = new AbortController().signal
  const ctx = () => platform.cp.running.ctx

  beforeAll(async () => {
    platform = await Platform.start('sqlite')
    serverId = (await platform.cp.server('two')).id
    agent = await WireAgent.join(platform.cp, serverId)
    session = await agent.active()
    await until('its session', () => findLiveAgent(ctx(), serverId).catch(() => undefined))
  })
  afterAll(async () => {
    agent.close()
    await platform.close()
  })
  const expectFile = (
    over: { firstFrameMs?: number; idleMs?: number; signal?: AbortSignal } = {},
  ) =>
    expectTransfer(ctx(), agent.identity.agentId, 'file', {
      firstFrameMs: 5_000,
      idleMs: 5_000,
      signal,
      ...over,
    })

  test('a real agent answers', async () => {
    const answer = await callAgent(ctx(), platform.serverId, FACTS, { deadlineMs: 5_000, signal })
    if (answer.case !== 'facts') throw new Error(`it answered ${answer.case}`)
    expect(answer.value.facts.map((fact) => fact.name)).toContain('disk.free_bytes')
  })

  test('a question it does not know is answered, not left open', async () => {
    const body = {
      case: 'listContainers',
      value: { $typeName: 'berth.agent.v1.ListContainers', environmentId: 1 },
    } as const
    const answer = await callAgent(ctx(), platform.serverId, body, { deadlineMs: 5_000, signal })
    expect(answer).toMatchObject({ case: 'error', value: { code: RequestErrorCode.UNSUPPORTED } })
  })

  test('a server that never joined is offline', async () => {
    const { id } = await platform.cp.server('three')
    expect(await refusal(callAgent(ctx(), id, FACTS, { deadlineMs: 1_000, signal }))).toBe(
      'server_offline',
    )
  })

  test('silence ends with server_timeout, and the agent is told that nobody waits', async () => {
    const asked = refusal(callAgent(ctx(), serverId, FACTS, { deadlineMs: 50, signal }))
    const { requestId } = await session.next('request')
    expect(await asked).toBe('server_timeout')
    expect((await session.next('cancelRequest')).requestId).toBe(requestId)
    // too late: the response changes nothing
    session.send({ case: 'response', value: { requestId, body: { case: 'facts', value: {} } } })
  })

  test('an asker that leaves takes its question along', async () => {
    const asker = new AbortController()
    const o = { deadlineMs: 5_000, signal: asker.signal }
    const asked = refusal(callAgent(ctx(), serverId, FACTS, o))
    await session.next('request')
    asker.abort(new Error('left'))
    expect(await asked).toBe('Error: left')
    await session.next('cancelRequest')
  })

  test('one question too many is refused here; too many there is said as well', async () => {
    const asker = new AbortController()
    const o = { deadlineMs: 5_000, signal: asker.signal }
    const open = Array.from({ length: DAEMON.requestsInFlight }, () =>
      refusal(callAgent(ctx(), serverId, FACTS, o)),
    )
    await until('all questions', () =>
      session.received.filter((m) => m.msg.case === 'request').length === open.length
        ? true
        : undefined,
    )
    expect(await refusal(callAgent(ctx(), serverId, FACTS, o))).toBe('transfers_busy')
    const { requestId } = await session.next('request')
    const error = { code: RequestErrorCode.TOO_MANY, message: 'no' }
    session.send({ case: 'response', value: { requestId, body: { case: 'error', value: error } } })
    expect(await open[0]).toBe('transfers_busy')
    asker.abort()
    await Promise.all(open)
    session.received.splice(0)
  })

  test('frames arrive in order, and the agent learns that they did', async () => {
    const { transferId, frames } = expectFile()
    const up = upload(agent)
    up.send({ case: 'header', value: { transferId, length: 2n } })
    up.send({ case: 'data', value: Buffer.from('ab') })
    up.send({ case: 'end', value: { bytesSent: 2n } })
    up.call.end()
    const got = await readAll<FileFrame | ContainerLogFrame>(frames)
    expect(got.map((frame) => frame.frame.case)).toEqual(['header', 'data', 'end'])
    expect(await up.ended).toBeUndefined()
  })

  test('a slow reader stops the sender; memory stays bounded', async () => {
    const { transferId, frames } = expectFile()
    const up = upload(agent)
    up.send({ case: 'header', value: { transferId } })
    const piece = Buffer.alloc(TRANSFERS.frameBytes)
    let sent = 0
    const total = 100
    const pump = async (): Promise<void> => {
      for (; sent < total; sent += 1) {
        if (up.send({ case: 'data', value: piece })) continue
        await new Promise((resolve) => up.call.once('drain', resolve))
      }
      up.send({ case: 'end', value: {} })
      up.call.end()
    }
    const pumping = pump()
    const reader = frames[Symbol.asyncIterator]()
    await reader.next()
    // a window, the queue and the socket buffers hold far less than 25 MiB
    let seen = -1
    await until('the sender to stand still', async () => {
      const before = seen
      seen = sent
      await new Promise((resolve) => setTimeout(resolve, 100))
      return before === sent && sent > 0 ? true : undefined
    })
    expect(sent).toBeLessThan(total)
    let count = 0
    for (let next = await reader.next(); !next.done; next = await reader.next()) count += 1
    await pumping
    expect(count).toBe(total + 1)
  })

  test('nobody but the expected agent can deliver, and nobody twice', async () => {
    const { transferId, cancel, frames } = expectFile()
    const guess = upload(agent)
    guess.send({ case: 'header', value: { transferId: crypto.randomUUID() } })
    expect((await guess.ended)?.code).toBe(status.PERMISSION_DENIED)
    const other = await WireAgent.join(platform.cp, (await platform.cp.server('four')).id)
    const foreign = upload(other)
    foreign.send({ case: 'header', value: { transferId } })
    expect((await foreign.ended)?.code).toBe(status.PERMISSION_DENIED)
    other.close()
    const headless = upload(agent)
    headless.send({ case: 'data', value: Buffer.from('x') })
    expect((await headless.ended)?.code).toBe(status.PERMISSION_DENIED)
    const first = upload(agent)
    first.send({ case: 'header', value: { transferId } })
    await frames[Symbol.asyncIterator]().next()
    const second = upload(agent)
    second.send({ case: 'header', value: { transferId } })
    expect((await second.ended)?.code).toBe(status.PERMISSION_DENIED)
    cancel()
    expect((await first.ended)?.code).toBe(status.CANCELLED)
  })

  test('a reader that leaves ends the upload; an upload that breaks never looks whole', async () => {
    const left = expectFile()
    const up = upload(agent)
    up.send({ case: 'header', value: { transferId: left.transferId } })
    for await (const _ of left.frames) break
    expect((await up.ended)?.code).toBe(status.CANCELLED)

    const cut = expectFile()
    const broken = upload(agent)
    broken.send({ case: 'header', value: { transferId: cut.transferId } })
    const reader = cut.frames[Symbol.asyncIterator]()
    await reader.next()
    broken.call.cancel()
    await expect(reader.next()).rejects.toThrow('broke')
  })

  test.each([0, 3, 40])(
    'a real agent’s upload that is cut at once, after %i pieces, is noticed',
    async (pieces) => {
      const cut = expectFile({ firstFrameMs: 60_000, idleMs: 60_000 })
      const { call } = upload(agent)
      const end = uploadEnd(call)
      const { transferId } = cut
      const header = create(FileFrameSchema, { frame: { case: 'header', value: { transferId } } })
      call.write(header, end.opened)
      const value = Buffer.alloc(TRANSFERS.frameBytes)
      for (let i = 0; i < pieces; i += 1) {
        call.write(create(FileFrameSchema, { frame: { case: 'data', value } }))
      }
      end.cancel() // before the call has its stream
      await expect(readAll(cut.frames)).rejects.toThrow('broke')
    },
  )

  test('silence before and after the header ends it', async () => {
    const never = expectFile({ firstFrameMs: 30 })
    expect(await refusal(readAll(never.frames))).toBe('server_timeout')
    const silent = expectFile({ idleMs: 30 })
    const up = upload(agent)
    up.send({ case: 'header', value: { transferId: silent.transferId } })
    expect(await refusal(readAll(silent.frames))).toBe('server_timeout')
    expect((await up.ended)?.code).toBe(status.CANCELLED)
  })

  test('at most four files at once; the next is refused until one is over', async () => {
    const open = Array.from({ length: TRANSFERS.files }, () => expectFile())
    expect(() => expectFile()).toThrow('Try again')
    open[0]?.cancel()
    open.push(expectFile())
    for (const one of open) one.cancel()
  })

  test('questions and transfers die with the session', async () => {
    const asked = refusal(callAgent(ctx(), serverId, FACTS, { deadlineMs: 9_000, signal }))
    const expected = expectFile()
    const read = refusal(readAll(expected.frames))
    await session.next('request')
    session.cut()
    expect(await asked).toBe('server_offline')
    expect(await read).toBe('server_offline')
    expect(await refusal(callAgent(ctx(), serverId, FACTS, { deadlineMs: 100, signal }))).toBe(
      'server_offline',
    )
    expect(() => expectFile()).toThrow('offline')
  })
})
