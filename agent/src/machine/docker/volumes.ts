// Named volumes of environments. They hold user data, so a caller must name the volume to remove.
import { lstatSync } from 'node:fs'
import type { Engine } from './engine.ts'
import { EngineError, orMissing } from './engine-error.ts'
import { LABELS, type OwnerSettings, ownedFilter } from './names.ts'

/** Makes it, or keeps the existing one. Never uses a volume of another agent on this engine. */
export async function ensureVolume(
  engine: Engine,
  { name, labels }: { name: string; labels: Record<string, string> },
): Promise<void> {
  const docker = await engine.docker()
  await docker.createVolume({ Name: name, Driver: 'local', Labels: labels })
  const { Labels } = await docker.getVolume(encodeURIComponent(name)).inspect()
  if (Labels?.[LABELS.agent] === labels[LABELS.agent]) return
  throw new EngineError('conflict', `volume ${name} exists and does not belong to this agent`)
}

/** Where the engine keeps its content; undefined when there is no such volume of ours, or it is not a plain folder. */
export async function findVolumeFolder(
  engine: Engine,
  settings: OwnerSettings,
  name: string,
): Promise<string | undefined> {
  const docker = await engine.docker()
  const found = await orMissing(docker.getVolume(encodeURIComponent(name)).inspect())
  if (!found || found.Labels?.[LABELS.agent] !== settings.owner) return undefined
  const isPlain = found.Driver === 'local' && Object.keys(found.Options ?? {}).length === 0
  const isFolder = lstatSync(found.Mountpoint, { throwIfNoEntry: false })?.isDirectory()
  return isPlain && isFolder ? found.Mountpoint : undefined
}

/** Idempotent; 'in_use' when a container still uses it. */
export async function removeVolume(engine: Engine, name: string): Promise<'removed' | 'in_use'> {
  try {
    await (await engine.docker()).getVolume(encodeURIComponent(name)).remove()
    return 'removed'
  } catch (error) {
    if (error instanceof EngineError && error.kind === 'not_found') return 'removed'
    if (error instanceof EngineError && error.kind === 'conflict') return 'in_use'
    throw error
  }
}

export interface OwnedVolume {
  name: string
  labels: Record<string, string>
}

export async function listOwnedVolumes(
  engine: Engine,
  settings: OwnerSettings,
  environmentId?: number,
): Promise<OwnedVolume[]> {
  const docker = await engine.docker()
  const { Volumes } = await docker.listVolumes({ filters: ownedFilter(settings, environmentId) })
  return (Volumes ?? []).map(({ Name, Labels }) => ({ name: Name, labels: Labels ?? {} }))
}
