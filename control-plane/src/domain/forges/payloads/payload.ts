// Reads values from a forge's payload: own properties only, every text bounded; an error names the path of a missing or
// mistyped value. PURE. A payload is untrusted, even with a valid signature.
import { checkCommit, checkRef, type Provider } from '@berth/shared'
import { WEBHOOKS } from '../../../limits/forges.ts'
import type { EventActor, NormalisedEvent, OtherEvent, PingEvent } from './event.ts'

export class MalformedPayload extends Error {
  readonly where: string
  constructor(where: string, problem: string) {
    super(`${where} ${problem}`)
    this.where = where
  }
}

/** The input of every parser: lower-case headers, the parsed body, and the forge. */
export interface Delivery {
  provider: Provider
  headers: Readonly<Record<string, string | undefined>>
  deliveryId: string
  body: unknown
}

export type Parser = (delivery: Delivery) => NormalisedEvent

/** The value at a path such as `pull_request.head.sha`; undefined when any part of the path is missing. */
export function at(value: unknown, path: string): unknown {
  let here = value
  for (const key of path.split('.')) {
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, key)) return undefined
    here = (here as Record<string, unknown>)[key]
  }
  return here
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: that is what it removes
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]+/g

/** A text for users: one line, bounded. */
const shown = (text: string, most: number): string =>
  text.replaceAll(CONTROL, ' ').trim().slice(0, most)

export function text(body: unknown, path: string, most: number = WEBHOOKS.nameCharacters): string {
  const value = at(body, path)
  if (typeof value !== 'string') throw new MalformedPayload(path, 'is missing or not a text')
  const line = shown(value, most)
  if (line === '') throw new MalformedPayload(path, 'is empty')
  return line
}

export function optionalText(
  body: unknown,
  path: string,
  most: number = WEBHOOKS.nameCharacters,
): string | null {
  const value = at(body, path)
  return typeof value === 'string' ? shown(value, most) || null : null
}

/** Like other texts, but a title may be empty. */
export const title = (body: unknown, path: string, fallback: string): string =>
  optionalText(body, path, WEBHOOKS.titleCharacters) ?? fallback

/** Only addresses that users can open; others are not stored. */
export function webUrl(body: unknown, path: string): string | null {
  const value = at(body, path)
  const isWeb = typeof value === 'string' && /^https?:\/\/[^\s\p{Cc}"'<>\\]+$/iu.test(value)
  return isWeb && value.length <= WEBHOOKS.urlCharacters ? value : null
}

/** Forges send ids as numbers or texts; here they are texts. */
export function identity(body: unknown, path: string): string {
  const found = optionalIdentity(body, path)
  if (found === null) throw new MalformedPayload(path, 'is not an id')
  return found
}

export function optionalIdentity(body: unknown, path: string): string | null {
  const value = at(body, path)
  if (typeof value === 'number' && Number.isSafeInteger(value)) return String(value)
  return typeof value === 'string' && /^[\x21-\x7e]{1,200}$/.test(value) ? value : null
}

export function number(body: unknown, path: string): number {
  const value = at(body, path)
  const isNumber = typeof value === 'number' && Number.isInteger(value)
  if (!isNumber || value < 1 || value > 0x7fff_ffff) {
    throw new MalformedPayload(path, 'is not a positive integer')
  }
  return value
}

export const flag = (body: unknown, path: string): boolean => at(body, path) === true

export function list(body: unknown, path: string): unknown[] {
  const value = at(body, path)
  if (!Array.isArray(value)) throw new MalformedPayload(path, 'is not a list')
  return value
}

/** A branch's short name; a name that git would refuse is malformed. */
export function branch(body: unknown, path: string): string {
  const value = at(body, path)
  if (typeof value !== 'string') throw new MalformedPayload(path, 'is missing or not a text')
  if (checkRef(`refs/heads/${value}`).ok) return value
  throw new MalformedPayload(path, 'is not the name of a branch')
}

export function commit(body: unknown, path: string): string {
  const value = at(body, path)
  if (typeof value === 'string' && checkCommit(value).ok) return value
  throw new MalformedPayload(path, 'is not a full commit hash')
}

/** Null for all zeros, which mean that this side of the change has no commit. */
export function commitOrNull(body: unknown, path: string): string | null {
  const value = at(body, path)
  if (value === null || value === undefined) return null
  if (typeof value === 'string' && /^(?:0{40}|0{64})$/.test(value)) return null
  return commit(body, path)
}

/** Null unless it is a full hash; any other value is ignored, so that the rest stays usable. */
export function optionalCommit(body: unknown, path: string): string | null {
  const value = at(body, path)
  const isCommit = typeof value === 'string' && checkCommit(value).ok
  return isCommit && !/^0+$/.test(value) ? value : null
}

/** `refs/heads/main` → main; undefined for other refs. Unchanged, because a cleaned name may be another branch's. */
export function pushedBranch(body: unknown, path: string): string | undefined {
  const ref = at(body, path)
  if (typeof ref !== 'string' || !checkRef(ref).ok) {
    throw new MalformedPayload(path, 'is not the name of a branch')
  }
  return ref.startsWith('refs/heads/') ? ref.slice('refs/heads/'.length) : undefined
}

const TIME = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d{1,9})?) ?(Z|UTC|[+-]\d\d:?\d\d)$/

/** Forges send ISO, "2026-11-15 09:12:29 UTC", or milliseconds. Null if it cannot be read. */
export function time(body: unknown, path: string): string | null {
  const value = at(body, path)
  if (typeof value === 'number') return isoTime(value)
  if (typeof value !== 'string') return null
  const parts = TIME.exec(value)
  if (!parts) return null
  const zone = parts[3] === 'UTC' ? 'Z' : parts[3]
  return isoTime(Date.parse(`${parts[1]}T${parts[2]}${zone}`))
}

function isoTime(ms: number): string | null {
  if (!Number.isFinite(ms) || ms <= 0 || ms > 32_503_680_000_000) return null
  return new Date(ms).toISOString().replace('.000Z', 'Z')
}

export function actor(body: unknown, idPath: string, namePath: string): EventActor | null {
  const name = optionalText(body, namePath)
  return name === null ? null : { name, external_id: optionalIdentity(body, idPath) }
}

export const message = (body: unknown, path: string): string | null => {
  const value = at(body, path)
  return typeof value === 'string' ? value.slice(0, WEBHOOKS.messageCharacters) : null
}

const base = ({ provider, deliveryId }: Delivery) => ({
  provider,
  delivery_id: deliveryId,
  happened_at: null,
  actor: null,
  repository: null,
})

export const otherEvent = (delivery: Delivery, name: string): OtherEvent => ({
  ...base(delivery),
  kind: 'other',
  name: shown(name, WEBHOOKS.nameCharacters) || 'unknown',
})

export const pingEvent = (delivery: Delivery): PingEvent => ({ ...base(delivery), kind: 'ping' })
