// May an environment serve a host name that its .service.yml asks for? One owner a name on the whole installation. What
// belongs to another organization is told without naming it. PURE.
import { RESERVED_IDENTIFIER } from './environment.ts'

export interface HostFacts {
  host: string
  /** What is wrong with it as a host name; null: nothing. */
  fault: string | null
  /** The control plane's own name, or below it. */
  isOwn: boolean
  /** A server with this very name. */
  server: { name: string; organizationId: number } | undefined
  /** Who holds it: as its domain, or by a claim. */
  holder:
    | { environmentId: number; organizationId: number; identifier: string; project: string }
    | undefined
  /** The project with the closest base domain at or above it. */
  base: { id: number; organizationId: number; name: string; domain: string } | undefined
  /** The installation wants names outside the project's domain listed, and this one is not. */
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
  /** For a person; empty when it is granted. */
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
