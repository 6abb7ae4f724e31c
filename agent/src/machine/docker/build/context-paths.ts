// Finds the paths of a context that BuildKit needs: those that COPY and ADD name, and the targets of their links. When
// in doubt it returns too many, never too few.
import { lstatSync, readdirSync, readlinkSync, type Stats } from 'node:fs'
import { join, posix } from 'node:path'

export interface FollowedPaths {
  has: (path: string) => boolean
  /** Whether one of them is in this folder. */
  leadsThrough: (path: string) => boolean
}

/** Links in all paths together; an endless chain requests everything. */
const MAX_LINKS = 1_000

interface Found {
  /** With everything below them. */
  whole: Set<string>
  /** Prefixes before a wildcard; every path that begins with one is included. */
  begins: Set<string>
  links: number
  isEverything: boolean
}

function peek(file: string): Stats | undefined {
  try {
    return lstatSync(file)
  } catch {
    return undefined // missing; the engine reports that
  }
}

function hasLink(folder: string, begin: string): boolean {
  try {
    const entries = readdirSync(folder, { withFileTypes: true })
    return entries.some((entry) => entry.name.startsWith(begin) && entry.isSymbolicLink())
  } catch {
    return false
  }
}

/** Relative to the root, which no path can leave. */
const partsOf = (path: string): string[] =>
  posix
    .join('/', path)
    .split('/')
    .filter((part) => part !== '')

function follow(root: string, path: string, found: Found): void {
  const parts = partsOf(path)
  let at = ''
  for (const [index, part] of parts.entries()) {
    const wildcard = part.search(/[*?[\\]/)
    if (wildcard >= 0) {
      const begin = part.slice(0, wildcard)
      if (hasLink(join(root, at), begin)) found.isEverything = true
      found.begins.add(at ? `${at}/${begin}` : begin)
      return
    }
    const above = at
    at = at ? `${at}/${part}` : part
    const file = join(root, at)
    if (!peek(file)?.isSymbolicLink()) continue
    found.whole.add(at)
    found.links += 1
    if (found.links > MAX_LINKS) found.isEverything = true
    if (found.isEverything) return
    const link = readlinkSync(file)
    const target = posix.isAbsolute(link) ? link : posix.join('/', above, link)
    follow(root, posix.join(target, ...parts.slice(index + 1)), found)
    return
  }
  if (at === '') found.isEverything = true
  found.whole.add(at)
}

/** Undefined for all of them. */
export function followPaths(root: string, paths: string[]): FollowedPaths | undefined {
  const found: Found = { whole: new Set(), begins: new Set(), links: 0, isEverything: false }
  for (const path of paths) {
    follow(root, path, found)
    if (found.isEverything) return undefined
  }
  const begins = [...found.begins]
  if (begins.includes('')) return undefined
  const roots = [...found.whole, ...begins]
  return {
    has: (path) => isBelow(path, found.whole) || begins.some((begin) => path.startsWith(begin)),
    leadsThrough: (path) => roots.some((one) => one.startsWith(`${path}/`)),
  }
}

/** Whether the path, or a folder above it, is in the set. */
function isBelow(path: string, whole: Set<string>): boolean {
  for (let at = path; at !== '.' && at !== ''; at = posix.dirname(at)) {
    if (whole.has(at)) return true
  }
  return false
}
