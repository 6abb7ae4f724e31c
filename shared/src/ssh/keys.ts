// Parses public keys in OpenSSH's one-line form strictly, checks them and encodes them again. Invariant: output is
// built from checked fields; no byte of a submitted line is copied, and an ambiguous line is refused. Certificates as
// keys, DSA and options before a key are not supported; comments are dropped.
import { createHash, createPublicKey, type KeyObject } from 'node:crypto'
import { SSH } from '../limits/ssh.ts'
import { isEd25519Key } from './ed25519-point.ts'
import { encodeString, encodeStrings, SshFormatError, SshReader } from './wire.ts'

export const KEY_TYPES = [
  'ssh-ed25519',
  'sk-ssh-ed25519@openssh.com',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'sk-ecdsa-sha2-nistp256@openssh.com',
  'ssh-rsa',
] as const
export type KeyType = (typeof KEY_TYPES)[number]

/** Types for which certificates are issued; one line here allows another type. */
const ACCEPTED: readonly KeyType[] = ['ssh-ed25519', 'sk-ssh-ed25519@openssh.com']

export interface SshPublicKey {
  readonly type: KeyType
  /** What follows the type in the blob, without the length prefixes. */
  readonly fields: readonly Buffer[]
}

export class SshKeyError extends Error {
  override readonly name = 'SshKeyError'
  readonly code: 'invalid_public_key' | 'unsupported_key_type'

  constructor(code: SshKeyError['code'], message: string) {
    super(message)
    this.code = code
  }
}

const invalid = (message: string): SshKeyError =>
  new SshKeyError('invalid_public_key', `public_key ${message}`)
const unsupported = (what: string): SshKeyError =>
  new SshKeyError(
    'unsupported_key_type',
    `public_key is ${what}. Use ${ACCEPTED.join(' or ')}: ssh-keygen -t ed25519.`,
  )

const isKeyType = (type: string): type is KeyType => KEY_TYPES.includes(type as KeyType)

function readEd25519(reader: SshReader): Buffer {
  const key = reader.string()
  if (key.length !== 32) throw new SshFormatError('an Ed25519 key has 32 bytes')
  if (!isEd25519Key(key)) throw new SshFormatError('it is no point of the curve')
  return key
}

const CURVES = {
  nistp256: { bytes: 32, name: 'P-256' },
  nistp384: { bytes: 48, name: 'P-384' },
  nistp521: { bytes: 66, name: 'P-521' },
} as const

function readEcdsa(reader: SshReader, curve: keyof typeof CURVES): Buffer[] {
  const named = reader.string()
  const point = reader.string()
  if (named.toString('latin1') !== curve) throw new SshFormatError('it names another curve')
  const { bytes, name: crv } = CURVES[curve]
  if (point.length !== 1 + 2 * bytes || point[0] !== 4)
    throw new SshFormatError('its point is not in the one form')
  const x = point.subarray(1, 1 + bytes).toString('base64url')
  const y = point.subarray(1 + bytes).toString('base64url')
  try {
    createPublicKey({ format: 'jwk', key: { kty: 'EC', crv, x, y } })
  } catch {
    throw new SshFormatError('it is no point of the curve')
  }
  return [named, point]
}

/** A positive integer in canonical form: no sign, no leading zero. */
function readInteger(reader: SshReader): { bytes: Buffer; value: bigint; bits: number } {
  const bytes = reader.string()
  const [first = 0x80, second = 0] = bytes
  if ((first & 0x80) !== 0 || (first === 0 && (second & 0x80) === 0))
    throw new SshFormatError('a number is not in its one form')
  const value = BigInt(`0x${bytes.toString('hex')}`)
  return { bytes, value, bits: value.toString(2).length }
}

function readRsa(reader: SshReader): Buffer[] {
  const exponent = readInteger(reader)
  const modulus = readInteger(reader)
  const odd = (n: bigint): boolean => (n & 1n) === 1n
  if (exponent.value < 65_537n || exponent.bits > 64 || !odd(exponent.value))
    throw new SshFormatError('its exponent is not usable')
  if (!odd(modulus.value)) throw new SshFormatError('its modulus is even')
  const { rsaMinBits, rsaMaxBits } = SSH
  if (modulus.bits < rsaMinBits || modulus.bits > rsaMaxBits)
    throw unsupported(`an RSA key of ${modulus.bits} bits, outside ${rsaMinBits} to ${rsaMaxBits}`)
  return [exponent.bytes, modulus.bytes]
}

function readApplication(reader: SshReader): Buffer {
  const application = reader.string()
  if (!/^ssh:[\x21-\x7e]{0,200}$/.test(application.toString('latin1')))
    throw new SshFormatError('its application is not one of SSH')
  return application
}

/** Reads and checks the fields of a type; also for the key inside a certificate. */
export function readKeyFields(type: KeyType, reader: SshReader): Buffer[] {
  switch (type) {
    case 'ssh-ed25519':
      return [readEd25519(reader)]
    case 'sk-ssh-ed25519@openssh.com':
      return [readEd25519(reader), readApplication(reader)]
    case 'ecdsa-sha2-nistp256':
      return readEcdsa(reader, 'nistp256')
    case 'ecdsa-sha2-nistp384':
      return readEcdsa(reader, 'nistp384')
    case 'ecdsa-sha2-nistp521':
      return readEcdsa(reader, 'nistp521')
    case 'sk-ecdsa-sha2-nistp256@openssh.com':
      return [...readEcdsa(reader, 'nistp256'), readApplication(reader)]
    case 'ssh-rsa':
      return readRsa(reader)
  }
}

const describeType = (type: string): string =>
  /-cert-v\d+@openssh\.com$/.test(type)
    ? 'a certificate, not a key'
    : /^[a-z0-9@.-]{1,64}$/.test(type)
      ? `of type ${type}`
      : 'of an unknown type'

/** Reads a whole key blob. Throws SshKeyError. */
export function readPublicKey(blob: Uint8Array, named?: string): SshPublicKey {
  try {
    const reader = new SshReader(blob)
    const type = reader.text()
    if (named !== undefined && named !== type) throw invalid('names one type and holds another.')
    if (!isKeyType(type)) throw unsupported(describeType(type))
    const fields = readKeyFields(type, reader).map((field) => Buffer.from(field))
    reader.end()
    return { type, fields }
  } catch (error) {
    if (error instanceof SshFormatError) throw invalid(`is not a whole key: ${error.message}.`)
    throw error
  }
}

/** base64 has several texts for some bytes; only the canonical one is accepted. */
function decodeBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64')
  return bytes.toString('base64') === text ? bytes : undefined
}

/** A comment is dropped; one that could be read as another key is refused. */
function checkComment(comment: string): void {
  const isKey = (word: string): boolean =>
    isKeyType(word) ||
    /^(?:ssh-dss|.*-cert-v\d+@openssh\.com|AAAA[A-Za-z0-9+/]{16,}=*)$/u.test(word)
  if (comment.split(' ').some(isKey)) throw invalid('holds more than one key. Send one.')
}

/** ONE line `type base64 [comment]`, separated by single spaces; the line end of a .pub file may follow. */
export function parsePublicKey(text: string): SshPublicKey {
  if (text.length > SSH.lineChars) throw invalid('is too long for a key.')
  if (/-----BEGIN [A-Z ]*PRIVATE KEY/.test(text)) {
    throw invalid(
      'is a PRIVATE key. Send the .pub file, and make a new key: this one has travelled.',
    )
  }
  const line = text.endsWith('\n') ? text.slice(0, -1) : text
  if (/[\p{Cc}\p{Zl}\p{Zp}\p{Cs}]/u.test(line))
    throw invalid('must be one line without control characters.')
  const parts = /^([A-Za-z0-9@.-]{1,64}) ([A-Za-z0-9+/]+={0,2})(?: (.*))?$/u.exec(line)
  const blob = decodeBase64(parts?.[2] ?? '')
  if (!parts || !blob || blob.length === 0) {
    throw invalid('is not one line of the form "ssh-ed25519 AAAA… comment".')
  }
  checkComment(parts[3] ?? '')
  return readPublicKey(blob, parts[1])
}

/** Parses a key for which a certificate is requested, of a type that we issue for. */
export function acceptPublicKey(text: string): SshPublicKey {
  const key = parsePublicKey(text)
  if (!ACCEPTED.includes(key.type)) throw unsupported(describeType(key.type))
  return key
}

export const encodePublicKey = (key: SshPublicKey): Buffer =>
  Buffer.concat([encodeString(key.type), encodeStrings(key.fields)])

export const formatPublicKey = (key: SshPublicKey): string =>
  `${key.type} ${encodePublicKey(key).toString('base64')}`

/** `SHA256:…`, as ssh-keygen and sshd's log show it. */
export const fingerprintOf = (key: SshPublicKey): string =>
  `SHA256:${createHash('sha256').update(encodePublicKey(key)).digest('base64').replace(/=+$/, '')}`

/** The OpenSSH form of one of our Ed25519 keys, from its public or private half. */
export function ed25519PublicKey(key: KeyObject): SshPublicKey {
  if (key.asymmetricKeyType !== 'ed25519') throw new Error('An SSH authority has an Ed25519 key.')
  const open = key.type === 'private' ? createPublicKey(key) : key
  const { x } = open.export({ format: 'jwk' }) as { x: string }
  return { type: 'ssh-ed25519', fields: [Buffer.from(x, 'base64url')] }
}

const verifiers = new WeakMap<SshPublicKey, KeyObject>()

/** For verifying with node:crypto; cached for each key that is kept. */
export function ed25519KeyObject(key: SshPublicKey): KeyObject {
  const known = verifiers.get(key)
  if (known) return known
  const [x] = key.fields
  if (key.type !== 'ssh-ed25519' || !x) throw new Error('An SSH authority has an Ed25519 key.')
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: x.toString('base64url') }
  const made = createPublicKey({ format: 'jwk', key: jwk })
  verifiers.set(key, made)
  return made
}
