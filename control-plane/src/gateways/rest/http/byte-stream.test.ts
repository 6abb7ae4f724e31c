// Bodies that free their memory: never before a chunk was written, and a failed body never looks complete.
import { once } from 'node:events'
import { createServer, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pipeline, Writable } from 'node:stream'
import { TRANSFERS } from '@berth/shared'
import { expect, test, vi } from 'vitest'
import { ByteStream } from './byte-stream.ts'

const SIZE = 262_144

async function* pieces(count: number, error?: Error): AsyncGenerator<Buffer> {
  for (let i = 0; i < count; i += 1) yield Buffer.from(new ArrayBuffer(SIZE)).fill(i + 1)
  if (error) throw error
}

async function get(bytes: AsyncIterable<Buffer>): Promise<{ complete: boolean; body: Buffer }> {
  const server: Server = createServer((_, response) => {
    const body = new ByteStream(bytes)
    body.on('error', () => response.destroy())
    body.pipe(response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  try {
    const asked = request({ host: '127.0.0.1', port, agent: false }).end()
    const [answer] = await once(asked, 'response')
    const chunks: Buffer[] = []
    const slow = new Writable({
      highWaterMark: 1,
      write: (chunk: Buffer, _, done) => {
        chunks.push(chunk)
        setImmediate(done)
      },
    })
    await new Promise<void>((resolve) => pipeline(answer, slow, () => resolve()))
    return { complete: answer.complete, body: Buffer.concat(chunks) }
  } finally {
    server.close()
  }
}

test('everything comes as it was, though each piece is emptied when it has left', async () => {
  const { complete, body } = await get(pieces(40))
  expect(complete).toBe(true)
  expect(body.length).toBe(40 * SIZE)
  for (let i = 0; i < 40; i += 1) {
    expect(body.subarray(i * SIZE, (i + 1) * SIZE).every((byte) => byte === i + 1)).toBe(true)
  }
})

test('what breaks in the middle breaks the answer', async () => {
  const { complete } = await get(pieces(3, new Error('x')))
  expect(complete).toBe(false)
})

test('a piece keeps its memory until it has left, and a reader that leaves ends the reading', async () => {
  const given: Buffer[] = []
  let returned = false
  async function* watched(): AsyncGenerator<Buffer> {
    try {
      for (const piece of [1, 2].map(() => Buffer.from(new ArrayBuffer(SIZE)))) {
        given.push(piece)
        yield piece
      }
    } finally {
      returned = true
    }
  }
  let left: (() => void) | undefined
  const began = Promise.withResolvers<void>()
  const target = new Writable({
    write: (_chunk, _, done) => {
      left = done
      began.resolve()
    },
  })
  const body = new ByteStream(watched())
  const failed = once(body, 'close').catch(() => undefined)
  body.on('error', () => undefined)
  body.pipe(target)
  await began.promise
  expect(given.map(({ length }) => length)).toEqual([SIZE])
  left?.()
  await new Promise((resolve) => setImmediate(resolve))
  expect(given.map(({ length }) => length)).toEqual([0, SIZE])
  target.destroy()
  await failed
  expect(returned).toBe(true)
})

test('a reader that stays and takes nothing is given up', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    const began = Promise.withResolvers<void>()
    const target = new Writable({ write: () => began.resolve() })
    const body = new ByteStream(pieces(2))
    const failed = once(body, 'error')
    body.pipe(target)
    await began.promise
    vi.advanceTimersByTime(TRANSFERS.idleMs)
    expect(String(await failed)).toContain('the receiver stopped reading')
  } finally {
    vi.useRealTimers()
  }
})
