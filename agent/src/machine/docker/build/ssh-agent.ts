// An SSH agent with one Ed25519 key (draft-ietf-sshm-ssh-agent): it lists the key and signs with it. No message gives
// the key away, adds one or removes it.
import { createPrivateKey, type KeyObject, sign } from 'node:crypto'
import {
  encodeString,
  encodeStrings,
  encodeU32,
  SshFormatError,
  SshReader,
} from '@berth/shared/ssh'
import { BUILDS } from '../../../limits/docker.ts'

const FAILURE = 5
const REQUEST_IDENTITIES = 11
const IDENTITIES_ANSWER = 12
const SIGN_REQUEST = 13
const SIGN_RESPONSE = 14
const TYPE = 'ssh-ed25519'
const MAGIC = 'openssh-key-v1\0'

export interface SigningKey {
  key: KeyObject
  /** The public key as SSH encodes it. */
  blob: Buffer
  comment: string
}

/** Reads OpenSSH's own format, without a pass phrase. The error never contains a part of the key. */
export function readSigningKey(file: Uint8Array): SigningKey {
  const text = Buffer.from(file).toString('latin1')
  const body = /-----BEGIN OPENSSH PRIVATE KEY-----([\s\S]*?)-----END/.exec(text)?.[1]
  const bytes = Buffer.from(body ?? '', 'base64')
  if (bytes.toString('latin1', 0, MAGIC.length) !== MAGIC) {
    throw new SshFormatError('it is not an OpenSSH private key')
  }
  const outer = new SshReader(bytes.subarray(MAGIC.length))
  const [cipher, derivation] = [outer.text(), outer.text()]
  outer.string()
  if (cipher !== 'none' || derivation !== 'none' || outer.u32() !== 1) {
    throw new SshFormatError('it has a pass phrase, or is more than one key')
  }
  const blob = Buffer.from(outer.string())
  const inner = new SshReader(outer.string())
  const [check, again] = [inner.u32(), inner.u32()]
  if (check !== again) throw new SshFormatError('it is damaged')
  if (inner.text() !== TYPE) throw new SshFormatError('it is not an Ed25519 key')
  const x = inner.string().toString('base64url')
  const d = inner.string().subarray(0, 32).toString('base64url')
  const key = createPrivateKey({ format: 'jwk', key: { kty: 'OKP', crv: 'Ed25519', x, d } })
  return { key, blob, comment: inner.text() }
}

function answer({ key, blob, comment }: SigningKey, message: Buffer): Buffer {
  const reader = new SshReader(message.subarray(1))
  if (message[0] === REQUEST_IDENTITIES) {
    const list = Buffer.concat([encodeU32(1), encodeStrings([blob, comment])])
    return Buffer.concat([Buffer.from([IDENTITIES_ANSWER]), list])
  }
  if (message[0] !== SIGN_REQUEST || !reader.string().equals(blob)) return Buffer.from([FAILURE])
  const signature = encodeStrings([TYPE, sign(null, reader.string(), key)])
  return Buffer.concat([Buffer.from([SIGN_RESPONSE]), encodeString(signature)])
}

/** Takes the bytes of one connection, returns those to send. Throws when they are not the protocol. */
export function openSshAgent(key: SigningKey): (chunk: Buffer) => Buffer {
  let rest: Buffer = Buffer.alloc(0)
  return (chunk) => {
    const answers: Buffer[] = []
    rest = Buffer.concat([rest, chunk])
    while (rest.length >= 4) {
      const length = rest.readUInt32BE(0)
      if (length === 0 || length > BUILDS.sshMessageBytes) throw new SshFormatError('a bad length')
      if (rest.length < 4 + length) break
      answers.push(encodeString(answer(key, rest.subarray(4, 4 + length))))
      rest = rest.subarray(4 + length)
    }
    return Buffer.concat(answers)
  }
}
