// Answers questions about the engine as a whole: is it ours alone, what does it hold, how large is its build cache.
// Records of the cache have no owner, so the cache is pruned only on engines that no other program uses.
import { ENGINE } from '../../limits/docker.ts'
import type { Engine } from './engine.ts'
import { LABELS, type OwnerSettings } from './names.ts'

type Labelled = { Labels: Record<string, string> | null }

/** Networks that every engine has. */
const BUILT_IN = new Set(['bridge', 'host', 'none'])

export const readEngineId = async (engine: Engine): Promise<string> =>
  (await (await engine.docker()).info()).ID ?? ''

/** Whether a container, image, volume or network lacks our label. */
export async function holdsForeign(engine: Engine, settings: OwnerSettings): Promise<boolean> {
  const docker = await engine.docker()
  const [containers, images, volumes, networks] = await Promise.all([
    docker.listContainers({ all: true }),
    docker.listImages({ all: true }),
    docker.listVolumes(),
    docker.listNetworks(),
  ])
  const all: { Labels?: Record<string, string> | null | undefined }[] = [
    ...containers,
    ...images,
    ...(volumes.Volumes ?? []),
    ...networks.filter(({ Name }) => !BUILT_IN.has(Name)),
  ]
  return all.some(({ Labels }) => Labels?.[LABELS.agent] !== settings.owner)
}

export interface EngineUsage {
  /** Bytes of objects with our label, by environment. */
  environments: Map<number, number>
  cacheBytes: number
}

interface RawUsage {
  Images: (Labelled & { Size: number; SharedSize: number })[] | null
  Containers: (Labelled & { SizeRw?: number })[] | null
  Volumes: (Labelled & { UsageData?: { Size: number } | null })[] | null
  BuildCache: { Size: number; Shared: boolean }[] | null
}

/** Walks every volume and layer, which takes minutes on a large engine; runs in the background. */
export async function measureEngine(engine: Engine, settings: OwnerSettings): Promise<EngineUsage> {
  const raw: RawUsage = await (await engine.docker({ timeoutMs: ENGINE.measureMs })).df()
  const environments = new Map<number, number>()
  const add = ({ Labels }: Labelled, bytes: number): void => {
    const id = Number(Labels?.[LABELS.environment])
    if (Labels?.[LABELS.agent] !== settings.owner || !Number.isSafeInteger(id)) return
    environments.set(id, (environments.get(id) ?? 0) + Math.max(0, bytes))
  }
  for (const image of raw.Images ?? []) add(image, image.Size - Math.max(0, image.SharedSize))
  for (const container of raw.Containers ?? []) add(container, container.SizeRw ?? 0)
  for (const volume of raw.Volumes ?? []) add(volume, volume.UsageData?.Size ?? 0)
  const cacheBytes = (raw.BuildCache ?? []).reduce((sum, { Size }) => sum + Size, 0)
  return { environments, cacheBytes }
}

/** Removes records unused for `olderMs`, and the oldest ones above `keepBytes`. Returns the freed bytes. */
export async function pruneBuildCache(
  engine: Engine,
  bounds: { olderMs: number; keepBytes: number },
): Promise<number> {
  const prune = async (query: Record<string, string | number>): Promise<number> => {
    const options = { all: true, ...query }
    const { SpaceReclaimed = 0 } = await engine.dial<{ SpaceReclaimed?: number }>(
      { method: 'POST', path: '/build/prune?', options }, // `pruneBuilder` does not pass them on
      { timeoutMs: ENGINE.measureMs },
    )
    return SpaceReclaimed
  }
  const until = `${Math.round(bounds.olderMs / 3_600_000)}h`
  const old = await prune({ filters: JSON.stringify({ until: [until] }) })
  return old + (await prune({ 'keep-storage': bounds.keepBytes }))
}
