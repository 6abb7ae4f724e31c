// Limits of copies of static files. Every number has its reason; times are in
// milliseconds, sizes in bytes.
import { GiB, KiB, MINUTE } from '@berth/shared/units'

/** Copies of static roots. */
export const STATIC = {
  bytes: 2 * GiB,
  files: 100_000,
  /** Real sites are less deep; each level holds a descriptor open. */
  depth: 64,
  /** The longest path that the system allows. */
  pathLength: 4_096,
  /** A whole copy of that size on a slow disk. */
  copyMs: 10 * MINUTE,
  /** Size of one read and write. */
  chunkBytes: 256 * KiB,
} as const
