// Placeholder of the artifact store, replaced by its own slice.
import type { Readable } from 'node:stream'
import type { AgentSettings } from '../settings.ts'

export type OpenedArtifact =
  | { kind: 'ok'; path: string; size: number; sha256: string; modifiedAt: Date; stream: Readable }
  | { kind: 'gone' | 'expired' | 'changed'; message: string }

export const openArtifact = (
  _settings: AgentSettings,
  _o: { environmentId: number; artifactId: string; offset: number },
): OpenedArtifact | Promise<OpenedArtifact> => ({ kind: 'gone', message: 'That file is not here.' })
