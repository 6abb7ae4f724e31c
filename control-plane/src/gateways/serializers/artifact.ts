// Serializes a file of an action to the documented fields.
import type { Artifact as Shown } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Artifact } from '../../store/files/artifacts.ts'
import { time } from './fields.ts'

export const serializeArtifact = (ctx: Context, artifact: Artifact): Shown => ({
  id: artifact.id,
  file_id: artifact.fileId,
  task_id: artifact.taskId,
  path: artifact.path,
  name: artifact.path.split('/').at(-1) ?? artifact.path,
  size_bytes: artifact.sizeBytes,
  sha256: artifact.sha256,
  collected_at: time(artifact.collectedAt),
  expires_at: time(artifact.expiresAt),
  url: `${ctx.baseUrl}/api/artifacts/${artifact.id}/content`,
})
