// Joining and renewing against a real HTTP(S) server that signs like the control plane: what is checked before a byte
// is sent, what is rejected, and which message the user reads.
import { createPublicKey, verify } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readlinkSync, rmSync, statSync } from 'node:fs'
import * as http from 'node:http'
import * as https from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join as joinPath } from 'node:path'
import { renewalText } from '@berth/shared'
import { EnrollRequest, RenewRequest } from '@berth/shared/api'
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { readSettings } from '../../settings.ts'
import { type Authority, createAuthority } from './authority.testing.ts'
import { parseCertificate } from './certificate.ts'
import { installTrust, isExpired, isJoined, readIdentity, readInstallId } from './identity.ts'
import { join, parseJoinToken } from './join.ts'
import { move, renewExpired } from './renewal.ts'

type Reply = { status?: number; body: unknown }
let authority: Authority
let foreign: Authority
let dir: string
let requests: { path: string; body: unknown }[]
const servers: http.Server[] = []

beforeAll(async () => {
  authority = await createAuthority()
  foreign = await createAuthority('Stranger')
})
beforeEach(() => {
  dir = mkdtempSync(joinPath(tmpdir(), 'berth-join-'))
  requests = []
})
afterEach(() => {
  for (const server of servers.splice(0)) server.close()
  rmSync(dir, { recursive: true, force: true })
})

const settings = () => readSettings({ BERTH_STATE_DIR: dir })
const currentFolder = () => readlinkSync(joinPath(dir, 'identity/current'))
const tokenFor = (a: Authority): string => `berth_join_AAAAAAAAAAAA.${'s'.repeat(43)}.${a.hash}`

function listen(server: http.Server): Promise<string> {
  servers.push(server)
  return new Promise((resolve) =>
    server.listen(0, '127.0.0.1', () => {
      const scheme = server instanceof https.Server ? 'https' : 'http'
      resolve(`${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`)
    }),
  )
}

const serve =
  (reply: (path: string, body: unknown) => Promise<Reply>): http.RequestListener =>
  (request, response) => {
    let text = ''
    request.on('data', (piece) => {
      text += piece
    })
    request.on('end', async () => {
      const body: unknown = JSON.parse(text)
      requests.push({ path: request.url ?? '', body })
      const { status = 200, body: out } = await reply(request.url ?? '', body)
      response.writeHead(status, { 'content-type': 'application/json' })
      response.end(typeof out === 'string' ? out : JSON.stringify(out))
    })
  }

const enrolment = async (body: unknown, over: Record<string, unknown> = {}): Promise<Reply> => ({
  body: {
    agent_id: 'agent-1',
    server_id: 7,
    certificate: await authority.issueAgent(EnrollRequest.parse(body).csr),
    ca: [authority.pem],
    endpoints: ['127.0.0.1:7443'],
    generation: 1,
    renew_at: '2026-11-01T00:00:00Z',
    ssh_user_ca_keys: [],
    ...over,
  },
})
const startJoin = (url: string, over: { token?: string; force?: boolean } = {}) =>
  join(settings(), { url, token: tokenFor(authority), force: false, ...over })

test('a join over loopback writes a synced identity that can be read back', async () => {
  const url = await listen(http.createServer(serve((_path, body) => enrolment(body))))
  await startJoin(url)
  const identity = readIdentity(settings())
  expect(identity).toMatchObject({ agentId: 'agent-1', serverId: 7, generation: 1 })
  expect(identity.ca).toHaveLength(1)
  expect(parseCertificate(identity.certificate).checkIssued(parseCertificate(authority.pem))).toBe(
    true,
  )
  expect(currentFolder()).toBe('gen-1')
  expect(statSync(joinPath(dir, 'identity/gen-1/key.pem')).mode & 0o777).toBe(0o600)
  expect(requests[0]?.path).toBe('/api/agent/enroll')
  expect(requests[0]?.body).toMatchObject({ install_id: readInstallId(settings()) })
})

test('joining twice needs --force, keeps the install id and flips to the next generation', async () => {
  const url = await listen(http.createServer(serve((_path, body) => enrolment(body))))
  await startJoin(url)
  await expect(startJoin(url)).rejects.toThrow(/joined already/)
  expect(requests).toHaveLength(1)
  installTrust(settings(), {
    generation: 4,
    tlsCaPem: [foreign.pem],
    sshUserCaKeys: [],
    revokedSshSerials: [],
  })
  await startJoin(url, { force: true })
  expect(currentFolder()).toBe('gen-2')
  expect(readIdentity(settings())).toMatchObject({ trustGeneration: 0 })
  const [first, second] = requests.map((r) => (r.body as EnrollRequest).install_id)
  expect(first).toBe(second)
  for (let i = 0; i < 3; i++) await startJoin(url, { force: true })
  expect(readdirSync(joinPath(dir, 'identity')).filter((n) => n.startsWith('gen-'))).toHaveLength(3)
})

test('an answer without the CA that the token names is thrown away whole', async () => {
  const url = await listen(
    http.createServer(serve((_path, body) => enrolment(body, { ca: [foreign.pem] }))),
  )
  await expect(startJoin(url)).rejects.toThrow(/did not show the authority/)
  expect(isJoined(settings())).toBe(false)
  expect(readdirSync(joinPath(dir, 'identity'))).toEqual(['install-id'])
})

test("a certificate for another key or of another authority isn't kept", async () => {
  const other = await authority.issueListener('x')
  const wrongKey = await listen(
    http.createServer(serve((_path, body) => enrolment(body, { certificate: other.cert }))),
  )
  await expect(startJoin(wrongKey)).rejects.toThrow(/it is for another key/)
  const wrongCa = await listen(
    http.createServer(
      serve(async (_path, body) =>
        enrolment(body, { certificate: await foreign.issueAgent((body as EnrollRequest).csr) }),
      ),
    ),
  )
  await expect(startJoin(wrongCa)).rejects.toThrow(/none of the given authorities/)
  expect(isJoined(settings())).toBe(false)
})

test('https with a certificate of the CA the token names needs no other trust', async () => {
  const { key, cert } = await authority.issueListener('localhost')
  const server = https.createServer(
    { key, cert: `${cert}\n${authority.pem}` },
    serve((_path, body) => enrolment(body)),
  )
  await startJoin(await listen(server))
  expect(isJoined(settings())).toBe(true)
})

test('https of anybody else is refused before the token is sent', async () => {
  const { key, cert } = await foreign.issueListener('localhost')
  const server = https.createServer(
    { key, cert: `${cert}\n${foreign.pem}` },
    serve((_path, body) => enrolment(body)),
  )
  await expect(startJoin(await listen(server))).rejects.toThrow(/Nothing was sent/)
  expect(requests).toEqual([])
})

test('the right CA for another host name is refused before the token is sent', async () => {
  const { key, cert } = await authority.issueListener('elsewhere')
  const options = { key, cert: `${cert}\n${authority.pem}` }
  const server = https.createServer(
    options,
    serve((_path, body) => enrolment(body)),
  )
  const url = (await listen(server)).replace('127.0.0.1', 'localhost')
  await expect(startJoin(url)).rejects.toThrow(/for another name/)
  expect(requests).toEqual([])
})

test.each([
  ['http://example.com', /plain http/],
  ['http://10.0.0.1:8080', /plain http/],
  ['http://127.0.0.1.example.com', /plain http/],
  ['ftp://example.com', /only https/],
  ['example', /not an address/],
])('%s is refused without a connection', async (url, message) => {
  await expect(startJoin(url)).rejects.toThrow(message)
})

test.each<[Reply, RegExp]>([
  [{ status: 401, body: { code: 'join_token_invalid' } }, /used before, is older than 15 minutes/],
  [{ status: 422, body: { code: 'csr_invalid', detail: 'Not P-256.' } }, /refused .* Not P-256/],
  [{ status: 429, body: { code: 'rate_limited' } }, /Too many tries/],
  [{ status: 503, body: { code: 'unavailable', detail: 'Restarting.' } }, /Restarting. \(503\)/],
  [{ status: 404, body: '<html>' }, /no Berth control plane/],
  [{ status: 502, body: '<html>' }, /answered with an error \(502\)/],
  [{ status: 200, body: { ok: true } }, /not like a Berth control plane/],
])('a refusal becomes a sentence: %o', async (reply, message) => {
  const url = await listen(http.createServer(serve(async () => reply)))
  await expect(startJoin(url)).rejects.toThrow(message)
  expect(isJoined(settings())).toBe(false)
})

test('nobody listening and a redirect are told apart', async () => {
  const server = http.createServer((_request, response) => {
    response.writeHead(301, { location: 'https://berth.example.com/' })
    response.end()
  })
  const url = await listen(server)
  await expect(startJoin(url)).rejects.toThrow(/sends on to https:\/\/berth\.example\.com/)
  await new Promise((done) => server.close(done))
  await expect(startJoin(url)).rejects.toThrow(/Nothing listens/)
})

test('a lost answer is asked for again with the same key', async () => {
  let calls = 0
  const keys = new Set<string>()
  const server = http.createServer((request, response) => {
    calls++
    if (calls === 1) request.socket.resetAndDestroy()
    else {
      serve((_path, body) => {
        keys.add((body as EnrollRequest).csr)
        return enrolment(body)
      })(request, response)
    }
  })
  await startJoin(await listen(server))
  expect(calls).toBe(2)
  expect(isJoined(settings())).toBe(true)
})

test.each(['', 'berth_join_x', 'berth_pat_abc', `berth_join_${'a'.repeat(12)}.b.c`])(
  'not a join token: %j',
  (text) => {
    expect(() => parseJoinToken(text)).toThrow(/not a join token/)
  },
)

test('an expired certificate is renewed by a signature of its own key', async () => {
  let checked = false
  const server = http.createServer(
    serve(async (path, body) => {
      if (path === '/api/agent/renew/challenge') {
        return { body: { nonce: 'nonce-1', expires_at: '2026-11-01T00:00:00Z' } }
      }
      if (path === '/api/agent/renew') {
        const asked = RenewRequest.parse(body)
        const key = createPublicKey(
          parseCertificate(asked.certificate).publicKey.export({ type: 'spki', format: 'pem' }),
        )
        const text = renewalText(asked.nonce, asked.csr)
        checked = verify('sha256', text, key, Buffer.from(asked.signature, 'base64url'))
        return enrolment(
          { ...EnrollRequest.parse(requests[0]?.body), csr: asked.csr },
          { generation: 2 },
        )
      }
      const notAfter = new Date(Date.now() - 60_000)
      const certificate = await authority.issueAgent(EnrollRequest.parse(body).csr, { notAfter })
      return enrolment(body, { certificate })
    }),
  )
  await startJoin(await listen(server))
  const before = readIdentity(settings())
  expect(isExpired(before, Date.now())).toBe(true)
  await renewExpired(settings(), before)
  const after = readIdentity(settings())
  expect(checked).toBe(true)
  expect(isExpired(after, Date.now())).toBe(false)
  expect([after.generation, currentFolder()]).toEqual([2, 'gen-2'])
  expect(after.key).not.toBe(before.key)
})

test('a control plane with another address is found by its address, and proves itself', async () => {
  const moved = (ca: typeof authority) =>
    http.createServer(
      serve(async (path, body) => {
        if (path.endsWith('/challenge')) {
          return { body: { nonce: 'n', expires_at: '2026-11-01T00:00:00Z' } }
        }
        const { csr } = RenewRequest.parse(body)
        const first = EnrollRequest.parse(requests[0]?.body)
        const certificate = await ca.issueAgent(csr)
        const endpoints = ['127.0.0.1:4711']
        return enrolment({ ...first, csr }, { certificate, endpoints, generation: 2 })
      }),
    )
  await startJoin(await listen(http.createServer(serve((_path, body) => enrolment(body)))))
  const before = readIdentity(settings())
  await expect(move(settings(), await listen(moved(foreign)))).rejects.toThrow(/not ours/)
  expect(readIdentity(settings())).toEqual(before)
  const url = await listen(moved(authority))
  await move(settings(), url)
  const after = readIdentity(settings())
  expect([after.endpoints, after.generation]).toEqual([['127.0.0.1:4711'], 2])
  expect(new URL(after.baseUrl).origin).toBe(new URL(url).origin)
  expect(after.agentId).toBe(before.agentId)
})

test('a renewed certificate of a foreign CA leaves the old identity in place', async () => {
  const server = http.createServer(
    serve(async (path, body) => {
      if (path.endsWith('/challenge')) {
        return { body: { nonce: 'n', expires_at: '2026-11-01T00:00:00Z' } }
      }
      if (!path.endsWith('/renew')) return enrolment(body)
      const { csr } = RenewRequest.parse(body)
      const certificate = await foreign.issueAgent(csr)
      const first = EnrollRequest.parse(requests[0]?.body)
      return enrolment({ ...first, csr }, { certificate, ca: [foreign.pem] })
    }),
  )
  await startJoin(await listen(server))
  await expect(renewExpired(settings(), readIdentity(settings()))).rejects.toThrow(/not ours/)
  expect(currentFolder()).toBe('gen-1')
})

test('a trust bundle replaces the CAs, a lower generation does not, rubbish is refused', async () => {
  const url = await listen(http.createServer(serve((_path, body) => enrolment(body))))
  await startJoin(url)
  const bundle = {
    sshUserCaKeys: ['k'],
    revokedSshSerials: [],
    tlsCaPem: [authority.pem, foreign.pem],
  }
  expect(installTrust(settings(), { ...bundle, generation: 2 })).toBeUndefined()
  expect(readIdentity(settings())).toMatchObject({ trustGeneration: 2, ca: { length: 2 } })
  expect(installTrust(settings(), { ...bundle, generation: 1, tlsCaPem: [] })).toBeUndefined()
  expect(readIdentity(settings()).trustGeneration).toBe(2)
  expect(installTrust(settings(), { ...bundle, generation: 3, tlsCaPem: ['x'] })).toMatch(/no cert/)
  expect(readIdentity(settings()).trustGeneration).toBe(2)
})

test('no identity: the sentence says what to do', () => {
  expect(() => readIdentity(settings())).toThrow(/berth-agent join <url> <token>/)
  expect(existsSync(joinPath(dir, 'identity'))).toBe(false)
})
