// Globs in a project's settings, for bases and paths. PURE. `*` and `?` stay inside a segment, `**` is any number of
// segments, `{a,b}` either. They never become regular expressions: matching counts its steps and stops at a budget, so
// neither a pattern nor a name from outside can block the process.
import { expandBraces } from '@berth/shared'
import { GLOBS } from '../../limits/forges.ts'

type GlobAnswer = 'yes' | 'no' | 'too_much'

/** Undefined for a pattern that is too long or has too many alternatives in its braces: it matches nothing. */
const alternativesOf = (pattern: string): string[] | undefined =>
  pattern === '' || pattern.length > GLOBS.characters
    ? undefined
    : expandBraces(pattern, GLOBS.alternatives)

interface Budget {
  steps: number
}

/** Whether any name matches any pattern. With `folders`, a pattern that names a folder matches everything in it. */
export function matchAny(
  patterns: readonly string[],
  names: readonly string[],
  { folders = false }: { folders?: boolean } = {},
): GlobAnswer {
  const whole = patterns
    .slice(0, GLOBS.patterns)
    .flatMap((pattern) => alternativesOf(pattern) ?? [])
    .map((pattern) => pattern.replace(/^\/+|\/+$/g, '').split('/'))
  const segmented = folders ? whole.flatMap((p) => [p, [...p, '**']]) : whole
  const budget: Budget = { steps: GLOBS.steps }
  for (const name of names) {
    const parts = name.split('/')
    for (const pattern of segmented) {
      if (matchSegments(pattern, parts, budget)) return 'yes'
      if (budget.steps <= 0) return 'too_much'
    }
  }
  return 'no'
}

/** Greedy with one way to backtrack: the last `**` takes one more segment. Counts every comparison. */
function matchSegments(pattern: string[], name: string[], budget: Budget): boolean {
  let p = 0
  let n = 0
  let star = -1
  let from = 0
  while (n < name.length) {
    if (--budget.steps <= 0) return false
    const want = pattern[p]
    if (want === '**') {
      star = p++
      from = n
    } else if (want !== undefined && matchSegment(want, name[n] ?? '', budget)) {
      p++
      n++
    } else if (star >= 0) {
      p = star + 1
      n = ++from
    } else {
      return false
    }
  }
  while (pattern[p] === '**') p++
  return p === pattern.length
}

function matchSegment(pattern: string, text: string, budget: Budget): boolean {
  let p = 0
  let t = 0
  let star = -1
  let from = 0
  while (t < text.length) {
    if (--budget.steps <= 0) return false
    const want = pattern[p]
    if (want === '*') {
      star = p++
      from = t
    } else if (want !== undefined && (want === '?' || want === text[t])) {
      p++
      t++
    } else if (star >= 0) {
      p = star + 1
      t = ++from
    } else {
      return false
    }
  }
  while (pattern[p] === '*') p++
  return p === pattern.length
}
