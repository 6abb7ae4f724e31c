// Decides which backups retention ends, and whether a backup can be restored into an environment. PURE.

interface KnownBackup {
  id: number
  uuid: string
  isComplete: boolean
  /** Its task has not ended. */
  isOpen: boolean
  createdAt: number
}

interface Retention {
  keepCount: number
  /** Null: any age. */
  keepMs: number | null
}

/**
 * Backups that go once the next one is complete, which counts as one of `keepCount`; so the last good one never goes.
 * What failed backups may have left goes too.
 */
export function expiredBackups<T extends KnownBackup>(
  backups: readonly T[],
  { keepCount, keepMs }: Retention,
  now: number,
): T[] {
  const newestFirst = backups.toSorted((a, b) => b.id - a.id).filter(({ isOpen }) => !isOpen)
  const complete = newestFirst.filter(({ isComplete }) => isComplete)
  const kept = new Set(
    complete
      .slice(0, keepCount - 1)
      .filter(({ createdAt }) => keepMs === null || now - createdAt < keepMs)
      .map(({ id }) => id),
  )
  return newestFirst.filter(({ id }) => !kept.has(id))
}

interface RestoreFacts {
  isComplete: boolean
  place: 'server' | 'bucket'
  source: { environmentId: number; projectId: number; identifier: string; serverId: number }
  target: {
    environmentId: number
    projectId: number
    identifier: string
    serverId: number
    fromFork: boolean
  }
  /** Where the backup is, and where the organization's storage is now; null: it has none. */
  location: string
  storage: string | null
}

/** Why it cannot be restored there, as a sentence; null if it can. */
export function restoreObstacle(facts: RestoreFacts): string | null {
  const { source, target, place, location, storage } = facts
  if (!facts.isComplete) return 'This backup is not complete, so it cannot be restored.'
  if (source.projectId !== target.projectId) {
    return `${target.identifier} is an environment of another project.`
  }
  const isOther = source.environmentId !== target.environmentId
  if (isOther && target.fromFork) {
    return `${target.identifier} runs code of a fork, so it gets no data of ${source.identifier}.`
  }
  if (place === 'server' && source.serverId !== target.serverId) {
    return `This backup is on the disk of another server than ${target.identifier}. Backups in a bucket can be restored on every server.`
  }
  if (place === 'bucket' && storage !== location) {
    const now = storage === null ? 'has no storage for backups now' : `now uses ${storage}`
    return `This backup is at ${location}, and the organization ${now}.`
  }
  return null
}
