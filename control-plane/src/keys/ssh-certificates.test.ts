// Certificates as two other readers see them (ssh-keygen and sshpk), what the signer and the reader refuse, and the
// smuggling attack on careless signers, which must stay impossible here.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { GRANT_EXTENSION } from '@berth/shared'
import {
  type CertificateContent,
  encodeString,
  encodeStrings,
  encodeU32,
  encodeU64,
  formatPublicKey,
  parsePublicKey,
  readCertificate,
  readPublicKey,
  type Signer,
  signCertificate,
  verifyCertificate,
} from '@berth/shared/ssh'
import sshpk from 'sshpk'
import { afterAll, describe, expect, test } from 'vitest'
import {
  blobOf,
  type Crafted,
  craft,
  ecdsa,
  lineOf,
  makeEd25519,
  oddNumber,
  rsa,
  signerOf,
  skEcdsa,
  skEd25519,
  tailOf,
} from './ssh-craft.testing.ts'

const dir = mkdtempSync(join(tmpdir(), 'berth-certificates-'))
afterAll(() => rmSync(dir, { recursive: true, force: true }))

const ca = makeEd25519()
const signer = signerOf(ca)
const userKey = makeEd25519()
const user = readPublicKey(blobOf(userKey))
const now = Math.floor(Date.now() / 1_000)
const at = { kind: 'user', nowSeconds: now } as const
const grant = '{"v":1,"server":7,"user":17,"can":["logs"]}'
const content: CertificateContent = {
  kind: 'user',
  serial: 2n ** 63n - 1n,
  keyId: 'user=17;env=42;server=7;jti=9223372036854775807',
  principals: ['berth:server:7'],
  validAfter: now - 60,
  validBefore: now + 300,
  criticalOptions: new Map(),
  extensions: new Map([
    ['permit-pty', ''],
    [GRANT_EXTENSION, grant],
  ]),
}
const blobFrom = (line: string): Buffer => Buffer.from(line.split(' ')[1] ?? '', 'base64')
const show = (line: string): string => {
  const file = join(dir, 'shown-cert.pub')
  writeFileSync(file, `${line}\n`)
  return execFileSync('ssh-keygen', ['-L', '-f', file], { encoding: 'utf8' })
}
/** The text that ssh-keygen prints for a time; it prints local time. */
const local = (seconds: number): string => {
  const d = new Date(seconds * 1_000)
  const two = (n: number): string => String(n).padStart(2, '0')
  const day = `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`
  return `${day}T${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`
}

describe('read by others', () => {
  const makeKey = (type: string, bits: string): string => {
    const file = join(dir, `${type}-${bits}`)
    execFileSync('ssh-keygen', ['-q', '-t', type, '-b', bits, '-N', '', '-C', 'x y', '-f', file])
    return readFileSync(`${file}.pub`, 'utf8')
  }
  test.each([
    ['ed25519', '256'],
    ['ecdsa', '256'],
    ['ecdsa', '384'],
    ['ecdsa', '521'],
    ['rsa', '3072'],
    ['rsa', '4096'],
  ])('%s %s: ssh-keygen and sshpk see what was signed', async (type, bits) => {
    const key = parsePublicKey(makeKey(type, bits))
    const line = await signCertificate(key, { ...content, principals: ['b', 'a'] }, signer)
    const shown = show(line)
    expect(shown).toContain(`Key ID: "${content.keyId}"`)
    expect(shown).toContain('Serial: 9223372036854775807\n')
    expect(shown).toMatch(/Principals: \n\s+b\n\s+a\n/)
    expect(shown).toContain('Critical Options: (none)')
    expect(shown).toContain(`Valid: from ${local(now - 60)} to ${local(now + 300)}`)
    const hex = encodeString(grant).toString('hex') // unknown to ssh-keygen, which prints hexadecimal
    expect(shown).toMatch(/Extensions: \n\s+grant@berth\.dev UNKNOWN OPTION: \w+ .*\n\s+permit-pty/)
    expect(shown).toContain(hex.slice(0, 60))
    const read = sshpk.parseCertificate(line, 'openssh')
    expect(read.subjects.map((s) => (s as { uid?: string }).uid)).toEqual(['b', 'a'])
    expect(read.validFrom.getTime() / 1_000).toBe(now - 60)
    expect(read.validUntil.getTime() / 1_000).toBe(now + 300)
    expect(read.subjectKey.toString('ssh').split(' ')[1]).toBe(formatPublicKey(key).split(' ')[1])
  })

  test.each([
    ['Ed25519', skEd25519(userKey)],
    ['ECDSA', skEcdsa()],
  ])('a security key, %s, that must be verified', async (_name, blob) => {
    const criticalOptions = new Map([['verify-required', '']])
    const line = await signCertificate(readPublicKey(blob), { ...content, criticalOptions }, signer)
    expect(show(line)).toMatch(/Critical Options: \n\s+verify-required\n/)
  })

  test('critical options, sorted, whatever the order they were given in', async () => {
    const criticalOptions = new Map([
      ['source-address', '192.0.2.0/24,2001:db8::/32'],
      ['force-command', 'echo "two words"'],
    ])
    const line = await signCertificate(user, { ...content, criticalOptions }, signer)
    expect(show(line)).toMatch(
      /force-command echo "two words"\n\s+source-address 192\.0\.2\.0\/24,2001:db8::\/32\n/,
    )
  })

  test('a host certificate', async () => {
    const host: CertificateContent = {
      ...content,
      kind: 'host',
      principals: ['server-7.berth.internal'],
      validBefore: now + 30 * 86_400,
      extensions: new Map(),
    }
    const line = await signCertificate(user, host, signer)
    expect(show(line)).toMatch(/host certificate[\s\S]*server-7\.berth\.internal/)
    expect(() => verifyCertificate(blobFrom(line), [signer.publicKey], at)).toThrow(
      'not for a user',
    )
  })

  test('the other way round: what ssh-keygen signs is read here to the same bytes', () => {
    const f = (name: string): string => join(dir, name)
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', f('ca')])
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', f('theirs')])
    const options = ['-O', 'clear', '-O', 'permit-pty', '-O', 'source-address=192.0.2.0/24']
    const custom = ['-O', `extension:${GRANT_EXTENSION}=${grant}`]
    const named = ['-I', 'user=17', '-n', 'berth:server:7,b', '-z', '77', '-V', '-30m:+5m']
    execFileSync('ssh-keygen', [
      ...['-q', '-s', f('ca'), ...named, ...options, ...custom],
      f('theirs.pub'),
    ])
    const blob = blobFrom(readFileSync(f('theirs-cert.pub'), 'utf8'))
    const authority = parsePublicKey(readFileSync(f('ca.pub'), 'utf8'))
    expect(verifyCertificate(blob, [signer.publicKey, authority], at)).toMatchObject({
      kind: 'user',
      serial: 77n,
      keyId: 'user=17',
      principals: ['berth:server:7', 'b'],
      criticalOptions: new Map([['source-address', '192.0.2.0/24']]),
      extensions: new Map([
        [GRANT_EXTENSION, grant],
        ['permit-pty', ''],
      ]),
    })
  })
})

describe('the signer refuses', () => {
  const many = Array.from({ length: 33 }, (_, n) => `p${n}`)
  const options = (name: string, value = ''): object => ({
    criticalOptions: new Map([[name, value]]),
  })
  test.each<[string, object]>([
    ['no principals', { principals: [] }],
    ['an empty principal', { principals: [''] }],
    ['a comma in a principal', { principals: ['a,b'] }],
    ['a wildcard', { principals: ['*'] }],
    ['a space', { principals: ['a '] }],
    ['a NUL', { principals: ['a\0'] }],
    ['a line end in a principal', { principals: ['a\n'] }],
    ['capitals', { principals: ['Root'] }],
    ['a principal twice', { principals: ['a', 'a'] }],
    ['33 principals', { principals: many }],
    ['an empty key id', { keyId: '' }],
    ['a space in the key id', { keyId: 'a b' }],
    ['a comma in the key id', { keyId: 'a,b' }],
    ['a line end in the key id', { keyId: 'a\nb' }],
    ['a key id of 201 characters', { keyId: 'x'.repeat(201) }],
    ['serial 0, which a KRL cannot name', { serial: 0n }],
    ['a serial of 64 bits', { serial: 2n ** 63n }],
    ['a negative serial', { serial: -1n }],
    ['half a second', { validAfter: now + 0.5 }],
    ['a time before 1970', { validAfter: -1 }],
    ['no time', { validAfter: Number.NaN }],
    ['an empty interval', { validBefore: now - 60 }],
    ['an end before the start', { validBefore: now - 61 }],
    ['more than an hour', { validBefore: now + 3_601 }],
    ['for ever', { validBefore: Number.POSITIVE_INFINITY }],
    ['an unknown critical option', options('x@y', 'z')],
    ['verify-required without hardware', options('verify-required')],
    ['host bits in a source address', options('source-address', '192.0.2.1/24')],
    ['a source address without a length', options('source-address', '192.0.2.1')],
    ['host bits in an IPv6 network', options('source-address', '2001:db8::1/32')],
    ['a source network beyond its bits', options('source-address', '192.0.2.0/33')],
    ['an empty source address', options('source-address')],
    ['a command of two lines', options('force-command', 'a\nb')],
    ['forwarding', { extensions: new Map([['permit-port-forwarding', '']]) }],
    ['the user rc file', { extensions: new Map([['permit-user-rc', '']]) }],
    ['a terminal with a value', { extensions: new Map([['permit-pty', 'x']]) }],
    ['a grant without a value', { extensions: new Map([[GRANT_EXTENSION, '']]) }],
    ['a grant of 5 KiB', { extensions: new Map([[GRANT_EXTENSION, 'x'.repeat(5_000)]]) }],
    ['options on a host certificate', { kind: 'host' }],
  ])('%s', async (_name, over) => {
    await expect(signCertificate(user, { ...content, ...over }, signer)).rejects.toThrow(
      'is not signed',
    )
  })

  test('an authority whose signature is wrong, or that signs with another key', async () => {
    const other = signerOf(makeEd25519())
    const broken: Signer[] = [
      { publicKey: signer.publicKey, sign: () => Buffer.alloc(64) },
      { publicKey: signer.publicKey, sign: (bytes) => other.sign(bytes) },
      { publicKey: signer.publicKey, sign: async () => Buffer.alloc(0) },
      { publicKey: readPublicKey(ecdsa('nistp256')), sign: (bytes) => signer.sign(bytes) },
    ]
    for (const one of broken) await expect(signCertificate(user, content, one)).rejects.toThrow()
    await expect(signCertificate(user, content, signer)).resolves.toContain('cert-v01')
  })
})

describe('the reader refuses', () => {
  const tail = tailOf(user)
  const trusted = [signer.publicKey]
  const authority = blobOf(ca)
  const reason = (blob: Uint8Array): string => {
    try {
      verifyCertificate(blob, trusted, at)
      return 'accepted'
    } catch (error) {
      return (error as Error).message
    }
  }
  test('the control: a certificate made by the same means is taken', () => {
    expect(reason(craft(tail, {}, ca))).toBe('accepted')
  })
  const flag: [string, string][] = [['permit-pty', '']]
  test.each<[string, RegExp, Crafted]>([
    ['a host certificate', /not for a user/, { kind: 2 }],
    ['a third kind', /neither/, { kind: 3 }],
    ['no principals', /no principal/, { principals: [] }],
    ['valid for ever', /no end/, { before: 0xffff_ffff_ffff_ffffn }],
    ['expired', /outside its time/, { before: BigInt(now) }],
    ['not yet valid', /outside its time/, { after: BigInt(now + 30) }],
    ['options out of order', /one form/, { extensions: [...flag, [GRANT_EXTENSION, 'x']] }],
    ['an option twice', /twice/, { extensions: [...flag, ...flag] }],
    [
      '33 extensions',
      /too long/,
      { extensions: Array.from({ length: 33 }, (_, n) => [`e${n}`, '']) },
    ],
    ['text in the reserved field', /one form/, { reserved: 'x' }],
    ['trailing bytes', /trailing/, { trailing: Buffer.alloc(1) }],
    ['bytes that are no text', /UTF-8/, { principals: [Buffer.from([0xff])] }],
    ['another authority in the field', /unknown authority/, { authority: blobOf(makeEd25519()) }],
    [
      'an authority with a tail',
      /trailing/,
      { authority: Buffer.concat([authority, Buffer.alloc(4)]) },
    ],
    ['a certificate as the authority', /names one type/, { authority: craft(tail, {}, ca) }],
    ['an RSA authority', /names one type/, { authority: rsa(oddNumber(3_072)) }],
    ['a plain key type', /no certificate/, { type: 'ssh-ed25519' }],
    ['a type of another version', /no certificate/, { type: 'ssh-ed25519-cert-v00@openssh.com' }],
    ['a type that is no own one', /no certificate/, { type: '__proto__' }],
  ])('%s', (_name, expected, over) => {
    expect(reason(craft(tail, over, ca))).toMatch(expected)
  })

  test('a certificate signed by somebody else who names our authority', () => {
    expect(reason(craft(tail, { authority }, makeEd25519()))).toMatch(/signature is wrong/)
  })

  test('a wrapped empty value, which is no flag', () => {
    const empty = encodeStrings(['permit-pty', encodeString('')])
    const good = craft(tail, { extensions: flag }, ca)
    const flat = encodeString(encodeStrings(['permit-pty', '']))
    const spot = good.indexOf(flat)
    const changed = Buffer.concat([
      good.subarray(0, spot),
      encodeString(empty),
      good.subarray(spot + flat.length),
    ])
    expect(() => readCertificate(changed)).toThrow('one form')
  })
})

describe('smuggling: fields after the key in the submitted blob', () => {
  const asked: Crafted = { keyId: 'u=17', critical: [['force-command', 'echo logs-only']] }
  /** What a careless signer does: copies the submitted blob without its type. */
  const signCarelessly = (line: string): Buffer => {
    const blob = blobFrom(line)
    return craft(blob.subarray(4 + blob.readUInt32BE(0)), asked, ca)
  }

  /** Brings its own serial, principals and times, and an extension that swallows what the signer appends. */
  function makeHostileLine(): string {
    const plain = encodeString('ssh-ed25519-cert-v01@openssh.com').length + 36 + 36
    const authorityLength = encodeString(blobOf(ca)).length
    const signature = encodeString(encodeStrings(['ssh-ed25519', Buffer.alloc(64)])).length
    const whole = signCarelessly(lineOf('ssh-ed25519', blobOf(userKey))).length
    const swallowed = whole - signature - plain - 4 - authorityLength
    const mine = encodeStrings(['permit-port-forwarding', '', 'permit-pty', ''])
    const name = encodeString('x@evil')
    const evil = Buffer.concat([
      blobOf(userKey),
      encodeU64(1n),
      encodeU32(1),
      encodeString('innocent'),
      encodeString(encodeString('root')),
      encodeU64(0n),
      encodeU64(0xffff_ffff_ffff_ffffn),
      encodeString(''),
      encodeU32(mine.length + name.length + 4 + swallowed),
      mine,
      name,
      encodeU32(swallowed),
    ])
    return lineOf('ssh-ed25519', evil)
  }

  test('the control: the careless signer is fooled, as ssh-keygen reads it', () => {
    const shown = show(
      lineOf('ssh-ed25519-cert-v01@openssh.com', signCarelessly(makeHostileLine())),
    )
    expect(shown).toContain('Key ID: "innocent"')
    expect(shown).toContain('Valid: forever')
    expect(shown).toMatch(/Principals: \n\s+root\n/)
    expect(shown).toContain('Critical Options: (none)')
  })

  test('here the same line is no key', () => {
    expect(() => parsePublicKey(makeHostileLine())).toThrow('trailing bytes')
  })
})
