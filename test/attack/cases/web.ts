// The proxy in front of environments and the control plane's own gateway: hostnames, smuggled requests, headers of the
// platform, foreign pages, slow clients.
import { connect } from 'node:net'
import { type Case, found, must } from '../case.ts'
import { withOrdinaryLimits } from '../plain.ts'
import { isWhole, sendRaw, statusOf } from '../raw.ts'
import { type AttackedInstallation, PASSWORD } from '../target.ts'

const openAnswers = async (w: AttackedInstallation): Promise<void> =>
  must((await w.visit(w.mallory.host())).text.includes('implant mallory'), 'the open host is away')

/** Bytes to the proxy that the guarded application must never answer. */
const atProxy = (
  title: string,
  bytes: (w: AttackedInstallation) => string,
  isImportant = false,
): Case => ({
  subject: 'web',
  title,
  isImportant,
  async control(w) {
    await openAnswers(w)
    const request = `GET / HTTP/1.1\r\nHost: ${w.victim.host()}\r\nAuthorization: ${w.friend().authorization}\r\nConnection: close\r\n\r\n`
    must(
      (await sendRaw(w.fixture.proxyPort, request)).includes('implant victim'),
      'the password does not work',
    )
  },
  async attack(w) {
    return found(await sendRaw(w.fixture.proxyPort, bytes(w), undefined, 8_000), /implant victim/)
  },
})

const lines = (...list: string[]): string => `${list.join('\r\n')}\r\n\r\n`

/** A request as a page of another site would send it, with the cookies of a signed-in user. */
const foreignPage = (title: string, path: string, type: string, body: string): Case => ({
  subject: 'web',
  title,
  async control(w) {
    const headers = { cookie: w.member.cookie, origin: w.fixture.url }
    const { status, text } = await w.api(
      undefined,
      'GET',
      '/api/auth/get-session',
      undefined,
      headers,
    )
    must(status === 200 && text.includes('mike@'), `the cookie is not believed: ${status} ${text}`)
  },
  async attack(w) {
    for (const origin of [
      'https://evil.example.com',
      'null',
      `${w.fixture.url}.evil.example.com`,
    ]) {
      const headers = { cookie: w.member.cookie, origin, 'content-type': type }
      const { status, text } = await w.api(undefined, 'POST', path, body, headers)
      if (status < 400) return `${origin}: ${status} ${text.slice(0, 100)}`
    }
    return undefined
  },
})

export const WEB: Case[] = [
  atProxy(
    'a guarded host asks for its password',
    (w) => lines('GET / HTTP/1.1', `Host: ${w.victim.host()}`, 'Connection: close'),
    true,
  ),
  atProxy('a host in other letters or with a dot does not lead past the password', (w) =>
    lines('GET / HTTP/1.1', `Host: ${w.victim.host().toUpperCase()}.`, 'Connection: close'),
  ),
  atProxy('an absolute address does not lead past the password', (w) =>
    lines(
      `GET http://${w.victim.host()}/ HTTP/1.1`,
      `Host: ${w.mallory.host()}`,
      'Connection: close',
    ),
  ),
  atProxy('two Host lines do not lead past the password', (w) =>
    lines(
      'GET / HTTP/1.1',
      `Host: ${w.mallory.host()}`,
      `Host: ${w.victim.host()}`,
      'Connection: close',
    ),
  ),
  atProxy(
    'a request hidden in the length of another is not performed',
    (w) => {
      const hidden = lines('GET / HTTP/1.1', `Host: ${w.victim.host()}`)
      return `POST / HTTP/1.1\r\nHost: ${w.mallory.host()}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`
    },
    true,
  ),
  atProxy('a made-up secret of the probe does not lead past the password', (w) =>
    lines(
      'GET / HTTP/1.1',
      `Host: ${w.victim.host()}`,
      'X-Berth-Probe: 1',
      'X-Berth-Upstream: x',
      'Connection: close',
    ),
  ),
  atProxy(
    'names of the proxy’s own zone lead nowhere',
    (w) =>
      lines('GET / HTTP/1.1', `Host: ${w.victim.host()}.berth.internal`, 'Connection: close') +
      lines('GET / HTTP/1.1', 'Host: rdeadbeef.berth-own.internal', 'Connection: close'),
  ),
  {
    subject: 'web',
    title: 'an application never sees the password that guards it',
    control: (w) =>
      w
        .visit(w.victim.host(), '/', w.friend())
        .then(({ status }) => must(status === 200, `answered ${status}`)),
    async attack(w) {
      const { text } = await w.visit(w.victim.host(), '/headers', w.friend())
      must(text.includes('"host"'), `no headers: ${text}`)
      return found(text, /authorization/i)
    },
  },
  foreignPage(
    'a page of another site cannot change anything by tRPC',
    '/trpc/projects.create',
    'application/json',
    '{}',
  ),
  foreignPage(
    'a form of another site cannot sign anybody out or change a password',
    '/api/auth/change-password',
    'text/plain',
    '{"currentPassword":"x","newPassword":"y"}',
  ),
  {
    subject: 'web',
    title: 'a socket from a foreign page is refused',
    isImportant: true,
    async control(w) {
      const { port } = new URL(w.fixture.url)
      const answer = await sendRaw(Number(port), upgrade(w, w.fixture.url), (text) =>
        text.includes('\r\n\r\n'),
      )
      must(statusOf(answer) === 101, `an own page gets ${answer.slice(0, 60)}`)
    },
    async attack(w) {
      const { port } = new URL(w.fixture.url)
      for (const origin of ['https://evil.example.com', 'null']) {
        const answer = await sendRaw(Number(port), upgrade(w, origin), (text) =>
          text.includes('\r\n\r\n'),
        )
        if (statusOf(answer) === 101) return `${origin} was let in`
      }
      return undefined
    },
  },
  {
    subject: 'web',
    title: 'a token in an address opens nothing',
    control: async (w) =>
      must(
        (await w.api(w.fixture.token, 'GET', '/api/me')).status === 200,
        'the token does not work',
      ),
    async attack(w) {
      for (const name of ['token', 'access_token', 'bearer']) {
        const { status } = await w.api(undefined, 'GET', `/api/me?${name}=${w.fixture.token}`)
        if (status < 400) return `?${name}= is believed`
      }
      return undefined
    },
  },
  {
    subject: 'web',
    title: 'no path leaves the folder of the dashboard',
    control: async (w) => must((await w.api(undefined, 'GET', '/')).status === 200, 'no dashboard'),
    async attack(w) {
      const { port } = new URL(w.fixture.url)
      for (const path of [
        '/../../../../etc/passwd',
        '/..%2f..%2f..%2fetc%2fpasswd',
        '/assets/..%5c..%5cpackage.json',
        '/%2e%2e/%2e%2e/package.json',
        '//etc/passwd',
        '/assets/../../../package.json',
      ]) {
        const answer = await sendRaw(
          Number(port),
          lines(`GET ${path} HTTP/1.1`, 'Host: x', 'Connection: close'),
        )
        const got = found(answer, /root:x:0|"packageManager"/)
        if (got) return `${path}: ${got}`
      }
      return undefined
    },
  },
  {
    subject: 'web',
    title: 'methods without a handler are refused, never a fault',
    control: async (w) =>
      must((await w.api(w.fixture.token, 'GET', '/api/projects')).status === 200, 'no list'),
    async attack(w) {
      const { port } = new URL(w.fixture.url)
      for (const method of ['QUERY', 'TRACE', 'PROPFIND', 'PURGE', 'LINK', 'BREW']) {
        const request = lines(
          `${method} /api/projects HTTP/1.1`,
          'Host: x',
          `Authorization: Bearer ${w.fixture.token}`,
          'Connection: close',
        )
        const status = statusOf(await sendRaw(Number(port), request, isWhole))
        if (status >= 500 || status < 400) return `${method}: ${status}`
      }
      return undefined
    },
  },
  {
    subject: 'web',
    title: 'wrong passwords are throttled, also where one is changed',
    isImportant: true,
    control: () =>
      withOrdinaryLimits(async (plain) => {
        const cookie = await plain.signUp(PASSWORD)
        must(cookie !== '', 'cannot sign in')
      }),
    attack: () =>
      withOrdinaryLimits(async (plain) => {
        const cookie = await plain.signUp(PASSWORD)
        let status = 0
        for (let n = 0; n < 30; n += 1) {
          status = await plain.changePassword(cookie, `wrong ${n}`)
          if (status === 429) return undefined
        }
        return `30 wrong passwords, the last one answered ${status}`
      }),
  },
  {
    subject: 'web',
    title: 'half-open requests are ended, and others are answered meanwhile',
    control: async (w) =>
      must((await w.api(undefined, 'GET', '/api/health')).status === 200, 'no health'),
    async attack(w) {
      const { port } = new URL(w.fixture.url)
      const sockets = Array.from({ length: 200 }, () => connect(Number(port), '127.0.0.1'))
      let open = sockets.length
      const ended = new Promise<void>((resolve) => {
        for (const socket of sockets) {
          socket.on('error', () => undefined)
          socket.on('connect', () =>
            socket.write('POST /api/setup HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n'),
          )
          socket.on('close', () => {
            open -= 1
            if (open === 0) resolve()
          })
          socket.resume()
        }
      })
      const { status } = await w.api(undefined, 'GET', '/api/health')
      const bound = new Promise<void>((resolve) => setTimeout(resolve, 25_000))
      await Promise.race([ended, bound])
      for (const socket of sockets) socket.destroy()
      if (status !== 200) return `others are answered ${status}`
      return open > 0 ? `${open} of 200 are open after 25 s` : undefined
    },
  },
]

const upgrade = (w: AttackedInstallation, origin: string): string =>
  lines(
    'GET /trpc?connectionParams=1 HTTP/1.1',
    `Host: ${new URL(w.fixture.url).host}`,
    'Upgrade: websocket',
    'Connection: Upgrade',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    'Sec-WebSocket-Version: 13',
    `Origin: ${origin}`,
    `Cookie: ${w.member.cookie}`,
  )
