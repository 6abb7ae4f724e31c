// Detects two copies of one disk: two instances of an agent that each take the session again after the other took it.
// PURE. A restarting agent has a new instance each time, so it never counts.
import { SESSION } from '@berth/shared'

interface Takeover {
  instance: string
  at: number
}

/** `known` is what the former takeover stored. */
export function noteTakeover(
  known: string | null,
  instance: string,
  now: number,
): { stored: string; isDuplicate: boolean } {
  const former = known === null ? [] : (JSON.parse(known) as Takeover[])
  const recent = former.filter(({ at }) => now - at < SESSION.supersedeWindowMs)
  recent.push({ instance, at: now })
  const distinct = new Set(recent.map((one) => one.instance)).size
  const isDuplicate = distinct > 1 && recent.length - distinct >= SESSION.supersedesForDuplicate - 1
  const kept = recent.slice(-2 * SESSION.supersedesForDuplicate)
  return { stored: JSON.stringify(kept), isDuplicate }
}
