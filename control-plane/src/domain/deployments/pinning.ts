// A person deploys a commit that is not the head of the branch, most often an earlier one: the environment stays there. A
// look at the repository must not move it back; a push, or a deployment of the branch, ends it. So what the branch stood
// at is remembered: whatever else it is found at was pushed since. PURE.

const KEPT = 20 // somebody who tries one commit after the other; older ones are long gone from the branch's head

export interface Pinnable {
  /** Null: nothing was ever deployed, so nothing is left behind. */
  targetSha: string | null
  /** The newest commit an event told of. */
  headSha: string | null
  /** Null: it follows its branch. */
  pinnedFrom: readonly string[] | null
}

/** What the branch is known to have stood at, when this very commit is asked for; null: it follows its branch. */
export function pinFor(e: Pinnable, asked: string): string[] | null {
  if (e.targetSha === null || asked === e.headSha) return null
  if (asked === e.targetSha) return e.pinnedFrom && [...e.pinnedFrom]
  const heads = [...(e.pinnedFrom ?? []), e.targetSha, e.headSha]
  const others = heads.filter((sha) => sha !== null && sha !== asked)
  return [...new Set(others as string[])].slice(-KEPT)
}

/** A look found the branch at a commit that it stood at already when somebody chose another one. */
export const isLeftBehind = (pinnedFrom: readonly string[] | null, sha: string | null): boolean =>
  sha !== null && (pinnedFrom?.includes(sha) ?? false)
