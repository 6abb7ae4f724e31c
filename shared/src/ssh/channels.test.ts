// Connections inside one session, both sides in memory: order, windows, half-closed ends, refusals, broken rules.
import { once } from 'node:events'
import { type Duplex, duplexPair } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { CHANNELS, ChannelError, Channels } from './channels.ts'

/** Both sides of a session; `connect` is the service. */
function link(connect: (target: number) => Promise<Duplex>) {
  const sent = { up: 0, down: 0 }
  const client: Channels = new Channels({
    send(frame) {
      sent.up += frame.length
      setImmediate(() => server.receive(frame))
    },
  })
  const server: Channels = new Channels({
    connect,
    send(frame) {
      sent.down += frame.length
      setImmediate(() => client.receive(frame))
    },
  })
  const refusals: string[] = []
  const open = (target = 0): Duplex => {
    const [near, far] = duplexPair()
    client.open(target, far, (reason) => refusals.push(reason))
    near.on('error', () => undefined)
    return near
  }
  return { client, server, sent, refusals, open }
}

async function readAll(stream: Duplex): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

describe('channels', () => {
  it('carry bytes both ways, and the end of each way', async () => {
    const { open, client, server } = link(async () => {
      const [service, far] = duplexPair()
      void readAll(service).then((asked) => service.end(`got ${asked.length}`))
      return far
    })
    const big = Buffer.alloc(5 * CHANNELS.windowBytes, 'a')
    const ends = [open(), open(), open()]
    const answers = ends.map(readAll)
    for (const end of ends) end.end(big)
    const texts = (await Promise.all(answers)).map(String)
    expect(texts).toEqual(ends.map(() => `got ${big.length}`))
    await new Promise((resolve) => setImmediate(resolve))
    expect([client.count, server.count].every((count) => count <= 3)).toBe(true)
  })

  it('send no more than the window to a side that does not read', async () => {
    const { open, sent } = link(async () => {
      const [service, far] = duplexPair()
      service.write(Buffer.alloc(10 * CHANNELS.windowBytes))
      return far
    })
    const near = open()
    await once(near, 'readable')
    for (let turn = 0; turn < 100; turn += 1) await new Promise((resolve) => setImmediate(resolve))
    // the window, what the two local streams hold, and the heads
    expect(sent.down).toBeLessThan(3 * CHANNELS.windowBytes)
    near.destroy()
  })

  it('say why a connection was refused, and close it', async () => {
    const { open, refusals, client } = link(async () => {
      throw new Error('nothing listens there')
    })
    const near = open()
    await readAll(near).catch(() => undefined)
    expect([refusals, client.count]).toEqual([['nothing listens there'], 0])
  })

  it('are bounded in number', async () => {
    const { open, refusals, client } = link(() => new Promise(() => undefined))
    for (let n = 0; n < CHANNELS.open; n += 1) open()
    expect(refusals).toEqual([])
    open()
    expect(refusals).toEqual([`more than ${CHANNELS.open} connections at once`])
    client.destroy()
    expect(client.count).toBe(0)
  })

  it('refuse frames that break the rules', () => {
    const server = () =>
      new Channels({ send: () => undefined, connect: () => new Promise(() => undefined) })
    const frame = (kind: number, id: number, payload: number[] = []) =>
      Buffer.from([kind, 0, 0, 0, id, 0, 0, 0, payload.length, ...payload])
    const broken: [string, Buffer[]][] = [
      ['too long', [Buffer.from([3, 0, 0, 0, 1, 0, 1, 0, 1])]],
      ['unknown', [frame(1, 1, [0]), frame(9, 1)]],
      ['no target', [frame(1, 1)]],
      ['the same number again', [frame(1, 2, [0]), frame(1, 2, [0])]],
      ['data before the connection', [frame(1, 1, [0]), frame(3, 1, [1])]],
      ['a window from nowhere', [frame(1, 1, [0]), frame(6, 1, [0, 255, 255, 255])]],
      ['a window of another length', [frame(1, 1, [0]), frame(6, 1, [1])]],
    ]
    for (const [name, frames] of broken) {
      const at = server()
      expect(() => frames.forEach((one) => void at.receive(one)), name).toThrow(ChannelError)
    }
    const client = new Channels({ send: () => undefined })
    expect(() => client.receive(frame(1, 1, [0])), 'the server opens one').toThrow(ChannelError)
    server().receive(frame(3, 7, [1, 2, 3])) // of a channel that is closed: late, not broken
  })

  it('take frames in any pieces', async () => {
    const { client, refusals } = link(async () => {
      throw new Error('no')
    })
    const [, far] = duplexPair()
    client.open(0, far, (reason) => refusals.push(reason))
    const said = Buffer.from([5, 0, 0, 0, 1, 0, 0, 0, 2, 104, 105])
    for (const byte of said) client.receive(Buffer.from([byte]))
    expect(refusals).toEqual(['hi'])
  })
})
