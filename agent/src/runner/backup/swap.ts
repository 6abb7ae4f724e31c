// Two folders change places by renames in folders that only root can write. After a crash between two renames, the
// inode of the restored folder tells how far it came; `putBack` always ends with the former data in place.
import { existsSync, lstatSync, renameSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Swap } from '../../journal/data-work.ts'
import { syncFolder } from '../../machine/atomic-files.ts'

const aside = ({ other }: Swap): string => `${other}.former`

export const inodeOf = (folder: string): string =>
  String(lstatSync(folder, { bigint: true, throwIfNoEntry: false })?.ino ?? '')

const isLive = ({ live, restored }: Swap): boolean => inodeOf(live) === restored

function sync({ live, other }: Swap): void {
  syncFolder(dirname(live))
  syncFolder(dirname(other))
}

function exchange(swap: Swap): void {
  const { live, other } = swap
  renameSync(live, aside(swap))
  renameSync(other, live)
  renameSync(aside(swap), other)
  sync(swap)
}

/** The restored data becomes the live one; `other` then holds the former data. */
export function swapIn(swap: Swap): void {
  if (!isLive(swap)) exchange(swap)
}

/** Whether anything must be put back, so that services must be stopped before. */
export const isSwapped = (swap: Swap): boolean =>
  isLive(swap) || !existsSync(swap.live) || existsSync(aside(swap))

/** Idempotent, from every state that a dead process can leave. */
export function putBack(swap: Swap): void {
  const { live, other } = swap
  if (existsSync(aside(swap))) {
    const isReturning = inodeOf(aside(swap)) === swap.restored // it died in an earlier `putBack`
    if (isReturning && !existsSync(live)) renameSync(other, live)
    if (!isReturning && existsSync(live)) renameSync(live, other)
    renameSync(aside(swap), isReturning ? other : live)
    sync(swap)
  } else if (isLive(swap) && existsSync(other)) exchange(swap)
}
