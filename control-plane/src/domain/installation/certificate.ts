// When the HTTPS certificate is renewed, how long to wait after a failure, and what people can do about one. PURE.
import { HTTPS } from '../../limits/installation.ts'

export interface Lifetime {
  /** Milliseconds since 1970. */
  from: number
  until: number
}

/** What happened at the last tries; a file beside the certificate holds it. */
export interface RenewalStatus {
  /** Failures since the last success. */
  failures: number
  triedAt: number | undefined
  /** No try before this moment, also after a restart. */
  nextTryAt: number
  problem: RenewalProblem | undefined
}

export interface RenewalProblem {
  at: number
  message: string
  fix: string
}

export const UNTRIED: RenewalStatus = {
  failures: 0,
  triedAt: undefined,
  nextTryAt: 0,
  problem: undefined,
}

export const renewalTime = ({ from, until }: Lifetime): number =>
  until - (until - from) * HTTPS.renewPart

/** `lifetime` is that of the stored certificate for this name. */
export function isDue(lifetime: Lifetime | undefined, status: RenewalStatus, now: number): boolean {
  if (now < status.nextTryAt) return false
  return lifetime === undefined || now >= renewalTime(lifetime)
}

/** Written before a try: a process that dies in the middle of it waits like after a failure. */
export function begin(status: RenewalStatus, now: number): RenewalStatus {
  return fail(status, now, {
    at: now,
    message: 'the control plane ended before the authority answered',
    fix: 'Look into its log. It tries again by itself.',
  })
}

export function fail(
  status: RenewalStatus,
  now: number,
  problem: RenewalProblem,
  leastMs = 0,
): RenewalStatus {
  const failures = status.failures + 1
  const waits = HTTPS.retryMs
  const wait = waits[Math.min(failures, waits.length) - 1] ?? 0
  return { failures, triedAt: now, nextTryAt: now + Math.max(wait, leastMs), problem }
}

/** What the authority, or the way to it, answered. */
export interface Refusal {
  /** The end of `urn:ietf:params:acme:error:…`; `unreachable` if nothing answered; otherwise undefined. */
  type: string | undefined
  detail: string
  /** As it asked for. */
  waitMs?: number
}

export interface Asked {
  domain: string
  directory: string
  httpPort: number
}

/** Turns a refusal into what people read. */
export function explain({ type, detail }: Refusal, asked: Asked): Omit<RenewalProblem, 'at'> {
  const message = `${new URL(asked.directory).host} answered: ${detail}`
  const fix = adviceFor(type, asked)
  if (type === 'unreachable') {
    return { message: `${new URL(asked.directory).host} could not be reached (${detail})`, fix }
  }
  return { message, fix }
}

function adviceFor(type: string | undefined, { domain, httpPort }: Asked): string {
  const record = `Create an A or AAAA record for ${domain} that leads to this machine`
  switch (type) {
    case 'dns':
      return `${record}, and wait until others see it.`
    case 'connection':
    case 'tls':
      return `Open port ${httpPort} of this machine to everyone, and check that ${domain} leads here; authorities connect from many places.`
    case 'unauthorized':
    case 'incorrectResponse':
      return `Something else answers at port ${httpPort} of ${domain}. ${record}, and remove records that lead elsewhere.`
    case 'caa':
      return `The CAA record of ${domain} forbids this authority. Add the authority to it, or set BERTH_ACME_DIRECTORY to another one.`
    case 'rateLimited':
      return 'The authority limits orders. Wait; Berth tries again by itself. For tries, set BERTH_ACME_DIRECTORY to the staging address of the authority.'
    case 'rejectedIdentifier':
      return `The authority issues nothing for ${domain}. Set BERTH_DOMAIN to a public name of yours.`
    case 'externalAccountRequired':
      return 'The authority wants an account that was made elsewhere. Set BERTH_ACME_DIRECTORY to one that does not, or use a proxy.'
    case 'invalidContact':
    case 'unsupportedContact':
      return 'Correct BERTH_ACME_EMAIL, or remove it.'
    case 'unreachable':
      return 'Let this machine connect to the authority (HTTPS), or correct BERTH_ACME_DIRECTORY. An authority of your own must be trusted by this machine: update-ca-certificates.'
    default:
      return 'Berth tries again by itself. If it does not help, ask the authority about this answer.'
  }
}
