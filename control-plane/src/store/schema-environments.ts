// The keys of an organization, wrapped by the installation's key.
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
