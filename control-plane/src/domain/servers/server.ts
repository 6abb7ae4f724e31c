// Decides whether a server's agent is outdated.

const numbers = (version: string): number[] =>
  (/^v?(\d+)\.(\d+)\.(\d+)/.exec(version) ?? []).slice(1).map(Number)

/** A version that this build cannot parse does not count as older. */
export function isOlder(version: string | null, than: string): boolean {
  const [a, b] = [numbers(version ?? ''), numbers(than)]
  if (a.length === 0) return false
  for (const [i, n] of b.entries()) {
    const own = a[i] ?? 0
    if (own !== n) return own < n
  }
  return false
}
