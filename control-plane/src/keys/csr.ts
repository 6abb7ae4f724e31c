// Reads the public key from a PKCS#10 certificate request (RFC 2986). Strict on purpose: DER only, P-256 only, signed
// by its own key with SHA-256, no extra bytes. Subject and attributes are skipped; the issuer decides them.
import { createPublicKey, type KeyObject, verify } from 'node:crypto'
import { AppError } from '@berth/shared'
import { ENROLMENT } from '../limits/keys.ts'

const SEQUENCE = 0x30
const BIT_STRING = 0x03
const ATTRIBUTES = 0xa0
const VERSION_0 = Buffer.from('020100', 'hex')
const ECDSA_WITH_SHA256 = Buffer.from('300a06082a8648ce3d040302', 'hex')
/** SubjectPublicKeyInfo of an uncompressed P-256 point, up to the point's 64 bytes. */
const P256_PREFIX = Buffer.from('3059301306072a8648ce3d020106082a8648ce3d03010703420004', 'hex')
const P256_SPKI_BYTES = 91

class Malformed extends Error {}

/** Reads one DER element of `bytes` at `at`, which must end at or before `end`. */
function element(
  bytes: Buffer,
  at: number,
  end: number,
): { tag: number; from: number; to: number } {
  if (at + 2 > end) throw new Malformed('it ends too early')
  const tag = bytes.readUInt8(at)
  let length = bytes.readUInt8(at + 1)
  let from = at + 2
  if (length >= 0x80) {
    const size = length & 0x7f
    if (size === 0 || size > 2 || from + size > end) throw new Malformed('a length is not DER')
    length = bytes.readUIntBE(from, size)
    from += size
    if (length < 0x80 || (size === 2 && length < 0x100)) throw new Malformed('a length is not DER')
  }
  if (from + length > end) throw new Malformed('it ends too early')
  return { tag, from, to: from + length }
}

/** Reads the elements of a constructed one, which they must fill exactly. */
function children(bytes: Buffer, from: number, to: number, tags: readonly number[]): Buffer[] {
  const found: Buffer[] = []
  let at = from
  for (const tag of tags) {
    const child = element(bytes, at, to)
    if (child.tag !== tag) throw new Malformed('it is not a certificate request')
    found.push(bytes.subarray(at, child.to))
    at = child.to
  }
  if (at !== to) throw new Malformed('it holds more than a certificate request')
  return found
}

function inside(bytes: Buffer, tags: readonly number[]): Buffer[] {
  const outer = element(bytes, 0, bytes.length)
  if (outer.tag !== SEQUENCE) throw new Malformed('it is not a certificate request')
  if (outer.to !== bytes.length) throw new Malformed('bytes follow it')
  return children(bytes, outer.from, outer.to, tags)
}

const PEM =
  /^\s*-----BEGIN CERTIFICATE REQUEST-----\r?\n([A-Za-z0-9+/=\r\n]+)-----END CERTIFICATE REQUEST-----\s*$/

function toDer(csr: string | Uint8Array): Buffer {
  if (csr.length > ENROLMENT.csrBytes) throw new Malformed('it is too long')
  if (typeof csr !== 'string') return Buffer.from(csr)
  const base64 = PEM.exec(csr)?.[1]?.replace(/[\r\n]/g, '')
  const der = Buffer.from(base64 ?? '', 'base64')
  if (base64 === undefined || der.toString('base64') !== base64)
    throw new Malformed('it is not one PEM block "CERTIFICATE REQUEST"')
  return der
}

function readKey(csr: string | Uint8Array): KeyObject {
  const der = toDer(csr)
  const [info, algorithm, signature] = inside(der, [SEQUENCE, SEQUENCE, BIT_STRING]) as [
    Buffer,
    Buffer,
    Buffer,
  ]
  const [version, , spki] = inside(info, [0x02, SEQUENCE, SEQUENCE, ATTRIBUTES]) as [
    Buffer,
    Buffer,
    Buffer,
  ]
  if (!version.equals(VERSION_0)) throw new Malformed('its version is unknown')
  const isP256 = spki.length === P256_SPKI_BYTES && spki.indexOf(P256_PREFIX) === 0
  if (!isP256) throw new Malformed('its key is not an uncompressed P-256 key')
  if (!algorithm.equals(ECDSA_WITH_SHA256)) throw new Malformed('it is not signed with SHA-256')
  // throws if the point is not on the curve
  const key = createPublicKey({ key: spki, format: 'der', type: 'spki' })
  const { from, to } = element(signature, 0, signature.length)
  if (from === to || signature.readUInt8(from) !== 0)
    throw new Malformed('its signature is damaged')
  if (!verify('sha256', info, key, signature.subarray(from + 1, to)))
    throw new Malformed('it is not signed by its own key')
  return key
}

/** Returns the request's public key after verifying possession of the private key; throws `csr_invalid` otherwise. */
export function readRequestedKey(csr: string | Uint8Array): KeyObject {
  try {
    return readKey(csr)
  } catch (error) {
    const why = error instanceof Malformed ? error.message : 'its key cannot be used'
    throw new AppError(
      'csr_invalid',
      `The certificate request was refused: ${why}. Send a PKCS#10 request for a P-256 key, ` +
        'signed by that key.',
    )
  }
}
