// What a look at the name of an environment means, and what to do about it. PURE.

export interface DomainLook {
  /** Where the name leads. */
  addresses: readonly string[]
  /** Where its server is. */
  wanted: readonly string[]
  tls:
    | {
        kind: 'certificate'
        certificate: { issuer: string; validTo: number; refusal: string | null }
      }
    | { kind: 'not_allowed'; reason: string }
    | { kind: 'no_answer'; reason: string }
    | undefined
}

export interface DomainState {
  dns: 'ok' | 'elsewhere' | 'missing' | 'unknown'
  tls: 'ok' | 'expiring' | 'refused' | 'none' | 'not_checked'
  /** What to do next; null if nothing is. */
  advice: string | null
  issuer: string | null
  validTo: number | null
}

const DAY_MS = 86_400_000
const EXPIRES_SOON_MS = 14 * DAY_MS

interface Asked {
  host: string
  server: string
  now: number
}

function judgeDns({ addresses, wanted }: DomainLook): DomainState['dns'] {
  if (addresses.length === 0) return 'missing'
  if (wanted.length === 0) return 'unknown'
  return addresses.some((one) => wanted.includes(one)) ? 'ok' : 'elsewhere'
}

function judgeTls({ tls }: DomainLook, now: number): DomainState['tls'] {
  if (!tls || tls.kind === 'not_allowed') return 'not_checked'
  if (tls.kind === 'no_answer') return 'none'
  if (tls.certificate.refusal !== null || tls.certificate.validTo <= now) return 'refused'
  return tls.certificate.validTo - now < EXPIRES_SOON_MS ? 'expiring' : 'ok'
}

export function judgeDomain(look: DomainLook, asked: Asked): DomainState {
  const dns = judgeDns(look)
  const tls = judgeTls(look, asked.now)
  const seen = look.tls?.kind === 'certificate' ? look.tls.certificate : undefined
  return {
    dns,
    tls,
    advice: advise(look, asked, dns, tls),
    issuer: seen?.issuer ?? null,
    validTo: seen?.validTo ?? null,
  }
}

function advise(
  look: DomainLook,
  { host, server }: Asked,
  dns: DomainState['dns'],
  tls: DomainState['tls'],
): string | null {
  const record = look.wanted.length === 0 ? server : look.wanted.join(' or ')
  if (dns === 'missing') return `Add a DNS record for ${host} that points to ${record}.`
  if (dns === 'elsewhere') {
    return `${host} leads to ${look.addresses.join(', ')}. Point it to ${record}, or ignore this if a proxy in front forwards to ${server}.`
  }
  if (tls === 'none') {
    return `No HTTPS answer at ${host}. Open the ports 80 and 443 of ${server}; the certificate is made with the first deployment.`
  }
  if (tls === 'refused') {
    return `Browsers do not accept the certificate at ${host}. Berth gets one by itself once ports 80 and 443 of ${server} are reachable.`
  }
  if (tls === 'expiring') {
    return `The certificate was not renewed yet. Check that port 80 or 443 of ${server} is reachable.`
  }
  return null
}
