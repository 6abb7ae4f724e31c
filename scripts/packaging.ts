// What the packages of agent and control plane have in common: modules with machine code, and archives with the same
// bytes for the same content.
import { execFileSync } from 'node:child_process'
import { existsSync, globSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { cp, mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findShippedCaddy } from './caddy.ts'

export const root = fileURLToPath(new URL('..', import.meta.url))
export const dist = process.env.BERTH_DIST ?? join(root, 'dist')

/** The programs of one platform that go into a package. */
export interface PlatformParts {
  /** `linux-x64` or `linux-arm64`. */
  platform: string
  node: string
  caddy: string | undefined
  /** Machine code of node-pty; undefined: as it was built here. */
  pty: string | undefined
}

export const ownPlatform = `${process.platform}-${process.arch}`

/** Of this machine. */
export const ownParts = (): PlatformParts => ({
  platform: ownPlatform,
  node: process.execPath,
  caddy: findShippedCaddy()?.file,
  pty: undefined,
})

/** Build tools that packages name but do not need at run time. */
const UNUSED = new Set(['node-addon-api'])

interface Manifest {
  version: string
  dependencies?: Record<string, string>
}

function locatePackage(name: string, from: string): string | undefined {
  for (let folder = from; folder !== dirname(folder); folder = dirname(folder)) {
    const at = join(folder, 'node_modules', name)
    if (existsSync(join(at, 'package.json'))) return realpathSync(at)
  }
  return undefined
}

/** Machine code of this platform only, without sources and build files. */
function isShipped(path: string, from: string, { platform, pty }: PlatformParts): boolean {
  const [top = '', ...rest] = path.slice(from.length + 1).split('/')
  if (top === 'prebuilds') return rest.length === 0 || (rest[0] ?? '').startsWith(platform)
  if (top === 'build' && existsSync(join(from, 'binding.gyp'))) {
    if (pty !== undefined) return false
    return rest.length === 0 || rest[0] === 'Release'
      ? rest.length < 2 || path.endsWith('.node')
      : false
  }
  if (['deps', 'src', 'third_party', 'test', 'tests', 'node_modules'].includes(top)) {
    return top === 'src' && !existsSync(join(from, 'binding.gyp'))
  }
  return !/\.(md|map|d\.ts|gyp)$/.test(path)
}

const readManifest = (folder: string): Manifest =>
  JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest

/** Copies the package and its dependencies flat; a second version goes below the package that needs it. */
export async function copyPackage(
  name: string,
  neededBy: string,
  places: string[],
  parts: PlatformParts,
): Promise<void> {
  const from = locatePackage(name, neededBy)
  if (!from) {
    if (name !== 'node-pty') throw new Error(`${name} is not installed`)
    return console.warn('node-pty was not built here: the packaged agent has no terminal.')
  }
  const manifest = readManifest(from)
  for (const place of places) {
    const target = join(place, name)
    if (existsSync(target)) {
      if (readManifest(target).version === manifest.version) return
      continue
    }
    const filter = (path: string): boolean => isShipped(path, from, parts)
    await cp(from, target, { recursive: true, dereference: true, filter })
    if (name === 'node-pty' && parts.pty !== undefined) {
      const folder = join(target, 'prebuilds', parts.platform)
      await mkdir(folder, { recursive: true })
      await cp(parts.pty, join(folder, 'pty.node'))
    }
    for (const needed of Object.keys(manifest.dependencies ?? {})) {
      const below = [...places, join(target, 'node_modules')]
      if (!UNUSED.has(needed)) await copyPackage(needed, from, below, parts)
    }
    return
  }
  throw new Error(`${name} ${manifest.version} finds no place`)
}

/** The same content gives the same bytes: names in order, no times, no owners, modes without the umask. */
export function tarFolder(folder: string, file: string): void {
  const same = ['--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner']
  const modes = '--mode=u+rwX,go+rX,go-w'
  execFileSync('tar', [...same, '--format=gnu', modes, '-C', folder, '-cf', file, '.'])
}

/** Removes leftovers of killed runs; no run takes an hour. */
async function dropLeftovers(out: string): Promise<void> {
  for (const path of globSync(join(out, '.packaging-*'))) {
    const age = Date.now() - statSync(path).mtimeMs
    if (age > 3_600_000) await rm(path, { recursive: true, force: true })
  }
}

/** Built aside and renamed, so that a running control plane offers either the old or the new archive, complete. */
export async function makeArchive(
  file: string,
  fill: (folder: string) => Promise<void>,
): Promise<void> {
  const out = dirname(file)
  await mkdir(out, { recursive: true })
  await dropLeftovers(out)
  const scratch = await mkdtemp(join(out, '.packaging-'))
  try {
    const content = join(scratch, 'content')
    await mkdir(content)
    await fill(content)
    const tar = join(scratch, 'made.tar')
    tarFolder(content, tar)
    execFileSync('gzip', ['-6nf', tar])
    await rename(`${tar}.gz`, file)
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}
