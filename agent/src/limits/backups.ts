// Limits of backups of environments' data. Every number has its reason; times are in milliseconds, sizes in bytes.
import { KiB, MiB } from '@berth/shared/units'

export const BACKUPS = {
  /** Services are paused meanwhile, so speed counts more than the last tenth of size. */
  compressionLevel: 1,
  /** Volumes and commands of one environment; a service file cannot name more. */
  parts: 200,
  /** What tar and commands say about a failure. */
  errorBytes: 16 * KiB,
  /** Files are hashed and copied in pieces of this size. */
  chunkBytes: MiB,
  /** A process may fork while it is being stopped, so the list is read again until nothing runs. */
  stopRounds: 50,
} as const
