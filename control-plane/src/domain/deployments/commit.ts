// Decides which commit the first digits of a SHA name. PURE.

type Choice =
  | { kind: 'found'; sha: string }
  | { kind: 'unknown'; sha: undefined }
  | { kind: 'ambiguous'; examples: string[] }

/** Examples have enough digits to tell them apart. */
export function chooseCommit(prefix: string, commits: readonly string[]): Choice {
  const found = [...new Set(commits.filter((sha) => sha.startsWith(prefix)))].sort()
  const [first, second] = found
  if (first === undefined) return { kind: 'unknown', sha: undefined }
  if (second === undefined) return { kind: 'found', sha: first }
  let digits = prefix.length + 1
  while (first.slice(0, digits) === second.slice(0, digits)) digits += 1
  return { kind: 'ambiguous', examples: [first.slice(0, digits), second.slice(0, digits)] }
}
