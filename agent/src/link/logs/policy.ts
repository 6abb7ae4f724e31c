// How much of a log may be under way at once: what the control plane asks for, inside this build's own bounds. PURE.
import { LOGS } from '@berth/shared'
import type { Welcome } from '@berth/shared/wire'

/** What the control plane asks for, never above our own bounds. */
export function readPolicy(welcome: Welcome | undefined) {
  const asked = welcome?.logPolicy
  const pick = (n: bigint | number | undefined, most: number): number => {
    const value = Number(n ?? 0)
    return value > 0 ? Math.min(value, most) : most
  }
  // below one record a chunk could never be sent
  const least = LOGS.recordBytes + 1_024
  const chunkBytes = Math.max(pick(asked?.maxChunkBytes, LOGS.chunkBytes), least)
  const unackedBytes = Math.max(pick(asked?.maxUnackedBytes, LOGS.unackedBytes), chunkBytes)
  const perAttempt = pick(asked?.maxUnackedBytesPerAttempt, LOGS.unackedBytesPerAttempt)
  return { chunkBytes, unackedBytes, unackedBytesPerAttempt: Math.max(perAttempt, chunkBytes) }
}
