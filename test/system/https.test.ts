// HTTPS of the control plane itself, against a real ACME server: first certificate, restart, renewal, refusals with
// their reason, crashes, files of one's own, and a server that joins through it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { type ClientRequest, type IncomingMessage, request as plainRequest } from 'node:http'
import { Agent, type RequestOptions, request } from 'node:https'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as tls from 'node:tls'
import { REST } from '@berth/shared'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { examine } from '../../control-plane/src/commands/doctor/doctor.ts'
import { readConfig } from '../../control-plane/src/config.ts'
import {
  createAuthority,
  issueServerCertificate,
  loadAuthority,
} from '../../control-plane/src/keys/authority.ts'
import { Pebble } from '../fixtures/acme/pebble.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { runServerCommand } from '../fixtures/platform/server-command.ts'
import { until } from '../fixtures/server/installation.ts'
import { freePort } from '../fixtures/server/installation-docker.ts'
import { AGENT_MAIN, CONTROL_PLANE_MAIN } from '../fixtures/server/programs.ts'

const DOMAIN = 'deploy.example.com'
const DAY = 86_400_000
const isRoot = process.getuid?.() === 0
const METRICS_TOKEN = 'a-token-of-the-monitoring'

interface Seen {
  status: number
  headers: Record<string, string | string[] | undefined>
  text: string
}

/** A name server of the test knows the domain, the machine does not. */
const here = { host: '127.0.0.1', agent: false } as const

function ask(
  make: (options: RequestOptions, answered: (answer: IncomingMessage) => void) => ClientRequest,
  options: RequestOptions,
  body?: string,
): Promise<Seen> {
  return new Promise((resolve, reject) => {
    const call = make(options, (answer) => {
      let text = ''
      answer.on('data', (chunk) => {
        text += chunk
      })
      answer.on('end', () =>
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text }),
      )
    })
    call.on('error', reject)
    call.end(body)
  })
}

/** What a client sees that trusts nothing but `ca`; rejects otherwise. */
const askHttps = (port: number, ca: string, path = '/api/health', headers = {}): Promise<Seen> =>
  ask(request, { ...here, port, path, ca, servername: DOMAIN, headers })

async function serialOf(port: number): Promise<{ serial: string; issuer: string }> {
  const options = { host: '127.0.0.1', port, servername: DOMAIN, rejectUnauthorized: false }
  const socket = tls.connect(options)
  await once(socket, 'secureConnect')
  const { serialNumber: serial, issuer } = socket.getPeerX509Certificate() ?? {}
  socket.destroy()
  return { serial: serial ?? '', issuer: issuer ?? '' }
}

const folder = mkdtempSync(join(tmpdir(), 'berth-https-'))
let pebble: Pebble
let ports: { https: number; http: number }
let cp: TestControlPlane | undefined
const trusted = tls.getCACertificates('default')

beforeAll(async () => {
  ports = { https: await freePort(), http: await freePort() }
  pebble = await Pebble.start({ httpPort: ports.http })
  tls.setDefaultCACertificates([...trusted, pebble.ca]) // as an operator does for an authority of their own
})
afterEach(async () => {
  await cp?.close()
  cp = undefined
})
afterAll(async () => {
  tls.setDefaultCACertificates(trusted)
  await pebble?.stop()
  rmSync(folder, { recursive: true, force: true })
})

const environment = (): Record<string, string> => ({
  BERTH_DOMAIN: DOMAIN,
  BERTH_HOST: '127.0.0.1',
  BERTH_PORT: String(ports.https),
  BERTH_HTTP_PORT: String(ports.http),
  BERTH_ACME_DIRECTORY: pebble.directory,
  BERTH_ACME_EMAIL: 'ada@example.com',
  BERTH_METRICS_TOKEN: METRICS_TOKEN,
})

/** Returns after the first look at the certificate. */
async function start(env: Record<string, string> = {}): Promise<TestControlPlane> {
  const all = { ...environment(), ...env }
  cp = await TestControlPlane.start('sqlite', { env: all, config: { port: ports.https } })
  await cp.running.certified
  return cp
}

const commandEnv = (at: TestControlPlane): Record<string, string> => ({
  ...environment(),
  BERTH_DATA_DIR: at.dir,
  BERTH_CONFIG_FILE: '',
})

async function inspect(at: TestControlPlane): Promise<string[]> {
  const config = { ...at.running.ctx.config, agentPort: at.running.gateway.port }
  const found = await examine(config)
  return found
    .filter(({ subject }) => /^(HTTPS|port of (?!agents)|domain)/.test(subject))
    .map(({ subject, status, message, fix }) => `${status} ${subject}: ${message} → ${fix}`)
}

describe('with a name that leads here', () => {
  beforeAll(() => pebble.names.records.set(DOMAIN, '127.0.0.1'))

  test('it gets a certificate, serves everything over it, and sends plain HTTP on', async () => {
    const before = pebble.orders
    const at = await start()
    expect(pebble.orders - before).toBe(1)
    const root = await pebble.root()
    const health = await askHttps(ports.https, root)
    expect([health.status, health.headers['strict-transport-security']]).toEqual([
      200,
      'max-age=31536000',
    ])
    expect(at.url).toBe(`https://${DOMAIN}:${ports.https}`)

    const plain = (method: string, path: string): Promise<Seen> =>
      ask(plainRequest, { ...here, port: ports.http, method, path })
    expect(await plain('GET', '/servers/7?tab=log')).toMatchObject({
      status: 308,
      headers: { location: `${at.url}/servers/7?tab=log` },
    })
    expect(await plain('POST', '/api/setup')).toMatchObject({ status: 400 })
    expect((await plain('GET', '/.well-known/acme-challenge/unknown')).status).toBe(308)

    const options = { ca: root, servername: DOMAIN, origin: at.url }
    const socket = new WebSocket(`wss://127.0.0.1:${ports.https}/trpc`, options)
    await once(socket, 'open')
    socket.close()
    await once(socket, 'close')

    for (const name of readdirSync(join(at.dir, 'tls'))) {
      expect([name, statSync(join(at.dir, 'tls', name)).mode & 0o777]).toEqual([name, 0o600])
    }
    const authorization = `Bearer ${METRICS_TOKEN}`
    const { text } = await askHttps(ports.https, root, '/metrics', { authorization })
    const [, until = ''] = /expiry_timestamp_seconds\{of="https"\} (\S+)/.exec(text) ?? []
    expect(Number(until) * 1_000 - Date.now()).toBeGreaterThan(80 * DAY)
    expect(text).toContain('berth_certificate_failures 0')
    const lines = await inspect(at)
    expect(lines.filter((line) => !line.startsWith('ok'))).toEqual([])
    expect(lines.join('\n')).toMatch(/HTTPS certificate of deploy.example.com: valid for 89 days/)
    expect(lines.join('\n')).toContain('port of plain HTTP: this control plane listens')
  })

  test('a restart orders nothing; after two thirds of its life it is renewed without one', async () => {
    const at = await start()
    const first = await serialOf(ports.https)
    const orders = pebble.orders
    await at.restart()
    await at.running.certified
    expect([pebble.orders, await serialOf(ports.https)]).toEqual([orders, first])
    at.clock.offsetMs = 61 * DAY // the running one notices it
    const second = await until('another certificate', async () => {
      const now = await serialOf(ports.https)
      return now.serial === first.serial ? undefined : now
    })
    expect([pebble.orders, second.issuer]).toEqual([orders + 1, first.issuer])
  })

  test('a refusal keeps the old certificate in use, and says why', async () => {
    const at = await start()
    const { serial } = await serialOf(ports.https)
    pebble.names.records.delete(DOMAIN)
    try {
      rmSync(join(at.dir, 'tls/account.json')) // a known account might be believed without a look
      const said = await runServerCommand(['renew-certificate'], commandEnv(at))
      expect(said).toMatchObject({ code: 0, said: expect.stringContaining(DOMAIN) })
      const { certificates } = at.running.ctx
      const problem = await until('the refusal', () => {
        const { problem: now } = certificates?.status ?? {}
        return now?.message.includes('answered:') ? now : undefined
      })
      expect(problem).toMatchObject({
        message: expect.stringContaining(DOMAIN),
        fix: expect.stringContaining(`${DOMAIN} leads here`),
      })
      expect(await serialOf(ports.https)).toMatchObject({ serial })
      const orders = pebble.orders
      for (const _ of ['once', 'twice', 'three times']) {
        await at.restart()
        await at.running.certified
      }
      expect(pebble.orders).toBe(orders)
      expect((await inspect(at)).join('\n')).toMatch(
        /warning HTTPS certificate of \S+: the try at .* failed: .* → Open port .* renew-certificate/,
      )
      at.clock.offsetMs = 2 * 60_000 // it tries again by itself only when one is due
      await at.restart()
      await at.running.certified
      expect(pebble.orders).toBe(orders)
    } finally {
      pebble.names.records.set(DOMAIN, '127.0.0.1')
    }
  })

  test('silent connections are limited as without TLS; those that wait for a next request stay', async () => {
    await start()
    const ca = await pebble.root()
    const agent = new Agent({ keepAlive: true, ca, servername: DOMAIN, maxFreeSockets: 1_000 })
    const options = { host: '127.0.0.1', port: ports.https, path: '/health/live', agent }
    const waiting = (): number => Object.values(agent.freeSockets).flat().length
    const silent: tls.TLSSocket[] = []
    try {
      while (waiting() <= REST.halfOpen) {
        const open = waiting() // a request takes a connection that waits, so one more each time
        await Promise.all(Array.from({ length: open + 10 }, () => ask(request, options)))
      }
      const kept = waiting()
      const connect = (): tls.TLSSocket =>
        tls.connect({ host: '127.0.0.1', port: ports.https, servername: DOMAIN, ca })
      silent.push(...Array.from({ length: REST.halfOpen + 10 }, connect))
      for (const socket of silent) socket.on('error', () => {})
      await Promise.race(silent.map((socket) => once(socket, 'close')))
      expect(waiting()).toBe(kept)
    } finally {
      for (const socket of silent) socket.destroy()
      agent.destroy()
    }
  })

  test('its port for plain HTTP is taken: everything else works, and the reason is shown', async () => {
    const other = createServer((socket) => socket.destroy()).listen(ports.http, '127.0.0.1')
    await once(other, 'listening')
    try {
      const at = await start()
      expect(at.running.ctx.certificates?.status.problem?.message).toContain('EADDRINUSE')
      const { authority } = at.running.ctx
      expect((await askHttps(ports.https, authority.certificatePem)).status).toBe(200)
      const lines = await inspect(at)
      expect(lines.join('\n')).toMatch(/problem port of plain HTTP: another program listens/)
      expect(lines.join('\n')).toMatch(/problem HTTPS certificate of \S+: the try at/)
    } finally {
      other.close()
      await once(other, 'close')
    }
  })

  test.skipIf(!isRoot)('a server joins, also before there is a certificate', async () => {
    pebble.names.records.delete(DOMAIN)
    const hosts = join(folder, 'hosts')
    writeFileSync(hosts, `127.0.0.1 localhost ${DOMAIN}\n`)
    const steps = 'mount --bind "$1" /etc/hosts; shift; exec "$@"'
    try {
      const at = await start()
      const { caHash, certificatePem } = at.running.ctx.authority
      const post = async (path: string, body: object): Promise<Record<string, string>> => {
        const headers = {
          'content-type': 'application/json',
          ...(at.token ? { authorization: `Bearer ${at.token}` } : {}),
        }
        const options = { ...here, port: ports.https, path, servername: DOMAIN, headers }
        const ca = [certificatePem, await pebble.root()]
        const sent = { ...options, method: 'POST', ca }
        const { status, text } = await ask(request, sent, JSON.stringify(body))
        expect([path, status]).toEqual([path, 201])
        return JSON.parse(text)
      }
      const { setupToken } = at.running
      const people = { name: 'Ada', email: 'ada@example.com', organization: 'Acme' }
      at.token = (await post('/api/setup', { token: setupToken, ...people })).token ?? ''
      const server = await post('/api/servers', { name: 'one', hostname: 'one.example.com' })
      const joinAt = async (state: string): Promise<number | null> => {
        const path = `/api/servers/${server.id}/join_token`
        const { token = '' } = await post(path, { rejoin: state !== 'first' })
        expect(token.endsWith(caHash)).toBe(true)
        const argv = [process.execPath, AGENT_MAIN, 'join', at.url, '-']
        const child = spawn('unshare', ['-m', 'sh', '-euc', steps, 'sh', hosts, ...argv], {
          env: { PATH: process.env.PATH, BERTH_STATE_DIR: join(folder, state) },
          stdio: ['pipe', 'ignore', 'inherit'],
        })
        child.stdin?.end(token)
        const [code] = await once(child, 'exit')
        return code
      }
      expect(await joinAt('first')).toBe(0)
      pebble.names.records.set(DOMAIN, '127.0.0.1')
      await runServerCommand(['renew-certificate'], commandEnv(at))
      await until('the certificate', () => at.running.ctx.certificates?.until)
      // by now the chain ends at pebble's root, which neither the machine nor the token knows
      expect(await joinAt('second')).not.toBe(0)
    } finally {
      pebble.names.records.set(DOMAIN, '127.0.0.1')
    }
  })
})

test('a crash in the middle of each order does not begin the next one', async () => {
  const slow = await Pebble.start({
    httpPort: ports.http,
    env: { PEBBLE_VA_NOSLEEP: '0', PEBBLE_VA_SLEEPTIME: '600' },
  })
  const data = join(folder, 'crash')
  const env = {
    PATH: process.env.PATH,
    ...environment(),
    BERTH_ACME_DIRECTORY: slow.directory,
    NODE_EXTRA_CA_CERTS: slow.caFile,
    BERTH_AGENT_PORT: '0',
    BERTH_CONFIG_FILE: '',
    BERTH_DATA_DIR: data,
  }
  try {
    for (const round of [1, 2, 3]) {
      const child = spawn(process.execPath, [CONTROL_PLANE_MAIN, 'serve'], {
        env,
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      let said = ''
      child.stdout?.on('data', (chunk) => {
        said += chunk
      })
      const ended = once(child, 'exit')
      // the first is asked to prove the name; later ones say that they wait
      const isThere = (): boolean =>
        round === 1 ? slow.challenged > 0 : said.includes('HTTPS certificate of')
      await until('it', () => isThere() || undefined)
      child.kill('SIGKILL')
      await ended
      if (round > 1) expect(said).toContain('ended before the authority answered')
    }
    expect(slow.orders).toBe(1)
  } finally {
    await slow.stop()
  }
})

describe('refusals of other kinds', () => {
  test('an authority that is away, and a name that it does not issue for', async () => {
    const away = await start({ BERTH_ACME_DIRECTORY: 'https://127.0.0.1:1/dir' })
    expect(away.running.ctx.certificates?.status).toMatchObject({
      failures: 1,
      problem: { message: '127.0.0.1:1 could not be reached (ECONNREFUSED)' },
    })
    await away.close()
    cp = undefined
    const blocked = await start({ BERTH_DOMAIN: 'blocked.example.com' })
    expect(blocked.running.ctx.certificates?.status.problem).toMatchObject({
      message: expect.stringContaining('blocked.example.com'),
      fix: expect.stringContaining('BERTH_DOMAIN'),
    })
  })
})

describe('with files of the operator', () => {
  test('they are used, replaced without a restart, and a wrong one changes nothing', async () => {
    const authority = await loadAuthority(await createAuthority(new Date()))
    const [certificate, key] = [join(folder, 'own.pem'), join(folder, 'own.key')]
    const place = async (name: string): Promise<void> => {
      const made = await issueServerCertificate(authority, { names: [name], now: new Date() })
      writeFileSync(key, made.keyPem)
      writeFileSync(certificate, made.certificatePem)
    }
    await place(DOMAIN)
    const orders = pebble.orders
    const env = { BERTH_TLS_CERTIFICATE_FILE: certificate, BERTH_TLS_KEY_FILE: key }
    const at = await start(env)
    expect((await askHttps(ports.https, authority.certificatePem)).status).toBe(200)
    const first = await serialOf(ports.https)
    await place('other.example.com')
    await until('the problem', () => at.running.ctx.certificates?.status.problem)
    expect(await serialOf(ports.https)).toEqual(first)
    expect((await inspect(at)).join('\n')).toMatch(/problem HTTPS .* it is not for deploy.example/)
    await place(DOMAIN)
    await until(
      'the new one',
      async () => (await serialOf(ports.https)).serial !== first.serial || undefined,
    )
    expect([pebble.orders, at.running.ctx.certificates?.status.problem]).toEqual([
      orders,
      undefined,
    ])
  })

  test('settings that contradict each other are refused', () => {
    const read = (env: Record<string, string>) => () =>
      readConfig({ BERTH_CONFIG_FILE: '', ...env })
    expect(read({ BERTH_DOMAIN: DOMAIN, BERTH_URL: 'https://other.example.com' })).toThrow(
      'BERTH_URL (url) must be https://deploy.example.com',
    )
    expect(read({ BERTH_DOMAIN: 'https://deploy.example.com' })).toThrow('must be a name such as')
    expect(read({ BERTH_TLS_KEY_FILE: '/k' })).toThrow('must be set together')
    const { port, baseUrl, https } = read({ BERTH_DOMAIN: DOMAIN })()
    expect([port, baseUrl, https?.httpPort]).toEqual([443, `https://${DOMAIN}`, 80])
  })
})
