// Which backups stay.

const DAY_MS = 86_400_000

/**
 * Lists the backups to remove: all beyond the newest `keep`, and all older than `keepDays`. Zero is no limit. The
 * newest always stays, so a stopped schedule never leads to nothing.
 */
export function listExpired<T extends { takenAt: number }>(
  backups: readonly T[],
  { keep, keepDays }: { keep: number; keepDays: number },
  now: number,
): T[] {
  const newestFirst = backups.toSorted((a, b) => b.takenAt - a.takenAt)
  return newestFirst.filter((backup, i) => {
    if (i === 0) return false
    const isBeyond = keep > 0 && i >= keep
    const isOld = keepDays > 0 && now - backup.takenAt > keepDays * DAY_MS
    return isBeyond || isOld
  })
}
