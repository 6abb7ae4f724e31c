// Units of the limits: times in milliseconds, sizes in bytes; and sizes as people read them.
export const SECOND = 1_000
export const MINUTE = 60 * SECOND
export const HOUR = 60 * MINUTE
export const DAY = 24 * HOUR
export const KiB = 1_024
export const MiB = 1_024 * KiB
export const GiB = 1_024 * MiB

/** A size for people. */
export function showBytes(bytes: number): string {
  if (bytes < MiB) return `${Math.ceil(bytes / KiB)} KiB`
  const [size, unit] = bytes < GiB ? [bytes / MiB, 'MiB'] : [bytes / GiB, 'GiB']
  return `${Number(size.toFixed(1))} ${unit}`
}
