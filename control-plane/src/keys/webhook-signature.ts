// Checks whether one of the project's secrets signed a delivery: HMAC-SHA256 over the raw bytes, compared in constant
// time. It always tries three secrets, with a random key for missing ones, so the work is constant. Only the detected
// forge's own header counts; a missing or empty header, or an empty secret, never verifies. SHA-1 is not read.
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Provider } from '@berth/shared'
import { type HookHeaders, payloadText } from '../domain/forges/payloads/detect.ts'
import { WEBHOOKS } from '../limits/forges.ts'

const SECRET_KINDS = ['current', 'previous', 'legacy'] as const
type SecretKind = (typeof SECRET_KINDS)[number]
/** The secrets that a project accepts now. */
export type HookSecrets = Partial<Record<SecretKind, string>>

interface SignedDelivery {
  /** Undefined for an unknown forge, which is refused after the same work. */
  provider: Provider | undefined
  headers: HookHeaders
  body: Buffer
  isForm: boolean
  now: number
}

const DECOY_KEY = randomBytes(32)
const WHSEC = 'whsec_'

const sameBytes = (a: Buffer, b: Buffer): boolean => a.length === b.length && timingSafeEqual(a, b)

/** Compares texts of any length in constant time, by their digests. */
const sameText = (a: string, b: string): boolean => {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(a), digest(b))
}

/** Returns the signature as bytes; empty if it has the wrong form. */
function hexSignature(value: string | undefined, prefix: string): Buffer {
  if (value === undefined || !value.startsWith(prefix)) return Buffer.alloc(0)
  const hex = value.slice(prefix.length)
  return /^[0-9a-fA-F]{64}$/.test(hex) ? Buffer.from(hex, 'hex') : Buffer.alloc(0)
}

function expectedHex({ provider, headers }: SignedDelivery): Buffer {
  switch (provider) {
    case 'github':
      return hexSignature(headers['x-hub-signature-256'], 'sha256=')
    case 'bitbucket_cloud':
    case 'bitbucket_server':
      return hexSignature(headers['x-hub-signature'], 'sha256=')
    case 'gitea':
      return hexSignature(headers['x-gitea-signature'], '')
    case 'forgejo':
      return hexSignature(headers['x-forgejo-signature'], '')
    default:
      return Buffer.alloc(0)
  }
}

/** Gitea and Forgejo sign the JSON text even when they send it as a form. */
function signedBytes({ provider, body, isForm }: SignedDelivery): Buffer {
  if (!isForm || (provider !== 'gitea' && provider !== 'forgejo')) return body
  return Buffer.from(payloadText(body.toString('utf8'), true) ?? '')
}

function verifyGitlab(
  delivery: SignedDelivery,
  secrets: HookSecrets,
  kind: SecretKind,
  bytes: Buffer,
): boolean {
  const { headers, now } = delivery
  const secret = secrets[kind]
  const signature = headers['webhook-signature']
  const signing = SECRET_KINDS.some((k) => secrets[k]?.startsWith(WHSEC))
  // if a signature can be checked, it alone decides
  if (signature === undefined || !signing) {
    const given = headers['x-gitlab-token'] ?? ''
    const same = sameText(given, secret ?? DECOY_KEY.toString('hex'))
    return same && given !== '' && secret !== undefined && secret !== ''
  }
  const id = headers['webhook-id'] ?? ''
  const stamp = headers['webhook-timestamp'] ?? ''
  const key = secret?.startsWith(WHSEC)
    ? Buffer.from(secret.slice(WHSEC.length), 'base64')
    : DECOY_KEY
  const digest = createHmac('sha256', key.length > 0 ? key : DECOY_KEY)
    .update(`${id}.${stamp}.`)
    .update(bytes)
    .digest('base64')
  const seconds = /^[0-9]{1,12}$/.test(stamp) ? Number(stamp) : Number.NaN
  const fresh = Math.abs(now - seconds * 1_000) <= WEBHOOKS.timestampMs
  let same = false
  for (const one of signature.split(' ').slice(0, 10)) {
    if (!one.startsWith('v1,')) continue
    same = sameText(one.slice(3), digest) || same
  }
  return same && fresh && id !== '' && key !== DECOY_KEY && key.length > 0
}

/** Returns the secret that signed it; undefined if none did, for any reason. */
export function verifySignature(
  delivery: SignedDelivery,
  secrets: HookSecrets,
): SecretKind | undefined {
  const expected = expectedHex(delivery)
  const bytes = signedBytes(delivery)
  let found: SecretKind | undefined
  for (const kind of SECRET_KINDS) {
    const secret = secrets[kind]
    let signed: boolean
    if (delivery.provider === 'gitlab') {
      signed = verifyGitlab(delivery, secrets, kind, bytes)
    } else {
      const usable = secret !== undefined && secret !== ''
      const digest = createHmac('sha256', usable ? secret : DECOY_KEY)
        .update(bytes)
        .digest()
      signed = sameBytes(expected, digest) && usable
    }
    if (signed) found ??= kind
  }
  return found
}
