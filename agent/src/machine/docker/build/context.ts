// Lists the files of a build's folder, in the order and by the rules that BuildKit requests. Symlinks stay symlinks;
// other special files are left out. Links are never followed, so nothing outside the folder is read.
import {
  type BigIntStats,
  closeSync,
  constants,
  type Dirent,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  realpathSync,
} from 'node:fs'
import { basename, join, sep } from 'node:path'
import dockerignore from '@balena/dockerignore'
import { followPaths } from './context-paths.ts'
import { type ContextTimes, digestOf, openTimes } from './context-times.ts'
import { type FileStat, toGoMode } from './file-packets.ts'

/** The real path of a file in a checkout. Throws when a link leads out of it. */
export function resolveInside(checkout: string, path: string): string {
  const root = realpathSync(checkout)
  let real: string
  try {
    real = realpathSync(join(root, path))
  } catch {
    throw new Error(`${path} is not in the checkout.`)
  }
  if (real !== root && !real.startsWith(`${root}${sep}`)) {
    throw new Error(`${path} leads out of the checkout.`)
  }
  return real
}

/** What BuildKit requests. */
export interface Wanted {
  /** Lines of a .dockerignore, negations included. */
  excludes: string[]
  /** Patterns; empty for all. */
  includes: string[]
  /** Paths, also with wildcards; the targets of their links are included. Empty for all. */
  follow: string[]
}

export interface ContextEntry {
  stat: FileStat
  isFile: boolean
  /** Its path on disk. */
  file: string | Buffer
  /** The file as it was when listed. */
  seen: Seen
}

type Seen = Pick<BigIntStats, 'dev' | 'ino' | 'size' | 'ctimeNs'>

interface Rules {
  takes: (path: string) => boolean
  /** Whether this folder, itself not taken, may contain something that is. */
  looksInto: (path: string) => boolean
}

/** The library reads these characters as a regular expression; docker means them literally. */
const asWritten = (pattern: string): string =>
  pattern.replaceAll(/\\.|\[\^|[+()|{}^]/gs, (found) => (found.length > 1 ? found : `\\${found}`))

// its types declare a default export; the CommonJS import is the function itself
const createMatcher = (patterns: string[]) =>
  (dockerignore as unknown as typeof dockerignore.default)({ ignorecase: false }).add(
    patterns.map(asWritten),
  )

function readRules(root: string, { excludes, includes, follow }: Wanted): Rules {
  const ignored = createMatcher(excludes)
  const included = includes.length > 0 ? createMatcher(includes) : undefined
  const followed = follow.length > 0 ? followPaths(root, follow) : undefined
  // a later rule may include again what an earlier one excluded
  const hasNegation = excludes.some((line) => line.startsWith('!'))
  return {
    takes: (path) =>
      !(followed && !followed.has(path)) &&
      !(included && !included.ignores(path)) &&
      !ignored.ignores(path),
    looksInto: (path) =>
      !(followed && !followed.has(path) && !followed.leadsThrough(path)) &&
      (hasNegation || !ignored.ignores(path)),
  }
}

const NONE = Buffer.alloc(0)
const SLASH = Buffer.from('/')

/** Undefined when it is no file, folder or link. */
function look(file: string | Buffer, path: string, name: Buffer): ContextEntry | undefined {
  const seen = lstatSync(file, { bigint: true })
  const isFile = seen.isFile()
  const isLink = seen.isSymbolicLink()
  if (!isFile && !isLink && !seen.isDirectory()) return undefined
  const link = isLink ? readlinkSync(file, 'buffer') : NONE
  const size = isFile || isLink ? Number(seen.size) : 0
  const mode = toGoMode(Number(seen.mode))
  return { stat: { path, name, mode, size, mtimeNs: seen.mtimeNs, link }, isFile, file, seen }
}

/** Sets the time under which builds know the file's content. */
function* settle(entry: ContextEntry, times: ContextTimes): Generator<undefined, ContextEntry> {
  if (!entry.isFile) return entry
  const { stat } = entry
  const handle = openListed(entry)
  try {
    const digest = yield* digestOf(handle, stat.size)
    return { ...entry, stat: { ...stat, mtimeNs: times.timeOf(stat.path, digest, stat.mtimeNs) } }
  } finally {
    closeSync(handle)
  }
}

/** Sorted by the bytes of their names, as BuildKit compares. */
const readFolder = (folder: Buffer): Dirent<Buffer>[] =>
  readdirSync(folder, { withFileTypes: true, encoding: 'buffer' }).sort((a, b) =>
    Buffer.compare(a.name, b.name),
  )

/**
 * Yields a folder before its contents, and only if it or something in it is taken. Yields undefined for what is not
 * taken, so that the reader can do other work in between.
 */
function* walk(
  root: Buffer,
  rules: Rules,
  times: ContextTimes,
  /** Ends with a slash; empty for the root itself. */
  at: Buffer,
  /** Parent folders that were not yielded yet. */
  above: ContextEntry[],
): Generator<ContextEntry | undefined> {
  for (const found of readFolder(Buffer.concat([root, at]))) {
    const name = Buffer.concat([at, found.name])
    const path = name.toString('utf8')
    const isFolder = found.isDirectory()
    const isTaken = rules.takes(path)
    const isOpened = isFolder && (isTaken || rules.looksInto(path))
    const file = Buffer.concat([root, name])
    const entry = isTaken || isOpened ? look(file, path, name) : undefined
    if (isTaken && entry) {
      yield* above.splice(0)
      yield yield* settle(entry, times)
    } else yield undefined
    if (!entry || !isOpened) continue
    if (!isTaken) above.push(entry)
    yield* walk(root, rules, times, Buffer.concat([name, SLASH]), above)
    if (above.at(-1) === entry) above.pop()
  }
}

/** Throws when the folder, or an entry in it, cannot be read. */
export function* listContext(
  folder: string,
  wanted: Wanted,
  times: ContextTimes,
): Generator<ContextEntry | undefined> {
  const root = realpathSync(folder)
  yield* walk(Buffer.from(`${root}/`), readRules(root, wanted), times, NONE, [])
}

/** The Dockerfile and its ignore file, as a folder of their own; leaves out missing files. */
export function* listRecipe(
  folder: string,
  dockerfile: string,
): Generator<ContextEntry | undefined> {
  const times = openTimes(undefined)
  for (const path of [dockerfile, `${dockerfile}.dockerignore`]) {
    let entry: ContextEntry | undefined
    try {
      const name = basename(path)
      entry = look(resolveInside(folder, path), name, Buffer.from(name))
    } catch {
      continue // the engine reports what is missing
    }
    if (entry?.isFile) yield yield* settle(entry, times)
  }
}

/** Opens a listed file. Throws when it was replaced meanwhile. */
export function openListed(entry: ContextEntry): number {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
  const handle = openSync(entry.file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  try {
    checkListed(handle, entry)
    return handle
  } catch (error) {
    closeSync(handle)
    throw error
  }
}

/** Throws when the file has changed since it was listed. */
export function checkListed(handle: number, { stat, seen }: ContextEntry): void {
  const now = fstatSync(handle, { bigint: true })
  const isSame = now.isFile() && now.dev === seen.dev && now.ino === seen.ino
  if (isSame && now.size === seen.size && now.ctimeNs === seen.ctimeNs) return
  throw new Error(`${stat.path} changed while it was sent`)
}
