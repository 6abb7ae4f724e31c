// Expands the braces of a pattern: `{a,b}.txt` is `a.txt` and `b.txt`. PURE. Innermost first, so that they may be
// nested; bounded, because each pair multiplies.

/** Returns each expansion once; undefined if there are more than `limit`. */
export function expandBraces(pattern: string, limit: number): string[] | undefined {
  let open = [pattern]
  const done = new Set<string>()
  while (open.length > 0) {
    const next = new Set<string>()
    for (const one of open) {
      const braces = /\{([^{}]*)\}/.exec(one)
      if (!braces) {
        done.add(one)
        continue
      }
      const before = one.slice(0, braces.index)
      const after = one.slice(braces.index + braces[0].length)
      for (const word of (braces[1] ?? '').split(',')) next.add(before + word + after)
    }
    if (next.size + done.size > limit) return undefined
    open = [...next]
  }
  return [...done]
}
