// Builds keys and certificates that the product never makes: it skips every check of the codec, so that tests can show
// readers and sshd what they must refuse.
import {
  createHash,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
} from 'node:crypto'
import type { Signer } from '@berth/shared/ssh'
import {
  ed25519PublicKey,
  encodePublicKey,
  encodeString,
  encodeStrings,
  encodeU32,
  encodeU64,
  type SshPublicKey,
} from '@berth/shared/ssh'

export const makeEd25519 = (): KeyObject => generateKeyPairSync('ed25519').privateKey

export const signerOf = (key: KeyObject): Signer => ({
  publicKey: ed25519PublicKey(key),
  sign: (bytes) => sign(null, bytes, key),
})

export const blobOf = (key: KeyObject): Buffer => encodePublicKey(ed25519PublicKey(key))
export const lineOf = (type: string, blob: Uint8Array, comment = ''): string =>
  `${type} ${Buffer.from(blob).toString('base64')}${comment && ` ${comment}`}`

/** A security key's public half: the hardware's key and the application it was made for. */
export const skEd25519 = (key: KeyObject, application = 'ssh:'): Buffer => {
  const [point] = ed25519PublicKey(key).fields
  return encodeStrings(['sk-ssh-ed25519@openssh.com', point as Buffer, application])
}

const CURVE_NAMES = { nistp256: 'P-256', nistp384: 'P-384', nistp521: 'P-521' } as const
export function ecPoint(curve: keyof typeof CURVE_NAMES): Buffer {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: CURVE_NAMES[curve] })
  const { x, y } = publicKey.export({ format: 'jwk' }) as { x: string; y: string }
  return Buffer.concat([Buffer.from([4]), Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')])
}
export const ecdsa = (curve: keyof typeof CURVE_NAMES, point = ecPoint(curve)): Buffer =>
  encodeStrings([`ecdsa-sha2-${curve}`, curve, point])
export const skEcdsa = (application = 'ssh:'): Buffer =>
  encodeStrings([
    'sk-ecdsa-sha2-nistp256@openssh.com',
    'nistp256',
    ecPoint('nistp256'),
    application,
  ])

/** An odd number of so many bits that looks random; no test needs its factors. */
export function oddNumber(bits: number): Buffer {
  const bytes = Buffer.concat(
    Array.from({ length: Math.ceil(bits / 256) }, (_, n) =>
      createHash('sha256').update(`modulus ${n}`).digest(),
    ),
  ).subarray(0, Math.ceil(bits / 8))
  const spare = bytes.length * 8 - bits
  bytes.writeUInt8((bytes.readUInt8(0) & (0xff >> spare)) | (0x80 >> spare), 0)
  bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) | 1, bytes.length - 1)
  return spare === 0 ? Buffer.concat([Buffer.alloc(1), bytes]) : bytes
}
export const rsa = (n: Uint8Array, e: Uint8Array = Buffer.from([1, 0, 1])): Buffer =>
  encodeStrings(['ssh-rsa', e, n])

export interface Crafted {
  type?: string
  kind?: number
  serial?: bigint
  keyId?: string
  principals?: (string | Uint8Array)[]
  after?: bigint
  before?: bigint
  critical?: [string, string | Uint8Array][]
  extensions?: [string, string | Uint8Array][]
  nonce?: Uint8Array
  reserved?: string
  /** Replaces the field of the authority's key. */
  authority?: Uint8Array
  trailing?: Uint8Array
}

const options = (list: [string, string | Uint8Array][] = []): Buffer =>
  Buffer.concat(
    list.map(([name, value]) =>
      encodeStrings([name, value.length === 0 ? '' : encodeString(value)]),
    ),
  )

/** `keyTail` holds the key's fields as in the certificate, length prefixes included. */
export function craft(keyTail: Uint8Array, c: Crafted, ca: KeyObject): Buffer {
  const now = BigInt(Math.floor(Date.now() / 1_000))
  const signed = Buffer.concat([
    encodeString(c.type ?? 'ssh-ed25519-cert-v01@openssh.com'),
    encodeString(c.nonce ?? randomBytes(32)),
    keyTail,
    encodeU64(c.serial ?? 5n),
    encodeU32(c.kind ?? 1),
    encodeString(c.keyId ?? 'crafted'),
    encodeString(encodeStrings(c.principals ?? ['berth:server:7'])),
    encodeU64(c.after ?? now - 1_800n),
    encodeU64(c.before ?? now + 300n),
    encodeString(options(c.critical)),
    encodeString(options(c.extensions)),
    encodeString(c.reserved ?? ''),
    encodeString(c.authority ?? blobOf(createPublicKey(ca))),
  ])
  const signature = encodeString(encodeStrings(['ssh-ed25519', sign(null, signed, ca)]))
  return Buffer.concat([signed, signature, c.trailing ?? Buffer.alloc(0)])
}

export const tailOf = (key: SshPublicKey): Buffer => encodeStrings(key.fields)
