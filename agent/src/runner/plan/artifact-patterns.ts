// Patterns of files that an action leaves (`artifacts.paths`). PURE. `*`, `?`, `[…]` match inside a name, `**` any
// number of folders, `{a,b}` either; names with a leading dot match only where the pattern writes the dot. Matching
// uses no regular expressions and takes at most pattern × name steps, so hostile input cannot block the runner.
import { ARTIFACTS, expandBraces } from '@berth/shared'

type Segments = readonly string[]

interface Patterns {
  /** Nothing outside these folders can match; none is inside another. */
  roots: readonly Segments[]
  matches(path: Segments): boolean
  /** Whether something below this folder may match. */
  mayHold(folder: Segments): boolean
}

export class TooManyPatterns extends Error {}

function alternativesOf(pattern: string): string[] {
  const found = expandBraces(pattern, ARTIFACTS.alternatives)
  if (found) return found
  throw new TooManyPatterns(
    `The pattern ${pattern} stands for more than ${ARTIFACTS.alternatives} patterns. Write it with fewer braces.`,
  )
}

/** Never leads out of the folder: refuses what the checks of the file refuse. */
const segmentsOf = (pattern: string): Segments | undefined => {
  const segments = pattern.split('/').filter((segment) => segment !== '' && segment !== '.')
  return segments.length === 0 || segments.includes('..') ? undefined : segments
}

const isFixed = (segment: string): boolean => !/[*?[]/.test(segment)

function rootOf(pattern: Segments): Segments {
  const wild = pattern.findIndex((segment) => !isFixed(segment))
  return wild < 0 ? pattern : pattern.slice(0, wild)
}

const isBelow = (path: Segments, root: Segments): boolean =>
  root.every((segment, i) => path[i] === segment)

export function readPatterns(written: readonly string[]): Patterns {
  const patterns = written
    .flatMap(alternativesOf)
    .map(segmentsOf)
    .filter((pattern) => pattern !== undefined)
  const roots: Segments[] = []
  const byLength = patterns.map(rootOf).toSorted((a, b) => a.length - b.length)
  for (const root of byLength) if (!roots.some((known) => isBelow(root, known))) roots.push(root)
  return {
    roots,
    matches: (path) => patterns.some((pattern) => matchPath(pattern, path)),
    mayHold: (folder) => patterns.some((pattern) => mayLeadOn(pattern, folder)),
  }
}

/** Greedy with one backtracking point: the last `**` takes one more folder. */
function matchPath(pattern: Segments, path: Segments): boolean {
  let p = 0
  let n = 0
  let star = -1
  let from = 0
  while (n < path.length) {
    const want = pattern[p]
    const name = path[n] as string
    if (want === '**') {
      star = p++
      from = n
    } else if (want !== undefined && matchName(want, name)) {
      p++
      n++
    } else if (star >= 0 && !(path[from] as string).startsWith('.')) {
      p = star + 1
      n = ++from
    } else {
      return false
    }
  }
  while (pattern[p] === '**') p++
  return p === pattern.length
}

/** Whether the folder can lead to a match: each of its names fits the pattern up to the first `**`. */
function mayLeadOn(pattern: Segments, folder: Segments): boolean {
  const deep = pattern.indexOf('**')
  const fixed = deep < 0 ? pattern.length - 1 : deep
  if (deep < 0 && folder.length > fixed) return false
  const isOnWay = folder.slice(0, fixed).every((name, i) => matchName(pattern[i] as string, name))
  if (!isOnWay) return false
  // a hidden folder below `**` is entered only if the pattern writes a dot after it
  const dots = deep >= 0 && pattern.slice(deep).some((segment) => segment.startsWith('.'))
  return dots || folder.slice(fixed).every((name) => !name.startsWith('.'))
}

function matchName(pattern: string, name: string): boolean {
  if (name.startsWith('.') && !pattern.startsWith('.')) return false
  let p = 0
  let t = 0
  let star = -1
  let from = 0
  while (t < name.length) {
    const piece = p < pattern.length ? takePiece(pattern, p) : undefined
    if (piece?.kind === 'any') {
      star = p
      p = piece.next
      from = t
    } else if (piece && fits(piece, name[t] as string)) {
      p = piece.next
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

type Piece =
  | { kind: 'any' | 'one'; next: number }
  | { kind: 'char'; char: string; next: number }
  | { kind: 'class'; body: string; isNot: boolean; next: number }

function takePiece(pattern: string, at: number): Piece {
  const char = pattern[at] as string
  if (char === '*') return { kind: 'any', next: at + 1 }
  if (char === '?') return { kind: 'one', next: at + 1 }
  if (char === '[') {
    const isNot = pattern[at + 1] === '!' || pattern[at + 1] === '^'
    const start = at + (isNot ? 2 : 1)
    const end = pattern.indexOf(']', start + 1) // a leading ] belongs to the class
    if (end > 0) return { kind: 'class', body: pattern.slice(start, end), isNot, next: end + 1 }
  }
  return { kind: 'char', char, next: at + 1 }
}

function fits(piece: Piece, char: string): boolean {
  if (piece.kind === 'char') return piece.char === char
  if (piece.kind === 'class') return isOfClass(piece.body, char) !== piece.isNot
  return true
}

function isOfClass(body: string, char: string): boolean {
  for (let i = 0; i < body.length; i += 1) {
    const first = body[i] as string
    const last = body[i + 1] === '-' && i + 2 < body.length ? (body[i + 2] as string) : undefined
    if (last === undefined) {
      if (first === char) return true
    } else {
      if (char >= first && char <= last) return true
      i += 2
    }
  }
  return false
}

/** Only names that can be shown and offered: no control characters, not too long. */
export function whyUnfit(path: string): string | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  if (/[\u0000-\u001f\u007f-\u009f\u2028\u2029\ufffd]/.test(path)) {
    return 'its name has control characters'
  }
  return new TextEncoder().encode(path).length > ARTIFACTS.pathBytes
    ? 'its name is too long'
    : undefined
}
