// Creates, classifies and compares bearer tokens and join tokens. A token is shown once; the database holds only its
// SHA-256. The checksum makes a mistyped or invented token fail before any lookup. Rows, expiry and scopes are in
// store/ and app/.
import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { crc32 } from 'node:zlib'

export const TOKEN_PREFIXES = [
  'berth_at_',
  'berth_rt_',
  'berth_pat_',
  'berth_setup_',
  'berth_invite_',
] as const
type TokenPrefix = (typeof TOKEN_PREFIXES)[number]

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const RANDOM_BYTES = 32
const RANDOM_CHARS = 43 // 62^43 > 2^256
const CHECK_CHARS = 6 // 62^6 > 2^32
const TOKEN = new RegExp(
  `^(${TOKEN_PREFIXES.join('|')})([0-9A-Za-z]{${RANDOM_CHARS + CHECK_CHARS}})$`,
)

function toBase62(value: bigint, chars: number): string {
  let text = ''
  for (let rest = value; text.length < chars; rest /= 62n)
    text = ALPHABET.charAt(Number(rest % 62n)) + text
  return text
}

/** Plain numbers for speed, because every request checks its token. */
function checksum(text: string): string {
  let rest = crc32(text)
  let made = ''
  while (made.length < CHECK_CHARS) {
    made = ALPHABET.charAt(rest % 62) + made
    rest = Math.floor(rest / 62)
  }
  return made
}

/** Creates a token of 256 random bits: the prefix is its kind, the last six characters are the checksum. */
export function makeToken(prefix: TokenPrefix): string {
  const random = BigInt(`0x${randomBytes(RANDOM_BYTES).toString('hex')}`)
  const body = prefix + toBase62(random, RANDOM_CHARS)
  return body + checksum(body)
}

/** Returns the kind of a token; undefined if the text cannot be one, which saves a lookup. */
export function parseToken(text: string): { prefix: TokenPrefix } | undefined {
  const prefix = TOKEN.exec(text)?.[1] as TokenPrefix | undefined
  if (prefix === undefined) return undefined
  return checksum(text.slice(0, -CHECK_CHARS)) === text.slice(-CHECK_CHARS) ? { prefix } : undefined
}

/** The stored form of a token or secret: hexadecimal SHA-256. Enough for 256 random bits. */
export const hashToken = (text: string): string => hash('sha256', text)

/** Compares two hashes in constant time. */
export function sameHash(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one, 'utf8'), Buffer.from(other, 'utf8')]
  return a.length === b.length && timingSafeEqual(a, b)
}

const JOIN_PREFIX = 'berth_join_'
const ID_CHARS = 12
const HASH = '[A-Za-z0-9_-]{43}' // 32 bytes in base64url
const JOIN_TOKEN = new RegExp(`^${JOIN_PREFIX}([0-9A-Za-z]{${ID_CHARS}})\\.(${HASH})\\.(${HASH})$`)

/** 12 characters, each equally likely: bytes that would favour the first ones are discarded. */
function makeId(): string {
  let id = ''
  while (id.length < ID_CHARS)
    for (const byte of randomBytes(2 * ID_CHARS))
      if (byte < 248 && id.length < ID_CHARS) id += ALPHABET.charAt(byte % 62)
  return id
}

/** Creates a token with which one server joins: `berth_join_<id>.<secret>.<ca_hash>`. Store only id and hash. */
export function makeJoinToken(caHash: string): { id: string; token: string; secretHash: string } {
  const id = makeId()
  const secret = randomBytes(RANDOM_BYTES).toString('base64url')
  const token = `${JOIN_PREFIX}${id}.${secret}.${caHash}`
  if (!JOIN_TOKEN.test(token)) throw new Error('caHash must be a SHA-256 in base64url')
  return { id, token, secretHash: hashToken(secret) }
}

/** Parses a join token; undefined if it is malformed. Compare `secretHash` with `sameHash`. */
export function parseJoinToken(
  text: string,
): { id: string; secretHash: string; caHash: string } | undefined {
  const [, id, secret, caHash] = JOIN_TOKEN.exec(text) ?? []
  if (id === undefined || secret === undefined || caHash === undefined) return undefined
  return { id, secretHash: hashToken(secret), caHash }
}
