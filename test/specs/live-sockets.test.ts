// The dashboard's socket: who may open one, how many, and the cost of a reader that does not read. Real sockets, both
// databases; live.test.ts covers the messages.

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { change, emit } from '../../control-plane/src/app/core/transaction.ts'
import { LIVE } from '../../control-plane/src/limits/browser.ts'
import { Browser, PASSWORD, setUpWithPassword } from '../fixtures/people/people.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { openDashboardClient } from '../fixtures/platform/dashboard-client.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { until } from '../fixtures/server/installation.ts'

const upTo = (count: number) => Array.from({ length: count }, (_, n) => n)

describe.each(ENGINES)('the socket on %s', (engine) => {
  let cp: TestControlPlane
  let organizationId = 0
  let projectId = 0
  const open: { close(): void }[] = []
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    organizationId = (await cp.setUp()).organization.id
    projectId = (await cp.project('shop', (await cp.server()).id)).id
  })
  afterEach(() => {
    for (const viewer of open.splice(0)) viewer.close()
  })
  afterAll(() => cp.close())

  const view = () => {
    const viewer = openDashboardClient(cp, cp.token)
    open.push(viewer)
    return viewer
  }
  const ctx = () => cp.running.ctx

  describe('the upgrade', () => {
    const socketUrl = () => `${cp.url.replace('http', 'ws')}/trpc`
    /** The status of the answer; for an opened socket also its messages and its close code. */
    function knock(
      headers: Record<string, string>,
      path = '',
    ): Promise<{ status: number; ended?: number; said: string }> {
      return new Promise((resolve, reject) => {
        const socket = new WebSocket(socketUrl() + path, { headers })
        let said = ''
        socket.once('unexpected-response', (_request, response) => {
          response.resume()
          socket.terminate()
          resolve({ status: response.statusCode ?? 0, said })
        })
        socket.on('message', (data) => {
          // an admitted client gets a parameter error; a refused one gets the reason, and the server closes
          if (String(data).includes('"invalid_parameter"')) socket.close(1000)
          else said += String(data)
        })
        socket.once('open', () => {
          socket.send(JSON.stringify({ id: 1, method: 'query', params: { path: 'me' } }))
          socket.once('close', (ended) => resolve({ status: 101, ended, said }))
        })
        socket.once('error', reject)
      })
    }
    const bearer = () => ({ authorization: `Bearer ${cp.token}` })
    const cookie = { cookie: 'session=whatever' }

    test.each<[string, () => Record<string, string>, number]>([
      ['our own page', () => ({ ...bearer(), origin: cp.url }), 101],
      ['a program without a browser', bearer, 101],
      ['a foreign page', () => ({ ...bearer(), origin: 'https://evil.example' }), 403],
      ['a foreign page with a cookie', () => ({ ...cookie, origin: 'https://evil.example' }), 403],
      ['our host at another port', () => ({ ...bearer(), origin: 'http://127.0.0.1:1' }), 403],
      [
        'our host as a part of another',
        () => ({ ...bearer(), origin: `${cp.url}.evil.example` }),
        403,
      ],
      ['a sandboxed frame', () => ({ ...bearer(), origin: 'null' }), 403],
      ['an empty origin', () => ({ ...bearer(), origin: '' }), 403],
      ['a cookie without an origin', () => cookie, 403],
    ])('%s', async (_who, headers, status) => {
      const answer = await knock(headers())
      expect(answer.status).toBe(status)
      if (status === 101) expect(answer).toMatchObject({ ended: 1000, said: '' })
    })

    test('nobody in particular: told so and closed', async () => {
      const answer = await knock({})
      expect(answer).toMatchObject({ status: 101, ended: 4401 })
      expect(answer.said).toContain('token_missing')
    })

    test('a token in the address opens nothing', async () => {
      expect(await knock({}, `?token=${cp.token}`)).toMatchObject({ ended: 4401 })
    })

    test('another path, and another protocol at an ordinary one', async () => {
      const socket = new WebSocket(`${cp.url.replace('http', 'ws')}/api/me`, {
        headers: bearer(),
      })
      const status = await new Promise((resolve) => {
        socket.once('unexpected-response', (_r, response) => resolve(response.statusCode))
        socket.once('error', () => {})
      })
      expect(status).toBe(404)
      socket.terminate()
      const answer = await fetch(`${cp.url}/api/health`)
      expect(answer.status).toBe(200)
    })

    test('foreign pages cannot call either, and no form can', async () => {
      const call = (headers: Record<string, string>, body = '{}') =>
        fetch(`${cp.url}/trpc/task.cancel`, {
          method: 'POST',
          headers: { ...bearer(), 'content-type': 'application/json', ...headers },
          body,
        })
      expect((await call({ origin: 'https://evil.example' })).status).toBe(403)
      expect((await call({ origin: 'null' })).status).toBe(403)
      expect((await call(cookie)).status).toBe(403)
      expect((await call({ origin: cp.url })).status).toBe(422)
      expect((await call({ 'content-type': 'text/plain' })).status).toBe(415)
      expect((await call({ 'content-type': 'multipart/form-data; boundary=x' })).status).toBe(415)
    })

    test('a person has so many sockets, and gets the place back', async () => {
      const sockets: WebSocket[] = []
      const dial = () =>
        new Promise<number | 'open'>((resolve) => {
          const socket = new WebSocket(socketUrl(), { headers: bearer() })
          sockets.push(socket)
          socket.once('close', resolve)
          socket.once('error', () => {})
          socket.once('open', () =>
            socket.send(JSON.stringify({ id: 1, method: 'query', params: { path: 'me' } })),
          )
          socket.once('message', (data) => {
            if (!String(data).includes('rate_limited')) resolve('open')
          })
        })
      const answers = await Promise.all(upTo(LIVE.socketsPerUser).map(dial))
      expect(new Set(answers)).toEqual(new Set(['open']))
      expect(await dial()).toBe(1013)
      const before = cp.running.sockets.size
      sockets[0]?.close()
      await until('a place', () => cp.running.sockets.size < before || undefined)
      expect(await dial()).toBe('open')
      for (const socket of sockets) socket.terminate()
      await until('all to be gone', () => cp.running.sockets.size === 0 || undefined)
    })
  })

  describe('a reader that does not read', () => {
    async function sleepy() {
      const socket = new WebSocket(`${cp.url.replace('http', 'ws')}/trpc`, {
        headers: { authorization: `Bearer ${cp.token}` },
      })
      const heard: { id: string; data: { body?: { n: number } } }[] = []
      socket.on('message', (data) => {
        const message = JSON.parse(String(data))
        if (message.result?.type === 'data') heard.push(message.result.data)
      })
      const closed = new Promise<true>((resolve) => socket.once('close', () => resolve(true)))
      socket.on('error', () => {})
      await new Promise((resolve) => socket.once('open', resolve))
      return { socket, heard, closed }
    }
    const subscribe = (lastEventId?: string) =>
      JSON.stringify({
        id: 1,
        method: 'subscription',
        params: { path: 'project.events', input: { project_id: projectId }, lastEventId },
      })
    const big = 'x'.repeat(3_000)
    const flood = (from: number, count: number) =>
      change(ctx(), async (c) => {
        for (const n of upTo(count)) {
          const about = { organizationId, projectId: projectId }
          emit(c, about, 'project.updated', { n: from + n, big })
        }
      })
    const buffered = () => Math.max(0, ...[...cp.running.sockets.buffered()])

    test('costs little, is closed after a while, and resumes by number', async () => {
      const first = await sleepy()
      first.socket.send(subscribe())
      await until('the subscription', () => cp.running.sockets.subscriptions === 1 || undefined)
      first.socket.pause()
      let sent = 0
      // exceeds the kernel's buffer, so the rest waits in the process
      await until('the socket to be full', async () => {
        await flood(sent, 400)
        sent += 400
        return buffered() > LIVE.bufferBytes || undefined
      })
      await flood(sent, 2_000)
      sent += 2_000
      expect(buffered()).toBeLessThan(2 * LIVE.bufferBytes)
      cp.clock.offsetMs += LIVE.stallMs + 1_000
      await until('the server to close it', () => cp.running.sockets.size === 0 || undefined)
      first.socket.resume()
      await first.closed
      const got = first.heard.length - 1 // except the message that it began
      expect(got).toBeLessThan(sent)
      const second = await sleepy()
      second.socket.send(subscribe(first.heard.at(-1)?.id))
      await until('the rest', () => got + second.heard.length >= sent || undefined)
      const all = [...first.heard, ...second.heard].flatMap((m) => m.data.body?.n ?? [])
      expect(all).toEqual(upTo(sent))
      second.socket.terminate()
    })

    test('and one that makes us talk is cut off at the bound', async () => {
      const { socket, closed } = await sleepy()
      socket.pause()
      const nonsense = JSON.stringify(
        upTo(500).map((n) => ({ id: n, method: 'query', params: { path: 'nowhere' } })),
      )
      const over = until('the server to close it', () => {
        if (cp.running.sockets.size === 0) return true
        if (socket.readyState === socket.OPEN) socket.send(nonsense)
        return undefined
      })
      await over
      socket.resume()
      await closed
    })

    test('what it sends has a bound, too', async () => {
      const { socket } = await sleepy()
      const code = new Promise((resolve) => socket.once('close', resolve))
      socket.send('x'.repeat(LIVE.messageBytes + 1))
      expect(await code).toBe(1009)
    })
  })

  test('a page watches so many things, and only over the socket', async () => {
    const { client, watch } = view()
    const many = upTo(LIVE.subscriptionsPerSocket).map(() =>
      watch(client.project.events, { project_id: projectId }),
    )
    await Promise.all(many.map((heard) => heard.started()))
    const over = watch(client.project.events, { project_id: projectId })
    expect(await over.refused()).toMatchObject({ code: 'rate_limited' })
    many[0]?.stop()
    await until('a place', async () => {
      const again = watch(client.project.events, { project_id: projectId })
      return (
        (await Promise.race([again.started().then(() => true), again.refused()])) === true ||
        undefined
      )
    })
    const sse = await fetch(`${cp.url}/trpc/project.events?input=%7B%22project_id%22%3A1%7D`, {
      headers: { authorization: `Bearer ${cp.token}` },
    })
    expect(sse.status).toBe(400)
  })
})

describe.each(ENGINES)('a browser with its session on %s', (engine) => {
  let cp: TestControlPlane
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await setUpWithPassword(cp)
  })
  afterAll(() => cp.close())

  async function signedIn() {
    const browser = new Browser(cp)
    expect((await browser.signIn('ada@example.com', PASSWORD)).status).toBe(200)
    const headers = { cookie: browser.cookie, origin: cp.url }
    return { browser, headers }
  }

  test('watches, asks and changes with its cookie, until it signs out', async () => {
    const { browser, headers } = await signedIn()
    const asked = await fetch(`${cp.url}/trpc/me`, { headers: { cookie: browser.cookie } })
    const me = (await asked.json()) as { result: { data: { organizations: { id: number }[] } } }
    const organizationId = me.result.data.organizations[0]?.id ?? 0
    const socket = new WebSocket(`${cp.url.replace('http', 'ws')}/trpc`, { headers })
    const said: string[] = []
    socket.on('message', (data) => said.push(String(data)))
    const closed = new Promise<[number, string]>((resolve) =>
      socket.once('close', (code, reason) => resolve([code, String(reason)])),
    )
    await new Promise((resolve) => socket.once('open', resolve))
    const params = { path: 'organization.events', input: { organization_id: organizationId } }
    socket.send(JSON.stringify({ id: 1, method: 'subscription', params }))
    await until('the beginning', () => said.some((m) => m.includes('"begun"')) || undefined)
    await cp.server('one')
    const server = await cp.server('two')
    await cp.project('shop', server.id)
    await until('an event', () => said.some((m) => m.includes('project.created')) || undefined)
    const heard = said.length
    await browser.send('POST', '/sign-out')
    cp.clock.offsetMs += 5_000
    await cp.project('late', server.id)
    expect(await closed).toEqual([4401, 'token_missing'])
    expect(said.slice(heard).join('')).not.toContain('project.created')
    const again = await fetch(`${cp.url}/trpc/me`, { headers: { cookie: headers.cookie } })
    expect(again.status).toBe(401)
  })

  test('a foreign page with the cookie gets nothing', async () => {
    const { headers } = await signedIn()
    const status = (over: Record<string, string>) =>
      new Promise<number>((resolve) => {
        const socket = new WebSocket(`${cp.url.replace('http', 'ws')}/trpc`, {
          headers: { cookie: headers.cookie, ...over },
        })
        socket.once('unexpected-response', (_r, response) => resolve(response.statusCode ?? 0))
        socket.once('open', () => {
          socket.terminate()
          resolve(101)
        })
        socket.once('error', () => {})
      })
    expect(await status({ origin: 'https://evil.example' })).toBe(403)
    expect(await status({ origin: 'null' })).toBe(403)
    expect(await status({})).toBe(403)
    expect(await status({ origin: cp.url })).toBe(101)
    const ask = (over: Record<string, string>) =>
      fetch(`${cp.url}/trpc/me`, { headers: { cookie: headers.cookie, ...over } })
    expect((await ask({ 'sec-fetch-site': 'cross-site' })).status).toBe(403)
    expect((await ask({ 'sec-fetch-site': 'same-site' })).status).toBe(403)
    expect((await ask({ 'sec-fetch-site': 'same-origin' })).status).toBe(200)
  })
})
