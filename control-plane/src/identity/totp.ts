// Codes of authenticator apps (RFC 6238: SHA-1, six digits, 30 seconds, which every app supports), and recovery codes.
import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { PEOPLE } from '@berth/shared'

const STEP_MS = 30_000
const DIGITS = 6
const SECRET_BYTES = 20
const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

export const makeTotpSecret = (): Buffer => randomBytes(SECRET_BYTES)

/** The form that people can type into an app. */
export function toBase32(bytes: Uint8Array): string {
  let text = ''
  let bits = 0
  let rest = 0
  for (const byte of bytes) {
    rest = (rest << 8) | byte
    bits += 8
    while (bits >= 5) {
      bits -= 5
      text += BASE32.charAt((rest >>> bits) & 31)
      rest &= (1 << bits) - 1
    }
  }
  return bits > 0 ? text + BASE32.charAt((rest << (5 - bits)) & 31) : text
}

/** What the QR code contains. */
export function totpUri(secret: Uint8Array, account: { issuer: string; email: string }): string {
  const label = `${encodeURIComponent(account.issuer)}:${encodeURIComponent(account.email)}`
  return `otpauth://totp/${label}?secret=${toBase32(secret)}&issuer=${encodeURIComponent(account.issuer)}`
}

export function totpCode(secret: Uint8Array, step: number): string {
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(step))
  const digest = createHmac('sha1', secret).update(counter).digest()
  const offset = (digest.at(-1) ?? 0) & 15
  const number = digest.readUInt32BE(offset) & 0x7fffffff
  return String(number % 10 ** DIGITS).padStart(DIGITS, '0')
}

export const totpStep = (now: number): number => Math.floor(now / STEP_MS)

/** Returns the time step of a code; a clock may be 30 s off. Undefined if the code is wrong. */
export function matchTotp(secret: Uint8Array, code: string, now: number): number | undefined {
  const given = Buffer.from(code)
  const present = totpStep(now)
  let found: number | undefined
  for (const step of [present - 1, present, present + 1]) {
    const right = Buffer.from(totpCode(secret, step))
    if (right.length === given.length && timingSafeEqual(right, given)) found = step
  }
  return found
}

/** 80 random bits each, so that their SHA-256 can be stored: `abcd-efgh-jkmn-pqrs`. */
export const makeRecoveryCodes = (): string[] =>
  Array.from({ length: PEOPLE.recoveryCodes }, () =>
    (toBase32(randomBytes(10)).toLowerCase().match(/.{4}/g) ?? []).join('-'),
  )

/** Blanks, dashes and the case of letters do not matter. */
export const hashRecoveryCode = (typed: string): string =>
  hash('sha256', typed.toLowerCase().replaceAll(/[^a-z2-7]/g, ''))
