// Registries of images: which credentials belong to which, and what a refusal means. PURE.
import { registryHost, registryOf } from '@berth/shared'

export interface RegistryCredential {
  username: string
  password: string
}

/** By the registry's own name (`registryHost`). */
export type RegistryCredentials = ReadonlyMap<string, RegistryCredential>

/** What the engine sends to the registry of an image; undefined: there is nothing to send. */
export function authFor(registries: RegistryCredentials, reference: string) {
  const host = registryOf(reference)
  const found = registries.get(host)
  if (!found) return undefined
  return { ...found, serveraddress: host === 'docker.io' ? 'https://index.docker.io/v1/' : host }
}

/** The registry answered, and refused this caller. Some say «denied» also when an image does not exist. */
const isDenied = (message: string): boolean =>
  /\b40[13]\b|unauthorized|denied|authentication required|authorization failed|insufficient_scope|no basic auth credentials/i.test(
    message,
  )

export type RegistryTrouble = 'denied' | 'missing' | 'away' | 'other'

export function troubleOf(message: string): RegistryTrouble {
  if (isDenied(message)) return 'denied'
  if (
    /manifest unknown|name unknown|not found|NAME_UNKNOWN|MANIFEST_UNKNOWN|\b404\b/i.test(message)
  )
    return 'missing'
  return isAway(message) ? 'away' : 'other'
}

/** The registry cannot be reached, as opposed to refusing. */
export const isAway = (message: string): boolean =>
  /dial tcp|lookup |i\/o timeout|connection refused|no route to host|network is unreachable|TLS handshake timeout|Client\.Timeout|no such host|EOF/i.test(
    message,
  )

/** What a person can do about it, as sentences after the failure; empty when the reason says all. */
export function registryAdvice(
  message: string,
  { reference, hasCredentials, isFork }: RegistryCase,
): string {
  const host = registryOf(reference)
  const trouble = troubleOf(message)
  if (trouble === 'missing') return ` Check the name and the tag; its registry is ${host}.`
  if (trouble !== 'denied') return ''
  if (isFork) return ` ${host} wants credentials for it, and code of a fork gets none.`
  return hasCredentials
    ? ` ${host} refused the stored credentials. Check the name, or replace them: berth registry add ${host}`
    : ` ${host} wants credentials for it. Check the name, or add them: berth registry add ${host}`
}

export interface RegistryCase {
  reference: string
  hasCredentials: boolean
  /** Its environment gets no credentials. */
  isFork: boolean
}

export const caseOf = (
  registries: RegistryCredentials,
  reference: string,
  isFork: boolean,
): RegistryCase => ({
  reference,
  hasCredentials: registries.has(registryHost(registryOf(reference))),
  isFork,
})
