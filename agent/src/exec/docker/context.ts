// The build context as a tar stream, packed the way the docker CLI does it: `.dockerignore` with its negations, symlinks
// as symlinks, owner root. Nothing outside the folder is read: links are never followed.
import { createReadStream, readFileSync, realpathSync } from 'node:fs'
import { lstat, readdir, readlink } from 'node:fs/promises'
import { join, normalize, sep } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import dockerignore from '@balena/dockerignore'
import { pack as openPack, type Pack } from 'tar-stream'

/** The real path of something in a checkout. Throws when a link leads out of it. */
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

export interface PackOptions {
  /** Relative to the folder. */
  dockerfile?: string
  signal?: AbortSignal
}

interface Rules {
  isIgnored: (path: string) => boolean
  /** A later rule may take back what an earlier one left out, so ignored folders are looked into. */
  hasNegation: boolean
}

function readRules(folder: string, dockerfile: string): Rules {
  const text = readFirst([`${dockerfile}.dockerignore`, '.dockerignore'], folder)
  const lines = text
    .replace(/^\uFEFF/, '')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
  const ignored = createIgnore().add(lines)
  const recipe = normalize(dockerfile) // sent in any case: the engine builds by it
  return {
    isIgnored: (path) => path !== recipe && ignored.ignores(path),
    hasNegation: lines.some((line) => line.startsWith('!')),
  }
}

// its types promise a default export; what is imported from CommonJS is the function itself
const createIgnore = () =>
  (dockerignore as unknown as typeof dockerignore.default)({ ignorecase: false })

function readFirst(names: string[], folder: string): string {
  for (const name of names) {
    try {
      return readFileSync(resolveInside(folder, name), 'utf8')
    } catch {
      // not there, or no file of this folder: the next one counts
    }
  }
  return ''
}

async function* walk(root: string, rules: Rules, at = ''): AsyncGenerator<string> {
  const entries = await readdir(join(root, at), { withFileTypes: true })
  for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = at ? `${at}/${entry.name}` : entry.name
    const isIgnored = rules.isIgnored(path)
    if (!isIgnored) yield path
    if (entry.isDirectory() && (!isIgnored || rules.hasNegation)) yield* walk(root, rules, path)
  }
}

/** A tar stream; destroyed with the error when packing fails. */
export function packContext(folder: string, options: PackOptions = {}): Readable {
  const pack = openPack()
  packInto(pack, folder, options).then(
    () => pack.finalize(),
    (error: unknown) => pack.destroy(error as Error),
  )
  return pack as unknown as Readable
}

async function packInto(pack: Pack, folder: string, options: PackOptions): Promise<void> {
  const rules = readRules(folder, options.dockerfile ?? 'Dockerfile')
  for await (const path of walk(folder, rules)) {
    options.signal?.throwIfAborted()
    if (pack.destroyed) return
    await packEntry(pack, folder, path)
  }
}

// its types do not say that an entry is an ordinary writable stream
const openEntry = (
  pack: Pack,
  header: Parameters<Pack['entry']>[0],
  { size }: { size: number },
): Writable => pack.entry({ ...header, size }) as unknown as Writable

/** Sockets, FIFOs and devices are left out. */
async function packEntry(pack: Pack, folder: string, path: string): Promise<void> {
  const file = join(folder, path)
  const stat = await lstat(file)
  const header = { name: path, mode: stat.mode & 0o7777, mtime: stat.mtime, uid: 0, gid: 0 }
  if (stat.isDirectory()) {
    pack.entry({ ...header, name: `${path}/`, type: 'directory' })
  } else if (stat.isSymbolicLink()) {
    pack.entry({ ...header, type: 'symlink', linkname: await readlink(file) })
  } else if (stat.isFile()) {
    if (stat.size === 0) pack.entry(header, '')
    else
      await pipeline(createReadStream(file, { end: stat.size - 1 }), openEntry(pack, header, stat))
  }
}
