// Bulk transfers on a real listener: what they carry, and which connections are refused. A connection that is
// unexpected, comes from the wrong agent, or breaks never delivers anything that looks complete.
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, type TLSSocket } from 'node:tls'
import { AppError, TRANSFERS } from '@berth/shared'
import { dataHead, encodeMessage, FileFrameSchema } from '@berth/shared/wire'
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BulkLine } from '../../agent/src/link/bulk.ts'
import { dialFileLine, mayDial } from '../../agent/src/link/bulk-transfer.ts'
import { upload } from '../../agent/src/link/uploads.ts'
import { expectTransfer } from '../../control-plane/src/agents/transfers.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'

type Frame = NonNullable<MessageInitShape<typeof FileFrameSchema>['frame']>
const message = (frame: Frame): Buffer =>
  encodeMessage(toBinary(FileFrameSchema, create(FileFrameSchema, { frame })))
const data = (bytes: Buffer): Buffer => Buffer.concat([dataHead(bytes.length), bytes])
const header = (transferId: string): Buffer => message({ case: 'header', value: { transferId } })
const END = message({ case: 'end', value: { bytesSent: 1n } })

describe('file lines', () => {
  let cp: TestControlPlane
  let agent: WireAgent
  let other: WireAgent
  const signal = new AbortController().signal
  beforeAll(async () => {
    cp = await TestControlPlane.start('sqlite')
    await cp.setUp()
    agent = await WireAgent.join(cp, (await cp.server('one')).id)
    other = await WireAgent.join(cp, (await cp.server('two')).id)
    await agent.active()
    await other.active()
    await until('its session', () => cp.running.ctx.agentRpc.find(agent.identity.agentId))
  })
  afterAll(async () => {
    agent.close()
    other.close()
    await cp.close()
  })

  const endpointOf = ({ identity }: WireAgent): string => identity.endpoints[0] ?? ''
  const dial = (who = agent): Promise<TLSSocket> =>
    dialFileLine(who.identity, endpointOf(who), signal)
  const expectFile = (over: { firstFrameMs?: number; idleMs?: number } = {}) =>
    expectTransfer(cp.running.ctx, agent.identity.agentId, 'file', {
      firstFrameMs: 60_000,
      idleMs: 60_000,
      signal,
      ...over,
    })
  async function readAll(frames: ReturnType<typeof expectFile>['frames']): Promise<Buffer> {
    const pieces: Buffer[] = []
    for await (const { frame } of frames) {
      if (frame.case === 'data') pieces.push(Buffer.from(frame.value))
    }
    return Buffer.concat(pieces)
  }
  /** What the other side answered before it closed the connection. */
  async function answerOf(socket: TLSSocket): Promise<Buffer> {
    const chunks: Buffer[] = []
    socket.on('data', (chunk: Buffer) => chunks.push(chunk))
    if (!socket.closed) await once(socket, 'close')
    return Buffer.concat(chunks)
  }
  const NOTHING = Buffer.alloc(0)

  test('carries files of every size whole, and the sender hears that they came', async () => {
    const bulk = BulkLine.to(agent.identity, endpointOf(agent))
    for (const size of [1, TRANSFERS.frameBytes, 3 * TRANSFERS.lineRecordBytes + 17]) {
      const content = randomBytes(size)
      const { transferId, frames } = expectFile()
      const read = readAll(frames)
      await upload(bulk, true, async (out) => {
        await out.frame({ case: 'header', value: { transferId } })
        await out.data(content)
        await out.frame({ case: 'end', value: {} })
      })
      expect((await read).equals(content)).toBe(true)
    }
    bulk.close()
  })

  test('nobody but the expected agent can deliver, and nobody twice', async () => {
    const { transferId, frames, cancel } = expectFile()
    for (const [who, id] of [
      [agent, randomUUID()],
      [other, transferId],
    ] as const) {
      const socket = await dial(who)
      socket.write(header(id))
      expect(await answerOf(socket)).toEqual(NOTHING)
    }
    const headless = await dial()
    headless.write(data(Buffer.from('x')))
    expect(await answerOf(headless)).toEqual(NOTHING)
    const first = await dial()
    first.write(header(transferId))
    await frames[Symbol.asyncIterator]().next()
    const second = await dial()
    second.write(header(transferId))
    expect(await answerOf(second)).toEqual(NOTHING)
    expect(first.destroyed).toBe(false)
    cancel()
    expect(await answerOf(first)).toEqual(NOTHING)
  })

  test.each<[string, Buffer[]]>([
    ['a line that is cut', [data(Buffer.from('x'))]],
    ['a record of an unknown kind', [Buffer.from([9, 0, 0, 0, 1, 0])]],
    ['a record that is too large', [dataHead(TRANSFERS.lineRecordBytes + 1)]],
    ['a message that is none', [encodeMessage(Buffer.from([0xff, 0xff]))]],
  ])('%s breaks the transfer', async (_, records) => {
    const { transferId, frames } = expectFile()
    const read = readAll(frames)
    const socket = await dial()
    socket.write(Buffer.concat([header(transferId), ...records]), () => socket.end())
    await expect(read).rejects.toThrow('broke')
  })

  test('what follows the end is not read', async () => {
    const { transferId, frames } = expectFile()
    const socket = await dial()
    socket.write(Buffer.concat([header(transferId), data(Buffer.from('x')), END, END]))
    await answerOf(socket)
    expect(String(await readAll(frames))).toBe('x')
  })

  test('silence before and after the header ends it', async () => {
    const refusal = (promise: Promise<unknown>): Promise<unknown> =>
      promise.catch((error: unknown) => error instanceof AppError && error.code)
    expect(await refusal(readAll(expectFile({ firstFrameMs: 30 }).frames))).toBe('server_timeout')
    const { transferId, frames } = expectFile({ idleMs: 30 })
    const socket = await dial()
    socket.write(header(transferId))
    expect(await refusal(readAll(frames))).toBe('server_timeout')
    expect(await answerOf(socket)).toEqual(NOTHING)
  })

  test('an agent holds no more lines than it may send files', async () => {
    const lines = await Promise.all(Array.from({ length: TRANSFERS.files }, () => dial()))
    const more = await dial()
    expect(await answerOf(more)).toEqual(NOTHING)
    expect(lines.some((socket) => socket.destroyed)).toBe(false)
    for (const socket of lines) socket.destroy()
  })

  test('a stranger gets no line', async () => {
    const { host, port } = new URL(`https://${endpointOf(agent)}`)
    const { ca } = agent.identity
    const ALPNProtocols = ['berth-files/1']
    const socket = connect({
      host: host.replace(/:\d+$/, ''),
      port: Number(port),
      ca,
      servername: 'berth-control-plane',
      ALPNProtocols,
    })
    await expect(answerOf(socket)).rejects.toThrow('certificate required')
  })

  test('a reader that leaves ends the line; the sender fails', async () => {
    const bulk = BulkLine.to(agent.identity, endpointOf(agent))
    const { transferId, frames } = expectFile()
    const sent = upload(bulk, true, async (out) => {
      await out.frame({ case: 'header', value: { transferId } })
      for (;;) await out.data(Buffer.alloc(TRANSFERS.lineRecordBytes))
    })
    for await (const { frame } of frames) if (frame.case === 'data') break
    await expect(sent).rejects.toThrow()
    bulk.close()
  })

  test('the end of the session cuts a line that is open, and one that is being opened', async () => {
    const bulk = BulkLine.to(agent.identity, endpointOf(agent))
    const socket = await bulk.openFileLine()
    const opening = bulk.openFileLine()
    bulk.close()
    expect(socket?.destroyed).toBe(true)
    await expect(opening).rejects.toThrow('session ended')
    await expect(bulk.openFileLine()).rejects.toThrow('no session')
  })

  test('where no line can be opened the file goes by a call, and none is tried again', async () => {
    let dialled = 0
    const bulk = new BulkLine(
      () => agent.client,
      async () => {
        dialled += 1
        throw new Error('a middle box does not let it through')
      },
    )
    for (let i = 0; i < 2; i += 1) {
      const { transferId, frames } = expectFile()
      const read = readAll(frames)
      await upload(bulk, true, async (out) => {
        await out.frame({ case: 'header', value: { transferId } })
        await out.data(Buffer.from('abc'))
        await out.frame({ case: 'end', value: {} })
      })
      expect(String(await read)).toBe('abc')
    }
    expect(dialled).toBe(1)
  })

  test('a session behind a proxy has no lines', () => {
    expect(mayDial('berth.example:8443', {})).toBe(true)
    expect(mayDial('berth.example:8443', { HTTPS_PROXY: 'http://proxy' })).toBe(false)
    expect(mayDial('127.0.0.1:8443', { https_proxy: 'http://proxy' })).toBe(true)
  })
})
