// Keys that users submit: what is accepted, and a table of what must be refused. Each hostile line is named after its
// attempt.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  acceptPublicKey,
  encodePublicKey,
  encodeString,
  encodeStrings,
  encodeU32,
  encodeU64,
  fingerprintOf,
  formatPublicKey,
  parsePublicKey,
  SshKeyError,
} from '@berth/shared/ssh'
import sshpk from 'sshpk'
import { afterAll, describe, expect, test } from 'vitest'
import {
  blobOf,
  craft,
  ecdsa,
  ecPoint,
  lineOf,
  makeEd25519,
  oddNumber,
  rsa,
  skEcdsa,
  skEd25519,
} from './ssh-craft.testing.ts'

const dir = mkdtempSync(join(tmpdir(), 'berth-keys-'))
afterAll(() => rmSync(dir, { recursive: true, force: true }))

const key = makeEd25519()
const blob = blobOf(key)
const good = lineOf('ssh-ed25519', blob, 'ada@laptop')
const ED = 'ssh-ed25519'
const SK = 'sk-ssh-ed25519@openssh.com'
const certificate = craft(blob.subarray(4 + ED.length), {}, makeEd25519())

const codeOf = (line: string): string => {
  try {
    acceptPublicKey(line)
    return 'accepted'
  } catch (error) {
    if (!(error instanceof SshKeyError)) throw error
    return error.code
  }
}

describe('what is taken', () => {
  const makeKey = (type: string, bits: string): string => {
    const file = join(dir, `${type}-${bits}`)
    const argv = ['-q', '-t', type, '-b', bits, '-N', '', '-C', 'two words', '-f', file]
    execFileSync('ssh-keygen', argv)
    return readFileSync(`${file}.pub`, 'utf8')
  }
  test.each([
    ['ed25519', '256', 'ssh-ed25519'],
    ['ecdsa', '256', 'ecdsa-sha2-nistp256'],
    ['ecdsa', '384', 'ecdsa-sha2-nistp384'],
    ['ecdsa', '521', 'ecdsa-sha2-nistp521'],
    ['rsa', '3072', 'ssh-rsa'],
    ['rsa', '4096', 'ssh-rsa'],
  ])('%s %s of ssh-keygen: same bytes, same fingerprint, no comment', (type, bits, name) => {
    const line = makeKey(type, bits)
    const parsed = parsePublicKey(line)
    expect(parsed.type).toBe(name)
    expect(formatPublicKey(parsed)).toBe(line.split(' ').slice(0, 2).join(' '))
    const shown = execFileSync('ssh-keygen', ['-l', '-f', join(dir, `${type}-${bits}.pub`)])
    expect(shown.toString()).toContain(` ${fingerprintOf(parsed)} `)
    expect(sshpk.parseKey(line, 'ssh').fingerprint('sha256').toString()).toBe(fingerprintOf(parsed))
  })

  test.each([
    ['Ed25519', SK, skEd25519(key)],
    ['Ed25519 for one application', SK, skEd25519(key, 'ssh:berth')],
    ['ECDSA', 'sk-ecdsa-sha2-nistp256@openssh.com', skEcdsa()],
  ])('a security key, %s, as ssh-keygen reads it', (_name, type, bytes) => {
    const parsed = parsePublicKey(lineOf(type, bytes))
    expect(encodePublicKey(parsed).equals(bytes)).toBe(true)
    const file = join(dir, 'sk.pub')
    writeFileSync(file, `${formatPublicKey(parsed)}\n`)
    const shown = execFileSync('ssh-keygen', ['-l', '-f', file]).toString()
    expect(shown).toContain(fingerprintOf(parsed))
  })

  test('RSA from 3072 to 8192 bits, whatever the policy says later', () => {
    const parse = (bits: number) => parsePublicKey(lineOf('ssh-rsa', rsa(oddNumber(bits))))
    for (const bits of [3_072, 3_073, 8_192]) expect(parse(bits).type).toBe('ssh-rsa')
    for (const bits of [1_024, 3_071, 8_193]) expect(() => parse(bits)).toThrow(`${bits} bits`)
  })

  test('a comment with spaces and letters of any language, and the line end of the file', () => {
    for (const comment of [
      '',
      ' ada@laptop',
      ' Ada Lovelace (work)',
      ' Ключ Ады',
      ' ssh-key of ada',
    ]) {
      expect(codeOf(`${ED} ${blob.toString('base64')}${comment}`)).toBe('accepted')
      expect(codeOf(`${ED} ${blob.toString('base64')}${comment}\n`)).toBe('accepted')
    }
    expect(codeOf(lineOf(SK, skEd25519(key)))).toBe('accepted')
  })
})

/** Everything after the key's own fields, which a careless signer would copy into the certificate. */
const smuggledFields = Buffer.concat([
  encodeU64(1n),
  encodeU32(1),
  encodeString('innocent'),
  encodeString(encodeString('root')),
  encodeU64(0n),
  encodeU64(0xffff_ffff_ffff_ffffn),
  encodeString(''),
])
const b64 = blob.toString('base64')
const offCurve = Buffer.concat([ecPoint('nistp256').subarray(0, 64), Buffer.from([7])])
const compressed = Buffer.concat([Buffer.from([2]), ecPoint('nistp256').subarray(1, 33)])
const notAPoint = Buffer.from(`02${'00'.repeat(31)}`, 'hex') // y = 2 has no x
const modulus = oddNumber(3_072)
/** Another text for the same bytes. */
const setSpareBit = (text: string): string =>
  text.replace(/.(?==+$)/, (last) => String.fromCharCode(last.charCodeAt(0) + 1))

const INVALID: [name: string, line: string][] = [
  ['nothing', ''],
  ['a space', ' '],
  ['a line end', '\n'],
  ['the type alone', ED],
  ['the blob alone', b64],
  ['prose', 'please sign my key'],
  ['JSON', JSON.stringify({ key: good })],
  ['a private key', '-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END'],
  ['a PEM public key', '-----BEGIN PUBLIC KEY-----'],
  ['RFC 4716', `---- BEGIN SSH2 PUBLIC KEY ---- ${b64}`],
  ['smuggled certificate fields', lineOf(ED, Buffer.concat([blob, smuggledFields]))],
  ['one trailing byte', lineOf(ED, Buffer.concat([blob, Buffer.alloc(1)]))],
  ['an empty trailing string', lineOf(ED, Buffer.concat([blob, encodeString('')]))],
  ['two keys in one blob', lineOf(ED, Buffer.concat([blob, blob]))],
  ['a key inside a key', lineOf(ED, encodeStrings([ED, blob]))],
  ['a blob inside a string', lineOf(ED, encodeString(blob))],
  ['one byte missing', lineOf(ED, blob.subarray(0, -1))],
  ['a key of 31 bytes', lineOf(ED, encodeStrings([ED, Buffer.alloc(31, 9)]))],
  ['a key of 33 bytes', lineOf(ED, encodeStrings([ED, Buffer.alloc(33, 9)]))],
  ['an empty key', lineOf(ED, encodeStrings([ED, '']))],
  ['no point of the curve', lineOf(ED, encodeStrings([ED, notAPoint]))],
  ['the zero key, under which anybody signs', lineOf(ED, encodeStrings([ED, Buffer.alloc(32)]))],
  ['a length of 4 GiB', lineOf(ED, Buffer.concat([encodeString(ED), encodeU32(0xffff_ffff)]))],
  ['a length of 16 MiB', lineOf(ED, Buffer.concat([encodeString(ED), encodeU32(1 << 24), blob]))],
  ['another type in the blob', lineOf('ssh-rsa', blob)],
  ['a hardware type on a plain key', lineOf(SK, blob)],
  ['a plain type on a hardware key', lineOf(ED, skEd25519(key))],
  ['a certificate type on a plain key', lineOf('ssh-ed25519-cert-v01@openssh.com', blob)],
  ['a plain type on a certificate', lineOf(ED, certificate)],
  ['the type in capitals', lineOf('SSH-ED25519', blob)],
  ['a NUL after the type in the blob', lineOf(ED, encodeStrings([`${ED}\0`, blob.subarray(-32)]))],
  ['a hardware key without application', lineOf(SK, encodeStrings([SK, blob.subarray(-32)]))],
  ['a hardware key for the web', lineOf(SK, skEd25519(key, 'https://example.com'))],
  ['a NUL in the application', lineOf(SK, skEd25519(key, 'ssh:\0x'))],
  ['flags after the application', lineOf(SK, Buffer.concat([skEd25519(key), Buffer.from([1])]))],
  ['forced command before the key', `command="id" ${good}`],
  ['an option before the key', `restrict ${good}`],
  ['an environment before the key', `environment="LD_PRELOAD=/tmp/x" ${good}`],
  ['a marker before the key', `@cert-authority * ${good}`],
  ['a CA option before the key', `cert-authority ${good}`],
  ['a second line with a key', `${good}\n${good}`],
  ['a second line in the comment', `${ED} ${b64} ada\nssh-rsa AAAA`],
  ['a carriage return', `${good}\r`],
  ['the line end of Windows', `${good}\r\n`],
  ['two line ends', `${good}\n\n`],
  ['a line end in front', `\n${good}`],
  ['a NUL in the comment', `${ED} ${b64} ada\0root`],
  ['an escape sequence in the comment', `${ED} ${b64} \x1b[2Jada`],
  ['a line separator in the comment', `${ED} ${b64} ada\u2028root`],
  ['a next-line character in the comment', `${ED} ${b64} ada\u0085root`],
  ['half a character in the comment', `${ED} ${b64} \ud800`],
  ['a second key as the comment', `${good} ${good}`],
  ['a second blob as the comment', `${ED} ${b64} ${b64}`],
  ['a key type in the comment', `${ED} ${b64} ada ssh-rsa`],
  ['a certificate type in the comment', `${ED} ${b64} ssh-ed25519-cert-v01@openssh.com`],
  ['a tab for a space', good.replace(' ', '\t')],
  ['two spaces', good.replace(' ', '  ')],
  ['a space in front', ` ${good}`],
  ['a no-break space', good.replace(' ', '\u00a0')],
  ['base64 for addresses', `${ED} ${Buffer.concat([blob]).toString('base64').replace('A', '-')}`],
  ['a stray padding', `${ED} ${b64}=`],
  ['padding in the middle', `${ED} ${b64.slice(0, 8)}==${b64.slice(8)}`],
  ['spare bits set', `${SK} ${setSpareBit(skEd25519(key).toString('base64'))}`],
  ['a line of 9,000 characters', `${ED} ${b64} ${'x'.repeat(9_000)}`],
  [
    'ECDSA of another curve',
    lineOf(
      'ecdsa-sha2-nistp256',
      encodeStrings(['ecdsa-sha2-nistp256', 'nistp384', ecPoint('nistp384')]),
    ),
  ],
  [
    'ECDSA that names another curve than its point',
    lineOf(
      'ecdsa-sha2-nistp256',
      encodeStrings(['ecdsa-sha2-nistp256', 'nistp521', ecPoint('nistp256')]),
    ),
  ],
  ['ECDSA off its curve', lineOf('ecdsa-sha2-nistp256', ecdsa('nistp256', offCurve))],
  ['ECDSA compressed', lineOf('ecdsa-sha2-nistp256', ecdsa('nistp256', compressed))],
  ['ECDSA at infinity', lineOf('ecdsa-sha2-nistp256', ecdsa('nistp256', Buffer.alloc(1)))],
  ['RSA with a negative modulus', lineOf('ssh-rsa', rsa(modulus.subarray(1)))],
  ['RSA with a needless zero', lineOf('ssh-rsa', rsa(Buffer.concat([Buffer.alloc(1), modulus])))],
  ['RSA with exponent 3', lineOf('ssh-rsa', rsa(modulus, Buffer.from([3])))],
  ['RSA with exponent 1', lineOf('ssh-rsa', rsa(modulus, Buffer.from([1])))],
  ['RSA with an even exponent', lineOf('ssh-rsa', rsa(modulus, Buffer.from([1, 0, 2])))],
  ['RSA with an empty exponent', lineOf('ssh-rsa', rsa(modulus, Buffer.alloc(0)))],
  [
    'RSA with an even modulus',
    lineOf('ssh-rsa', rsa(Buffer.concat([modulus.subarray(0, -1), Buffer.from([2])]))),
  ],
  ['RSA with a tail', lineOf('ssh-rsa', Buffer.concat([rsa(modulus), encodeString('x')]))],
]

const UNSUPPORTED: [name: string, line: string][] = [
  ['a certificate', lineOf('ssh-ed25519-cert-v01@openssh.com', certificate)],
  ['RSA of 3072 bits', lineOf('ssh-rsa', rsa(modulus))],
  ['RSA of 3071 bits', lineOf('ssh-rsa', rsa(oddNumber(3_071)))],
  ['RSA of 1024 bits', lineOf('ssh-rsa', rsa(oddNumber(1_024)))],
  ['RSA of 16384 bits', lineOf('ssh-rsa', rsa(oddNumber(16_384)))],
  ['ECDSA', lineOf('ecdsa-sha2-nistp256', ecdsa('nistp256'))],
  ['ECDSA of 521 bits', lineOf('ecdsa-sha2-nistp521', ecdsa('nistp521'))],
  ['ECDSA in hardware', lineOf('sk-ecdsa-sha2-nistp256@openssh.com', skEcdsa())],
  ['DSA', lineOf('ssh-dss', encodeStrings(['ssh-dss', 'p', 'q', 'g', 'y']))],
  ['Ed448', lineOf('ssh-ed448', encodeStrings(['ssh-ed448', Buffer.alloc(57, 1)]))],
  [
    'a web signature key',
    lineOf(
      'webauthn-sk-ecdsa-sha2-nistp256@openssh.com',
      encodeStrings(['webauthn-sk-ecdsa-sha2-nistp256@openssh.com', 'x']),
    ),
  ],
  [
    'an invented type',
    lineOf('ssh-mine@example.com', encodeStrings(['ssh-mine@example.com', 'x'])),
  ],
  [
    'a name of every object',
    lineOf('constructor', encodeStrings(['constructor', blob.subarray(-32)])),
  ],
]

describe('what is refused', () => {
  test('the control: the line all others are made from is taken', () => {
    expect(codeOf(good)).toBe('accepted')
    expect(INVALID.length + UNSUPPORTED.length).toBeGreaterThanOrEqual(80)
    expect(new Set(INVALID.map(([, line]) => line)).size).toBe(INVALID.length)
  })
  test.each(INVALID)('not a key: %s', (_name, line) => {
    expect(codeOf(line)).toBe('invalid_public_key')
  })
  test.each(UNSUPPORTED)('not for us: %s', (_name, line) => {
    expect(codeOf(line)).toBe('unsupported_key_type')
  })

  test('the message says what to do and repeats nothing of the line', () => {
    for (const [, line] of [...INVALID, ...UNSUPPORTED]) {
      try {
        acceptPublicKey(line)
      } catch (error) {
        const { message } = error as Error
        expect(message).toMatch(/^public_key /)
        expect(message).not.toContain(b64.slice(24, 40))
        expect(message).not.toMatch(/[^\x20-\x7e…−]/)
      }
    }
  })
})
