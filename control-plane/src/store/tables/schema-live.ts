// The table of alerts: one row an episode.
import type { Generated } from 'kysely'

export interface AlertsTable {
  id: Generated<number>
  organizationId: number
  kind: 'server_offline' | 'disk_full' | 'certificate' | 'delivery'
  /** The server, or for deliveries the project. */
  subjectId: number
  begunAt: number
  /** Null: it lasts. */
  endedAt: number | null
}
