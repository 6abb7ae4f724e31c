// Files that actions left on their servers, as the agents told.
import type { Generated } from 'kysely'

export interface ArtifactsTable {
  id: Generated<number>
  /** Its name in the agent's store, and in the SSH verb. */
  fileId: string
  taskId: number
  /** Where the bytes are. */
  serverId: number
  path: string
  sizeBytes: number
  sha256: string
  collectedAt: number
  expiresAt: number
}
