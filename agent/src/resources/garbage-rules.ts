// Decides from ledger rows which objects of an environment may be removed from the engine. PURE. Called only while no
// deployment works in the environment (except its own one, at its end), so unfinished objects have no owner.
import { type DockerPlan, isDockerPlan, type LastPlan } from '../runner/plan/plan.ts'

export interface Owned {
  kind: 'container' | 'image' | 'pulled' | 'network' | 'volume'
  name: string
  taskId: number
  attemptId: string
  service: string
  state: 'making' | 'serving' | 'paused' | 'retired' | 'kept'
  facts: Readonly<Record<string, unknown>>
}

export interface CollectionFacts<T extends Owned> {
  rows: readonly T[]
  /** Null: no version of it runs. */
  plan: LastPlan | null
  /** Engine names of the volumes that the running version names. */
  namedVolumes: ReadonlySet<string>
  /** The deployment that asks, at its end; its own unfinished objects stay. */
  ownAttempt: string | undefined
  /** Replaced, but the daemon still waits for its requests. */
  isDraining?: ((row: T) => boolean) | undefined
  now: number
}

interface CollectionBounds {
  images: number
  unnamedVolumeMs: number
}

interface Collection<T extends Owned> {
  /** In this order: users of an object before the object. */
  remove: T[]
  /** Volumes that the running version no longer names, first noticed now. */
  flag: T[]
  /** Flagged volumes that it names again. */
  unflag: T[]
  /** Objects of a deployment that succeeded, so they are no longer being made. */
  mark: { row: T; state: 'serving' | 'kept' }[]
}

/** When a volume was noticed to be no longer named; undefined: it is named. */
const unnamedSince = ({ facts }: Pick<Owned, 'facts'>): number | undefined =>
  typeof facts.unnamedSince === 'number' ? facts.unnamedSince : undefined

const imageOf = ({ facts }: Owned): string | undefined =>
  typeof facts.imageId === 'string' ? facts.imageId : undefined

/** Without a plan (a lost ledger), what serves continues to serve. A first start waits for the next deployment. */
function isRunning(row: Owned, plan: LastPlan | null): boolean {
  if (!isDockerPlan(plan)) return row.state === 'serving' || row.state === 'paused'
  if (row.facts.isFirstStart === true && row.taskId > plan.taskId) return true
  return plan.services.some(({ container }) => container === row.name)
}

const isCurrentImage = (row: Owned, plan: DockerPlan): boolean =>
  plan.services.some(
    ({ service, image, imageId }) =>
      service === row.service && (row.name === image || imageOf(row) === imageId),
  )

/** Images of the running version and earlier ones; one image under two names counts once. */
function keptImages<T extends Owned>(rows: T[], plan: LastPlan | null, most: number): Set<T> {
  if (!isDockerPlan(plan)) return new Set(rows.filter(({ state }) => state !== 'making'))
  const kept = new Set<T>()
  for (const service of new Set(rows.map((row) => row.service))) {
    const newestFirst = rows
      .filter((row) => row.service === service)
      .toSorted((a, b) => b.taskId - a.taskId)
    const current = newestFirst.filter((row) => isCurrentImage(row, plan))
    const before = newestFirst.filter(
      (row) => !current.includes(row) && row.taskId < plan.taskId && row.state !== 'making',
    )
    const images = new Set<string>()
    for (const row of [...current, ...before]) {
      const image = imageOf(row) ?? row.name
      if (images.size >= most && !images.has(image)) continue
      images.add(image)
      kept.add(row)
    }
  }
  return kept
}

const isPulledUsed = (row: Owned, plan: LastPlan | null): boolean =>
  isDockerPlan(plan) &&
  plan.services.some(
    ({ image, imageId, digest }) =>
      row.name === image || row.name === digest || imageOf(row) === imageId,
  )

const ORDER = ['container', 'image', 'pulled', 'network', 'volume'] as const

export function decideCollection<T extends Owned>(
  facts: CollectionFacts<T>,
  bounds: CollectionBounds,
): Collection<T> {
  const { plan, now, namedVolumes } = facts
  const isOwn = (row: T): boolean =>
    row.state === 'making' && facts.ownAttempt !== undefined && row.attemptId === facts.ownAttempt
  const rows = facts.rows.filter((row) => !isOwn(row))
  const images = keptImages(
    rows.filter(({ kind }) => kind === 'image'),
    plan,
    bounds.images,
  )
  const isUnnamed = (row: T): boolean => isDockerPlan(plan) && !namedVolumes.has(row.name)
  const mayGo = (row: T): boolean => {
    const since = unnamedSince(row)
    switch (row.kind) {
      case 'container':
        return !isRunning(row, plan) && !facts.isDraining?.(row)
      case 'image':
        return !images.has(row)
      case 'pulled':
        return !isPulledUsed(row, plan) && (isDockerPlan(plan) || row.state === 'making')
      case 'network':
        return row.state === 'making' && plan === null
      case 'volume':
        return isUnnamed(row) && since !== undefined && now - since >= bounds.unnamedVolumeMs
    }
  }
  const marked = (row: T): 'serving' | 'kept' | undefined => {
    if (!isDockerPlan(plan) || mayGo(row) || row.kind === 'container') return undefined
    const isNow =
      row.kind === 'image'
        ? isCurrentImage(row, plan)
        : row.kind === 'volume'
          ? !isUnnamed(row)
          : true
    return isNow ? 'serving' : 'kept'
  }
  const volumes = rows.filter(({ kind }) => kind === 'volume')
  return {
    remove: ORDER.flatMap((kind) => rows.filter((row) => row.kind === kind && mayGo(row))),
    flag: volumes.filter((row) => isUnnamed(row) && unnamedSince(row) === undefined),
    unflag: volumes.filter((row) => namedVolumes.has(row.name) && unnamedSince(row) !== undefined),
    mark: rows.flatMap((row) => {
      const state = marked(row)
      return state === undefined || state === row.state ? [] : [{ row, state }]
    }),
  }
}
