// What differs between two deployments: the images of their services, and how long their phases took. PURE.

export interface ServiceImage {
  name: string
  image: string
  digest: string
}

export interface ImageChange {
  service: string
  /** Null: the service is new. */
  before: string | null
  /** Null: the service is gone. */
  after: string | null
}

/** Null if the deployment reported none: it failed before, or runs without images. */
export const readImages = (stored: string | null): ServiceImage[] | null =>
  stored === null ? null : (JSON.parse(stored) as ServiceImage[])

const SHORT = 12

/** An image by name, and by digest if the name alone does not show the difference. */
function nameOf(of: ServiceImage, other: ServiceImage | undefined): string {
  const digest = of.digest.replace(/^.*sha256:/, '').slice(0, SHORT)
  if (digest === '' || (other && other.image !== of.image)) return of.image
  return `${of.image}@${digest}`
}

const isSame = (a: ServiceImage, b: ServiceImage): boolean =>
  a.digest !== '' && b.digest !== '' ? a.digest === b.digest : a.image === b.image

/** Null if one of the two is not known. */
export function imageChanges(
  before: readonly ServiceImage[] | null,
  after: readonly ServiceImage[] | null,
): ImageChange[] | null {
  if (!before || !after) return null
  const old = new Map(before.map((image) => [image.name, image]))
  const changed = after.flatMap((image): ImageChange[] => {
    const was = old.get(image.name)
    old.delete(image.name)
    if (was && isSame(was, image)) return []
    const from = was ? nameOf(was, image) : null
    return [{ service: image.name, before: from, after: nameOf(image, was) }]
  })
  const gone = [...old.values()].map((image) => {
    return { service: image.name, before: nameOf(image, undefined), after: null }
  })
  return [...changed, ...gone]
}

interface TimedStep {
  phase: string
  phaseTitle: string
  durationMs: number | null
}

export interface PhaseTimes {
  name: string
  title: string
  /** Null: none of its steps ended, or the deployment had no such phase. */
  beforeMs: number | null
  afterMs: number | null
}

function sumByPhase(steps: readonly TimedStep[]): Map<string, number> {
  const sums = new Map<string, number>()
  for (const { phase, durationMs } of steps) {
    if (durationMs !== null) sums.set(phase, (sums.get(phase) ?? 0) + durationMs)
  }
  return sums
}

/** In the order of the later deployment; phases that only the earlier one had come last. */
export function comparePhases(
  before: readonly TimedStep[],
  after: readonly TimedStep[],
): PhaseTimes[] {
  const [old, now] = [sumByPhase(before), sumByPhase(after)]
  const titles = new Map([...after, ...before].map((step) => [step.phase, step.phaseTitle]))
  return [...titles].map(([name, title]) => ({
    name,
    title,
    beforeMs: old.get(name) ?? null,
    afterMs: now.get(name) ?? null,
  }))
}
