// Signs, reads and verifies OpenSSH certificates (PROTOCOL.certkeys). Invariant: a new certificate is read back and
// compared field by field, and the first one of each signer is verified; a blob is accepted only in canonical form.
// Authorities are Ed25519; every certificate has principals and an end, and no extension permits forwarding.
import { randomBytes, verify } from 'node:crypto'
import { SSH } from '../limits/ssh.ts'
import { GRANT_EXTENSION } from '../ssh.ts'
import {
  ed25519KeyObject,
  encodePublicKey,
  KEY_TYPES,
  type KeyType,
  readKeyFields,
  readPublicKey,
  type SshPublicKey,
} from './keys.ts'
import { isSourceAddress } from './source-address.ts'
import {
  encodeString,
  encodeStrings,
  encodeU32,
  encodeU64,
  SshFormatError,
  SshReader,
} from './wire.ts'

type Options = ReadonlyMap<string, string>

export interface CertificateContent {
  kind: 'user' | 'host'
  serial: bigint
  keyId: string
  principals: readonly string[]
  /** Unix time in whole seconds; the end is exclusive. */
  validAfter: number
  validBefore: number
  /** By name; an empty value is a flag. */
  criticalOptions: Options
  extensions: Options
}

export interface SshCertificate extends CertificateContent {
  key: SshPublicKey
  nonce: Buffer
  authority: SshPublicKey
  signature: Buffer
}

/** The kind and time for which a certificate must be valid. */
interface Moment {
  kind: CertificateContent['kind']
  nowSeconds: number
}

/** Holds an authority's key and never exposes it: a key in memory, or a device. */
export interface Signer {
  readonly publicKey: SshPublicKey
  sign(bytes: Uint8Array): Uint8Array | Promise<Uint8Array>
}

const NONCE_BYTES = 32
const SIGNATURE_BYTES = 64
const SUFFIX = '-cert-v01@openssh.com'
const TYPE_NAMES = Object.fromEntries(
  KEY_TYPES.map((type) => [type, `${type.replace(/@openssh\.com$/, '')}${SUFFIX}`]),
) as Record<KeyType, string>
const CERTIFICATE_TYPES: ReadonlyMap<string, KeyType> = new Map(
  KEY_TYPES.map((type) => [TYPE_NAMES[type], type]),
)
const certificateTypeOf = (type: KeyType): string => TYPE_NAMES[type]

// ---- what may be signed

const PRINCIPAL = /^[a-z0-9:._-]{1,64}$/ // no comma, space, wildcard or control character
const KEY_ID = /^[\x21-\x2b\x2d-\x7e]+$/ // printable, no space and no comma: sshd logs it
const MAX_SERIAL = (1n << 63n) - 1n
const EXTENSIONS = new Set([GRANT_EXTENSION, 'permit-pty'])

class RefusedContent extends Error {
  override readonly name = 'RefusedContent'
}

function requireThat(holds: boolean, problem: string): void {
  if (!holds) throw new RefusedContent(`This SSH certificate is not signed: ${problem}.`)
}

const maxSeconds = (kind: CertificateContent['kind']): number =>
  SSH.backdateSeconds + (kind === 'user' ? SSH.ttlMaxSeconds : SSH.hostCertificateSeconds)

function optionProblem(name: string, value: string, key: SshPublicKey): string | undefined {
  switch (name) {
    case 'source-address':
      return isSourceAddress(value) ? undefined : 'a source address is no exact network'
    case 'force-command':
      return /^[^\p{Cc}]+$/u.test(value) ? undefined : 'its command is not one line'
    case 'verify-required':
      if (value !== '') return 'verify-required has no value'
      return key.type.startsWith('sk-') ? undefined : 'only hardware keys obey verify-required'
    default:
      return 'it has an unknown critical option, which sshd refuses'
  }
}

function checkContent(key: SshPublicKey, content: CertificateContent): void {
  const { kind, serial, principals, keyId, validAfter, validBefore } = content
  requireThat(serial > 0n && serial <= MAX_SERIAL, 'its serial is not from 1 to 2^63−1')
  requireThat(principals.length > 0, 'no principal would mean any account')
  requireThat(principals.length <= SSH.listEntries, 'it has too many principals')
  requireThat(
    principals.every((name) => PRINCIPAL.test(name)),
    'a principal has a character that has no place there',
  )
  requireThat(new Set(principals).size === principals.length, 'a principal stands twice')
  requireThat(KEY_ID.test(keyId) && keyId.length <= SSH.keyIdChars, 'its key id is not printable')
  const whole = Number.isSafeInteger(validAfter) && Number.isSafeInteger(validBefore)
  requireThat(whole && validAfter >= 0, 'its times are not whole seconds')
  const seconds = validBefore - validAfter
  requireThat(seconds > 0 && seconds <= maxSeconds(kind), 'it would hold too long or not at all')
  for (const [name, value] of content.criticalOptions) {
    const problem = optionProblem(name, value, key)
    requireThat(problem === undefined, problem ?? '')
  }
  for (const [name, value] of content.extensions) {
    requireThat(EXTENSIONS.has(name), 'it has an extension that is not ours to give')
    requireThat((value === '') === (name === 'permit-pty'), 'an extension has the wrong value')
    requireThat(Buffer.byteLength(value) <= SSH.grantBytes, 'its grant is too long')
  }
  const optionCount = content.criticalOptions.size + content.extensions.size
  requireThat(kind === 'user' || optionCount === 0, 'a host certificate has no options')
}

// ---- writing

const byName = ([a]: [string, string], [b]: [string, string]): number =>
  Buffer.compare(Buffer.from(a), Buffer.from(b))

const sorted = (options: Options): [string, string][] =>
  options.size < 2 ? [...options] : [...options].toSorted(byName)

/** Sorted by name; a value is a string inside the data string, a flag has empty data. */
const encodeOptions = (options: Options): Buffer =>
  encodeStrings(
    sorted(options).flatMap(([name, value]) => [name, value === '' ? '' : encodeString(value)]),
  )

const encodeSigned = (c: Omit<SshCertificate, 'signature'>): Buffer =>
  Buffer.concat([
    encodeString(certificateTypeOf(c.key.type)),
    encodeString(c.nonce),
    encodeStrings(c.key.fields),
    encodeU64(c.serial),
    encodeU32(c.kind === 'user' ? 1 : 2),
    encodeString(c.keyId),
    encodeString(encodeStrings(c.principals)),
    encodeU64(BigInt(c.validAfter)),
    encodeU64(BigInt(c.validBefore)),
    encodeString(encodeOptions(c.criticalOptions)),
    encodeString(encodeOptions(c.extensions)),
    encodeString(''), // reserved
    encodeString(encodePublicKey(c.authority)),
  ])

const encodeSignature = (signature: Uint8Array): Buffer =>
  encodeString(encodeStrings(['ssh-ed25519', signature]))

export const encodeCertificate = (c: SshCertificate): Buffer =>
  Buffer.concat([encodeSigned(c), encodeSignature(c.signature)])

/** Returns the line of a `-cert.pub` file, without a comment. Throws for content that must not be signed. */
export async function signCertificate(
  key: SshPublicKey,
  content: CertificateContent,
  signer: Signer,
): Promise<string> {
  checkContent(key, content)
  const unsigned = { ...content, key, nonce: randomBytes(NONCE_BYTES), authority: signer.publicKey }
  const signed = encodeSigned(unsigned)
  const signature = Buffer.from(await signer.sign(signed))
  if (signature.length !== SIGNATURE_BYTES) throw new Error('The SSH authority did not sign.')
  const blob = Buffer.concat([signed, encodeSignature(signature)])
  const at = { kind: content.kind, nowSeconds: content.validAfter }
  // equal fields have the same canonical form, so it is not encoded again for comparison
  const read = readFields(blob)
  const sealed = trust(blob, read, [signer.publicKey], at)
  if (!isSame(read, { ...unsigned, signature }))
    throw new Error('The signed SSH certificate is not the one asked for.')
  if (!proven.has(signer)) {
    if (!verify(null, sealed.signed, sealed.authority, signature))
      throw new Error('The SSH authority signs with another key than its own.')
    proven.add(signer)
  }
  return `${certificateTypeOf(key.type)} ${blob.toString('base64')}`
}

/**
 * Signers whose key matches the one they name. Verifying costs three times as much as signing, and for later
 * certificates it would only detect a hardware fault: sshd refuses such a certificate, and because of the nonce no two
 * certificates sign the same bytes, so it reveals nothing about the key.
 */
const proven = new WeakSet<Signer>()

const isSameOptions = (a: Options, b: Options): boolean =>
  a.size === b.size && [...a].every(([name, value]) => b.get(name) === value)

const isSameKey = (a: SshPublicKey, b: SshPublicKey): boolean =>
  a.type === b.type &&
  a.fields.length === b.fields.length &&
  a.fields.every((field, n) => field.equals(b.fields[n] ?? Buffer.alloc(0)))

/** Compares what was read with what was requested, field by field, without relying on the encoder. */
const isSame = (read: SshCertificate, wanted: SshCertificate): boolean =>
  isSameKey(read.key, wanted.key) &&
  isSameKey(read.authority, wanted.authority) &&
  read.nonce.equals(wanted.nonce) &&
  read.signature.equals(wanted.signature) &&
  read.serial === wanted.serial &&
  read.kind === wanted.kind &&
  read.keyId === wanted.keyId &&
  read.principals.length === wanted.principals.length &&
  read.principals.every((name, n) => name === wanted.principals[n]) &&
  read.validAfter === wanted.validAfter &&
  read.validBefore === wanted.validBefore &&
  isSameOptions(read.criticalOptions, wanted.criticalOptions) &&
  isSameOptions(read.extensions, wanted.extensions)

// ---- reading

function readList<T>(bytes: Buffer, one: (reader: SshReader) => T): T[] {
  const reader = new SshReader(bytes)
  const list: T[] = []
  while (reader.more) {
    if (list.length >= SSH.listEntries) throw new SshFormatError('a list is too long')
    list.push(one(reader))
  }
  return list
}

function readOptions(bytes: Buffer): Options {
  const pairs = readList(bytes, (reader): [string, string] => {
    const name = reader.text()
    const data = new SshReader(reader.string())
    const value = data.more ? data.text() : ''
    data.end()
    return [name, value]
  })
  const options = new Map(pairs)
  if (options.size !== pairs.length) throw new SshFormatError('an option stands twice')
  return options
}

function readTime(reader: SshReader): number {
  const seconds = reader.u64()
  if (seconds > BigInt(Number.MAX_SAFE_INTEGER)) throw new SshFormatError('it has no end')
  return Number(seconds)
}

function readFields(blob: Uint8Array): SshCertificate {
  if (blob.length > SSH.certificateBytes) throw new SshFormatError('it is too long')
  const reader = new SshReader(blob)
  const type = CERTIFICATE_TYPES.get(reader.text())
  if (!type) throw new SshFormatError('it is no certificate')
  const nonce = reader.string()
  const key = { type, fields: readKeyFields(type, reader) }
  const serial = reader.u64()
  const kind = reader.u32()
  if (kind !== 1 && kind !== 2) throw new SshFormatError('it is neither for a user nor a host')
  const keyId = reader.text()
  const principals = readList(reader.string(), (names) => names.text())
  const validAfter = readTime(reader)
  const validBefore = readTime(reader)
  const criticalOptions = readOptions(reader.string())
  const extensions = readOptions(reader.string())
  reader.string() // reserved: must be empty, which the comparison of encodings ensures
  const authority = readPublicKey(reader.string(), 'ssh-ed25519')
  const signed = new SshReader(reader.string())
  if (signed.text() !== 'ssh-ed25519') throw new SshFormatError('its signature is not Ed25519')
  const signature = signed.string()
  signed.end()
  reader.end()
  return {
    kind: kind === 1 ? 'user' : 'host',
    key,
    nonce,
    serial,
    keyId,
    principals,
    validAfter,
    validBefore,
    criticalOptions,
    extensions,
    authority,
    signature,
  }
}

/** Reads without trusting; only `verifyCertificate` establishes trust. */
export function readCertificate(blob: Uint8Array): SshCertificate {
  const certificate = readFields(blob)
  if (!encodeCertificate(certificate).equals(blob))
    throw new SshFormatError('it is not in its one form')
  return certificate
}

/** Checks everything but the signature: the named authority, the kind and the time; returns the signed bytes. */
function trust(
  blob: Uint8Array,
  certificate: SshCertificate,
  authorities: readonly SshPublicKey[],
  at: Moment,
) {
  const authority = authorities.find((one) => isSameKey(one, certificate.authority))
  if (!authority) throw new SshFormatError('it is of an unknown authority')
  if (certificate.kind !== at.kind) throw new SshFormatError(`it is not for a ${at.kind}`)
  if (certificate.principals.length === 0) throw new SshFormatError('it names no principal')
  if (at.nowSeconds < certificate.validAfter || at.nowSeconds >= certificate.validBefore)
    throw new SshFormatError('it is outside its time')
  // the blob is canonical, so everything before the signature was signed
  const signed = blob.subarray(0, blob.length - encodeSignature(certificate.signature).length)
  return { signed, authority: ed25519KeyObject(authority) }
}

/** Requires a signature by one of our authorities, the wanted kind and a valid time. Throws otherwise. */
export function verifyCertificate(
  blob: Uint8Array,
  authorities: readonly SshPublicKey[],
  at: Moment,
): SshCertificate {
  const certificate = readCertificate(blob)
  const { signed, authority } = trust(blob, certificate, authorities, at)
  if (!verify(null, signed, authority, certificate.signature))
    throw new SshFormatError('its signature is wrong')
  return certificate
}
