// How much of a log may be in flight: what the control plane asks for, within this build's own limits. PURE.
import { LOGS } from '@berth/shared'
import type { Welcome } from '@berth/shared/wire'

export function readPolicy(welcome: Welcome | undefined) {
  const asked = welcome?.logPolicy
  const pick = (n: bigint | number | undefined, most: number): number => {
    const value = Number(n ?? 0)
    return value > 0 ? Math.min(value, most) : most
  }
  // a chunk smaller than one record could never be sent
  const least = LOGS.recordBytes + 1_024
  const chunkBytes = Math.max(pick(asked?.maxChunkBytes, LOGS.chunkBytes), least)
  const unackedBytes = Math.max(pick(asked?.maxUnackedBytes, LOGS.unackedBytes), chunkBytes)
  const perAttempt = pick(asked?.maxUnackedBytesPerAttempt, LOGS.unackedBytesPerAttempt)
  return { chunkBytes, unackedBytes, unackedBytesPerAttempt: Math.max(perAttempt, chunkBytes) }
}
