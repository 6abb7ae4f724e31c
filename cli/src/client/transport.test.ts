// One exchange from the caller's view: the answer is what was sent, and failures say what broke.
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterEach, describe, expect, it } from 'vitest'
import { noAnswer } from './problem.ts'
import { exchange, type Reply } from './transport.ts'

let server: Server
let connections = 0
afterEach(() => {
  server.closeAllConnections()
  server.close()
})

async function answering(listener: RequestListener): Promise<URL> {
  connections = 0
  server = createServer(listener).on('connection', () => {
    connections += 1
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/api?a=1`)
}

const ask = (at: URL, more: { method?: string; body?: string; signal?: AbortSignal } = {}) =>
  exchange(at, { method: 'GET', headers: {}, signal: new AbortController().signal, ...more })

async function textOf({ body }: Reply): Promise<string> {
  const chunks: Uint8Array[] = []
  for await (const chunk of body) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}

const reasonOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'nothing broke',
    (error: unknown) => noAnswer(error, 'http://x', false).message,
  )

describe('an exchange', () => {
  it('brings status, headers and bytes, over one connection', async () => {
    const at = await answering((req, res) => {
      res.setHeader('x-b', 'two')
      res.setHeader('x-a', ['one', 'more'])
      res.statusCode = 418
      req.pipe(res)
    })
    const first = await ask(at, { method: 'DELETE', body: 'ü' })
    expect([first.status, await textOf(first)]).toEqual([418, 'ü'])
    expect([first.headers.get('X-A'), first.headers.get('x-c')]).toEqual(['one, more', null])
    expect([...first.headers].slice(-2).map(([name]) => name)).toEqual(['x-a', 'x-b'])
    expect(await textOf(await ask(at, { method: 'POST' }))).toBe('')
    expect(connections).toBe(1)
  })

  it('unpacks what a proxy packed', async () => {
    const at = await answering((_, res) => {
      res.setHeader('content-encoding', 'gzip')
      res.end(gzipSync('hello'))
    })
    expect(await textOf(await ask(at))).toBe('hello')
  })

  it('finds nothing packed where there is nothing', async () => {
    const at = await answering((req, res) => {
      const isKnown = req.method === 'GET'
      res.writeHead(isKnown ? 304 : 200, { 'content-encoding': 'gzip' }).end()
    })
    for (const method of ['HEAD', 'GET']) expect(await textOf(await ask(at, { method }))).toBe('')
  })

  it('follows no redirect', async () => {
    const at = await answering((_, res) => void res.writeHead(302, { location: '/x' }).end())
    const reply = await ask(at)
    expect([reply.status, reply.headers.get('location')]).toEqual([302, '/x'])
    reply.cancel()
  })

  it('throws when the answer is cut, packed or not', async () => {
    const at = await answering((req, res) => {
      const isPacked = req.method === 'POST'
      const bytes = isPacked ? gzipSync('hello'.repeat(99)) : Buffer.from('hello'.repeat(99))
      res.writeHead(200, {
        'content-length': bytes.length,
        ...(isPacked ? { 'content-encoding': 'gzip' } : {}),
      })
      res.write(bytes.subarray(0, 9), () => res.destroy())
    })
    for (const method of ['GET', 'POST']) {
      expect(await reasonOf(ask(at, { method }).then(textOf))).toMatch(
        /^no contact with http:\/\/x/,
      )
    }
  })

  it('says how it broke', async () => {
    const at = await answering((req) => void req.socket.destroy())
    expect(await reasonOf(ask(at))).toBe('no contact with http://x (connection closed)')
    const nowhere = new URL('http://127.0.0.1:9')
    expect(await reasonOf(ask(nowhere))).toBe('no contact with http://x (connection refused)')
  })

  it('ends when its signal says so, before and while the answer comes', async () => {
    const stop = new AbortController()
    const at = await answering((_, res) => void res.writeHead(200).flushHeaders())
    const reply = await ask(at, { signal: stop.signal })
    const read = reasonOf(textOf(reply))
    stop.abort()
    expect(await read).not.toBe('nothing broke')
    await expect(ask(at, { signal: stop.signal })).rejects.toThrow('the request failed')
  })
})
