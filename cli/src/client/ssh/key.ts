// A key pair for one connection, created in memory. The private half uses OpenSSH's own format, because ssh 9.2 cannot
// read the PKCS#8 that Node writes for Ed25519.
import { generateKeyPairSync, randomBytes } from 'node:crypto'

const COMMENT = 'berth'

function field(value: string | Buffer): Buffer {
  const bytes = typeof value === 'string' ? Buffer.from(value) : value
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}

interface EphemeralKey {
  /** As in a .pub file. */
  publicLine: string
  /** The complete content of the private key file. */
  privateFile: string
}

export function makeEphemeralKey(): EphemeralKey {
  const { privateKey } = generateKeyPairSync('ed25519')
  const jwk = privateKey.export({ format: 'jwk' })
  const point = Buffer.from(jwk.x ?? '', 'base64url')
  const seed = Buffer.from(jwk.d ?? '', 'base64url')
  const publicBlob = Buffer.concat([field('ssh-ed25519'), field(point)])
  const check = randomBytes(4) // written twice, so that a reader can verify the decryption
  const parts = [check, check, publicBlob, field(Buffer.concat([seed, point])), field(COMMENT)]
  const size = parts.reduce((sum, part) => sum + part.length, 0)
  const padding = Buffer.from(Array.from({ length: (8 - (size % 8)) % 8 }, (_, i) => i + 1))
  const count = Buffer.from([0, 0, 0, 1])
  const whole = Buffer.concat([
    Buffer.from('openssh-key-v1\0'),
    field('none'),
    field('none'),
    field(''),
    count,
    field(publicBlob),
    field(Buffer.concat([...parts, padding])),
  ])
  const lines = whole.toString('base64').match(/.{1,70}/g) ?? []
  const [begin, end] = ['BEGIN', 'END'].map((word) => `-----${word} OPENSSH PRIVATE KEY-----`)
  return {
    publicLine: `ssh-ed25519 ${publicBlob.toString('base64')} ${COMMENT}`,
    privateFile: `${[begin, ...lines, end].join('\n')}\n`,
  }
}
