// The keys of an organization, wrapped by the installation's key; host names that environments serve.
import type { Generated } from 'kysely'

export interface OrganizationKeysTable {
  id: Generated<number>
  /** Null: the installation's own. */
  organizationId: number | null
  purpose: 'data' | 'fingerprint'
  /** Sealed to this very row; opened in memory alone. */
  wrapped: string
  createdAt: number
  /** Still opens what it sealed; seals nothing new. */
  retiredAt: number | null
}

/** A host name beside the environment's own domain. */
export interface HostsTable {
  host: string
  environmentId: number
  /** Of the attempt that claimed it, or the newest one when the name was the environment's domain. */
  fence: number
  claimedAt: number
}
