// Pins an environment when a user deploys a commit other than the head of the branch. Reconcile must not move it back;
// a push, or a deployment of the branch, ends the pin. So the known heads of the branch are stored: any other head was
// pushed since. PURE.

const KEPT = 20 // enough for a user who tries one commit after the other; the branch no longer has older heads

interface Pinnable {
  /** Null if nothing was ever deployed; then there is nothing to pin. */
  targetSha: string | null
  /** The newest commit that an event reported. */
  headSha: string | null
  /** Null if it follows its branch. */
  pinnedFrom: readonly string[] | null
}

/** The known heads of the branch when this commit is requested; null if it follows its branch. */
export function pinFor(e: Pinnable, asked: string): string[] | null {
  if (e.targetSha === null || asked === e.headSha) return null
  if (asked === e.targetSha) return e.pinnedFrom && [...e.pinnedFrom]
  const heads = [...(e.pinnedFrom ?? []), e.targetSha, e.headSha]
  const others = heads.filter((sha) => sha !== null && sha !== asked)
  return [...new Set(others as string[])].slice(-KEPT)
}

/** True if the branch still has a head that it had when a user chose another commit. */
export const isLeftBehind = (pinnedFrom: readonly string[] | null, sha: string | null): boolean =>
  sha !== null && (pinnedFrom?.includes(sha) ?? false)
