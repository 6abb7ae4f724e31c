// Decides whether an environment may serve a hostname that its .service.yml requests. A name has one owner in the whole
// installation. A conflict never names another organization. PURE.
import { RESERVED_IDENTIFIER } from './environment.ts'

export interface HostFacts {
  host: string
  /** Why it is not a valid hostname; null if it is valid. */
  fault: string | null
  /** The control plane's own name, or below it. */
  isOwn: boolean
  /** A server with exactly this name. */
  server: { name: string; organizationId: number } | undefined
  /** The environment that has it as its domain or by a claim. */
  holder:
    | { environmentId: number; organizationId: number; identifier: string; project: string }
    | undefined
  /** The project with the closest base domain at or above it. */
  base: { id: number; organizationId: number; name: string; domain: string } | undefined
  /** The installation requires a list of names outside the project's domain, and this one is not listed. */
  isUnlisted: boolean
}

export interface HostAsker {
  environmentId: number
  projectId: number
  organizationId: number
  project: string
}

export interface HostDecision {
  verdict: 'granted' | 'taken' | 'not_allowed'
  /** For users; empty when it is granted. */
  message: string
}

const GRANTED: HostDecision = { verdict: 'granted', message: '' }
const taken = (message: string): HostDecision => ({ verdict: 'taken', message })
const notAllowed = (message: string): HostDecision => ({ verdict: 'not_allowed', message })

export function decideHost(asker: HostAsker, f: HostFacts): HostDecision {
  const { host, server, holder, base } = f
  const elsewhere = taken(`${host} is used elsewhere on this installation.`)
  const isOurs = (other: { organizationId: number }): boolean =>
    other.organizationId === asker.organizationId
  if (f.fault !== null) return notAllowed(`${host} ${f.fault}.`)
  if (holder?.environmentId === asker.environmentId) return GRANTED
  if (f.isOwn) return taken(`${host} is the address of Berth itself.`)
  if (server) return isOurs(server) ? taken(`${host} is the server ${server.name}.`) : elsewhere
  if (holder) {
    if (!isOurs(holder)) return elsewhere
    return taken(`${host} is used by ${holder.project} / ${holder.identifier}.`)
  }
  if (base && base.id !== asker.projectId) {
    if (!isOurs(base)) return elsewhere
    return taken(`${host} belongs to ${base.name}, whose domain is ${base.domain}.`)
  }
  const label = base ? host.slice(0, -base.domain.length - 1) : ''
  if (RESERVED_IDENTIFIER.test(label)) {
    return taken(`${host} is kept for pull request ${label.slice(3)} of ${asker.project}.`)
  }
  if (f.isUnlisted) {
    return notAllowed(
      `${host} is not on the list of custom domains of ${asker.project}. An administrator can add it in the project's settings.`,
    )
  }
  return GRANTED
}
