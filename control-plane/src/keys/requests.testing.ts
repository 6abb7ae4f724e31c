// Builds certificate requests and agents for tests with node:crypto; any part of a request can be replaced by a wrong
// one.
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { type Authority, issueAgentCertificate, type KeyPair } from './authority.ts'

/** Encodes one DER element, by default with the shortest length. */
export function tlv(tag: number, ...parts: Uint8Array[]): Buffer {
  const body = Buffer.concat(parts)
  const long =
    body.length < 0x100 ? [0x81, body.length] : [0x82, body.length >> 8, body.length & 255]
  return Buffer.concat([Buffer.from([tag, ...(body.length < 0x80 ? [body.length] : long)]), body])
}
export const hex = (text: string) => Buffer.from(text, 'hex')
export const p256 = () => generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
export const spkiOf = (key: KeyObject) => key.export({ format: 'der', type: 'spki' })

const SUBJECT = tlv(
  0x30,
  tlv(0x31, tlv(0x30, hex('0603550403'), tlv(0x0c, Buffer.from('any name')))),
)
interface RequestParts {
  version?: Buffer
  spki?: Buffer
  attributes?: Buffer
  algorithm?: Buffer
  hash?: string
  key?: KeyObject
  signature?: (signature: Buffer) => Buffer
}
/** Builds a request that is valid unless a part is replaced; the signature always covers its content. */
export function buildRequest(parts: RequestParts = {}): Buffer {
  const pair = p256()
  const info = tlv(
    0x30,
    parts.version ?? hex('020100'),
    SUBJECT,
    parts.spki ?? spkiOf(pair.publicKey),
    parts.attributes ?? hex('a000'),
  )
  const signature = sign(parts.hash ?? 'sha256', info, parts.key ?? pair.privateKey)
  return tlv(
    0x30,
    info,
    parts.algorithm ?? hex('300a06082a8648ce3d040302'),
    parts.signature?.(signature) ?? tlv(0x03, hex('00'), signature),
  )
}

/** An agent that joined: its key and its certificate. */
export async function newAgent(
  authority: Authority,
  identity: { installationId: string; agentId: string; now?: Date },
): Promise<KeyPair> {
  const pair = p256()
  const csr = buildRequest({ spki: spkiOf(pair.publicKey), key: pair.privateKey })
  const issued = await issueAgentCertificate(authority, { now: new Date(), csr, ...identity })
  const keyPem = pair.privateKey.export({ format: 'pem', type: 'pkcs8' }).toString()
  return { certificatePem: issued.certificatePem, keyPem }
}
