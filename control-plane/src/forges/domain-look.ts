// Looks at the address of an environment from outside: where its name leads, and which certificate answers there. A
// connection is made only to addresses that the guard allows, and only a handshake: nothing is sent or read.
import { connect, type PeerCertificate } from 'node:tls'
import { LOOKS } from '@berth/shared'
import { DOMAIN_CHECKS } from '../limits/forges.ts'
import { type Guard, OutboundRefusal, type Resolve } from './addresses.ts'

const HTTPS = 443

interface SeenCertificate {
  issuer: string
  validTo: number
  /** Why browsers would refuse it; null if they accept it. */
  refusal: string | null
}

export type TlsLook =
  | { kind: 'certificate'; certificate: SeenCertificate }
  /** The address is not one that the control plane may connect to. */
  | { kind: 'not_allowed'; reason: string }
  | { kind: 'no_answer'; reason: string }

/** Every address of a name; empty if it has none or the answer took too long. */
export async function resolveName(resolve: Resolve, host: string): Promise<string[]> {
  const { promise: late, resolve: giveUp } = Promise.withResolvers<[]>()
  const timer = setTimeout(() => giveUp([]), LOOKS.resolveMs)
  const found = await Promise.race([resolve(host).catch(() => []), late])
  clearTimeout(timer)
  return [...new Set(found.map(({ address }) => address))].slice(0, LOOKS.addresses).toSorted()
}

export async function lookAtTls(
  guard: Guard,
  host: string,
  options: { signal: AbortSignal; port?: number },
): Promise<TlsLook> {
  try {
    const [first] = await guard.check(host)
    if (!first) return { kind: 'no_answer', reason: `${host} has no address.` }
    const certificate = await handshake(host, first.address, options)
    return { kind: 'certificate', certificate }
  } catch (error) {
    if (error instanceof OutboundRefusal && error.code === 'address_not_allowed') {
      return { kind: 'not_allowed', reason: error.message }
    }
    return { kind: 'no_answer', reason: error instanceof Error ? error.message : String(error) }
  }
}

function handshake(
  servername: string,
  address: string,
  { signal, port = HTTPS }: { signal: AbortSignal; port?: number },
): Promise<SeenCertificate> {
  const { promise, resolve, reject } = Promise.withResolvers<SeenCertificate>()
  // a certificate that is not trusted is reported, so the handshake itself must not refuse it
  const socket = connect({ host: address, port, servername, rejectUnauthorized: false })
  const stop = () => socket.destroy(new Error('Berth is shutting down.'))
  signal.addEventListener('abort', stop, { once: true })
  socket.setTimeout(DOMAIN_CHECKS.handshakeMs, () =>
    socket.destroy(new Error(`${servername} did not answer on port ${port}.`)),
  )
  socket.once('secureConnect', () => {
    resolve(describe(socket.getPeerCertificate(), socket.authorizationError))
    socket.destroy()
  })
  socket.once('error', reject)
  return promise.finally(() => signal.removeEventListener('abort', stop))
}

const describe = (certificate: PeerCertificate, refusal: Error | string | null) => ({
  issuer: text(certificate.issuer?.O) || text(certificate.issuer?.CN) || 'unknown',
  validTo: Date.parse(certificate.valid_to) || 0,
  refusal: refusal ? text(refusal instanceof Error ? refusal.message : refusal) : null,
})

/** Names in a certificate come from the other side. */
const text = (value: unknown): string =>
  (Array.isArray(value) ? value.join(', ') : String(value ?? ''))
    .replaceAll(/[^\x20-\x7e]+/g, ' ')
    .slice(0, 100)
