// Every way to write or hide an internal address, and a name whose address changes.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { type Address, createGuard, judgeAddress, OutboundRefusal } from './addresses.ts'
import { RequestError, sendRequest } from './requests.ts'

const v4 = (address: string): Address => ({ address, family: 4 })
const v6 = (address: string): Address => ({ address, family: 6 })
const never = async (): Promise<Address[]> => {
  throw new Error('no name should be resolved')
}

const INSIDE = [
  ['127.0.0.1', 'loopback'],
  ['127.255.255.254', 'loopback'],
  ['::1', 'loopback'],
  ['10.0.0.1', 'private'],
  ['172.16.0.1', 'private'],
  ['172.31.255.255', 'private'],
  ['192.168.1.1', 'private'],
  ['100.64.0.1', 'private'],
  ['fc00::1', 'private'],
  ['fdff::1', 'private'],
  ['169.254.1.1', 'special'],
  ['fe80::1', 'special'],
  ['fe80::1%eth0', 'special'],
  ['fec0::1', 'special'],
  ['ff02::1', 'special'],
  ['0.0.0.0', 'special'],
  ['0.1.2.3', 'special'],
  ['::', 'special'],
  ['224.0.0.1', 'special'],
  ['240.0.0.1', 'special'],
  ['255.255.255.255', 'special'],
  ['192.0.2.1', 'special'],
  ['198.18.0.1', 'special'],
  ['198.51.100.7', 'special'],
  ['203.0.113.7', 'special'],
  ['2001:db8::1', 'special'],
  ['4000::1', 'special'],
  ['169.254.169.254', 'metadata'],
  ['169.254.170.2', 'metadata'],
  ['100.100.100.200', 'metadata'],
  ['fd00:ec2::254', 'metadata'],
  // IPv4 inside IPv6 is judged as the inner address
  ['::ffff:127.0.0.1', 'loopback'],
  ['::ffff:7f00:1', 'loopback'],
  ['::ffff:10.0.0.1', 'private'],
  ['::ffff:0:10.0.0.1', 'private'],
  ['::127.0.0.1', 'loopback'],
  ['::ffff:169.254.169.254', 'metadata'],
  ['64:ff9b::127.0.0.1', 'loopback'],
  ['64:ff9b::a9fe:a9fe', 'metadata'],
  ['64:ff9b:1::192.168.0.1', 'private'],
  ['2002:7f00:1::', 'loopback'],
  ['2002:a00:1::1', 'private'],
  ['2001:0:1::1', 'special'],
] as const

const OUTSIDE = [
  '140.82.121.4',
  '1.1.1.1',
  '172.32.0.1',
  '100.128.0.1',
  '2606:50c0:8000::153',
  '::ffff:1.1.1.1',
]

describe('what an address is', () => {
  test.each(INSIDE)('%s is %s', (address, kind) => {
    expect(judgeAddress(address)).toBe(kind)
  })
  test.each(OUTSIDE)('%s is on the internet', (address) => {
    expect(judgeAddress(address)).toBe('public')
  })
})

describe('the guard', () => {
  const strict = createGuard({ privateHosts: [], allowLoopback: false, resolve: never })

  test.each(INSIDE.map(([a]) => a).filter((a) => !a.includes('%')))(
    'refuses %s',
    async (address) => {
      const host = address.includes(':') ? `[${address}]` : address
      await expect(strict.check(host)).rejects.toMatchObject({ code: 'address_not_allowed' })
      const byName = createGuard({
        privateHosts: [],
        allowLoopback: false,
        resolve: async () => [
          v4('140.82.121.4'),
          address.includes(':') ? v6(address) : v4(address),
        ],
      })
      await expect(byName.check('git.example.com')).rejects.toBeInstanceOf(OutboundRefusal)
    },
  )

  test.each([
    '2130706433',
    '0x7f000001',
    '0x7f.0.0.1',
    '0177.0.0.1',
    '017700000001',
    '127.1',
    '127.0.1',
    '127.0.0.01',
    '1.1.1.1.',
    'git.example.0x7f',
    '999.1.1.1',
  ])('refuses the number %s without asking for it', async (host) => {
    await expect(strict.check(host)).rejects.toMatchObject({ code: 'address_not_allowed' })
  })

  test('hands out what it has checked', async () => {
    const addresses = [v4('140.82.121.4'), v6('2606:50c0:8000::153')]
    const guard = createGuard({
      privateHosts: [],
      allowLoopback: false,
      resolve: async () => addresses,
    })
    expect(await guard.check('GitHub.com')).toEqual(addresses)
  })

  test('a listed host may be inside, but never where credentials are handed out', async () => {
    const at = (address: string) =>
      createGuard({
        privateHosts: ['git.corp.example'],
        allowLoopback: false,
        resolve: async () => [v4(address)],
      })
    expect(await at('10.1.2.3').check('git.corp.example')).toEqual([v4('10.1.2.3')])
    expect(await at('10.1.2.3').check('GIT.corp.example')).toEqual([v4('10.1.2.3')])
    await expect(at('10.1.2.3').check('other.corp.example')).rejects.toMatchObject({
      message: expect.stringContaining('BERTH_PRIVATE_GIT_HOSTS'),
    })
    await expect(at('169.254.169.254').check('git.corp.example')).rejects.toThrow('metadata')
    await expect(at('169.254.3.4').check('git.corp.example')).rejects.toThrow('not on the internet')
  })

  test('development allows this machine and nothing more', async () => {
    const guard = createGuard({ privateHosts: [], allowLoopback: true, resolve: never })
    expect(await guard.check('127.0.0.1')).toEqual([v4('127.0.0.1')])
    await expect(guard.check('10.0.0.1')).rejects.toThrow('private network')
  })

  test('a name that cannot be resolved says so', async () => {
    await expect(strict.check('nowhere.example.com')).rejects.toMatchObject({
      code: 'name_not_resolved',
    })
  })
})

describe('requests', () => {
  const servers: Server[] = []
  afterEach(() => {
    for (const server of servers.splice(0)) {
      server.closeAllConnections()
      server.close()
    }
  })
  type Answer = Parameters<typeof createServer>[1]
  async function serve(answer: Answer): Promise<number> {
    const server = createServer(answer as NonNullable<Answer>)
    servers.push(server)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return (server.address() as AddressInfo).port
  }
  const local = createGuard({ privateHosts: [], allowLoopback: true })

  test('a name that is public when checked and local when used is connected to as it was checked', async () => {
    let hits = 0
    const port = await serve((_q, r) => {
      hits += 1
      r.end('{}')
    })
    let asked = 0
    // the second answer is the attack: code that resolves again would connect to this machine
    const rebinding = createGuard({
      privateHosts: [],
      allowLoopback: false,
      resolve: async () => (asked++ === 0 ? [v4('192.0.2.1')] : [v4('127.0.0.1')]),
    })
    const url = new URL(`http://rebind.example.com:${port}/`)
    await expect(sendRequest(rebinding, { method: 'GET', url })).rejects.toThrow()
    expect([hits, asked]).toEqual([0, 1])
    // the connection uses the pinned address, even for a name without a DNS entry
    const pinned = createGuard({
      privateHosts: ['pinned.invalid'],
      allowLoopback: false,
      resolve: async () => [v4('127.0.0.1')],
    })
    const there = new URL(`http://pinned.invalid:${port}/`)
    expect((await sendRequest(pinned, { method: 'GET', url: there })).status).toBe(200)
    expect(hits).toBe(1)
  })

  test('redirects are not followed', async () => {
    let hits = 0
    const inner = await serve((_q, r) => {
      hits += 1
      r.end('{}')
    })
    for (const status of [301, 302, 303, 307, 308]) {
      const outer = await serve((_q, r) => {
        r.writeHead(status, { location: `http://127.0.0.1:${inner}/` }).end()
      })
      const url = new URL(`http://127.0.0.1:${outer}/`)
      await expect(sendRequest(local, { method: 'GET', url })).rejects.toMatchObject({
        trouble: 'redirected',
      })
    }
    expect(hits).toBe(0)
  })

  test('an answer without end is cut, and errors hold no header', async () => {
    const port = await serve((_q, r) => {
      const chunk = Buffer.alloc(1_024 * 1_024, 'x')
      const more = (): void => {
        while (!r.destroyed && r.write(chunk)) {
          // until the other side stops reading
        }
      }
      r.on('drain', more)
      more()
    })
    const headers = { authorization: 'Bearer canary-4711' }
    const failure = await sendRequest(local, {
      method: 'GET',
      url: new URL(`http://127.0.0.1:${port}/`),
      headers,
    }).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(RequestError)
    expect(failure).toMatchObject({ trouble: 'too_large' })
    expect(JSON.stringify(failure) + String(failure)).not.toContain('canary')
  })

  test('plain http goes to this machine only, other schemes nowhere', async () => {
    const guard = createGuard({
      privateHosts: [],
      allowLoopback: false,
      resolve: async () => [v4('140.82.121.4')],
    })
    for (const url of ['http://github.com/', 'ftp://github.com/', 'file:///etc/passwd']) {
      await expect(sendRequest(guard, { method: 'GET', url: new URL(url) })).rejects.toMatchObject({
        trouble: 'not_allowed',
      })
    }
  })
})
