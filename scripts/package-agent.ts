// Packages the agent: an archive with its own Node.js and Caddy for the current platform. The control plane offers the content of
// `dist` to `install.sh`. Builds are reproducible from a commit. Run by itself it packages only if the content of a
// source changed; `npm start` and an installed control plane do so.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, globSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { cp, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'rolldown'
import { AGENT_ENV, AGENT_FLAGS } from './agent-flags.ts'
import { fetchShippedCaddy, findShippedCaddy } from './caddy.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
export const dist = process.env.BERTH_DIST ?? join(root, 'dist')
const PLATFORM = `${process.platform}-${process.arch}`
/** Loaded at run time from files next to the bundle, because they contain machine code or read their own files. */
const BESIDE = ['better-sqlite3', 'node-pty']
/** Build tools that those packages name but do not need at run time. */
const UNUSED = new Set(['node-addon-api'])

const bundle = (input: string, file: string) =>
  build({
    cwd: root,
    platform: 'node',
    treeshake: true,
    input,
    output: { file, format: 'cjs', minify: true, codeSplitting: false },
  })

/**
 * In parts, so that a process loads only what its command needs, and as CommonJS, because an `import` of `node:http`
 * loads all of Node's fetch. Together this saves a fifth of the daemon's memory as one module.
 */
export async function bundleAgent(folder: string): Promise<void> {
  await build({
    cwd: root,
    platform: 'node',
    treeshake: true,
    input: { 'berth-agent': 'agent/src/main.ts' },
    external: BESIDE,
    output: {
      dir: folder,
      format: 'cjs',
      minify: true,
      codeSplitting: true,
      entryFileNames: '[name].cjs',
      chunkFileNames: 'parts/[name]-[hash].cjs',
    },
  })
  // what sshd starts for users: a separate file in CommonJS, because users wait for its start
  await bundle('agent/src/ssh/sessions/session-main.ts', join(folder, 'ssh-session.cjs'))
}

const LAUNCHER = `#!/bin/sh
# Starts the agent with the Node.js it was shipped with.
here=$(dirname -- "$(readlink -f -- "$0")")
export MALLOC_ARENA_MAX=${AGENT_ENV.MALLOC_ARENA_MAX}
exec "$here/node" ${AGENT_FLAGS.join(' ')} "$here/../lib/berth-agent.cjs" "$@"
`

interface Manifest {
  version: string
  dependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
}

function locatePackage(name: string, from: string): string | undefined {
  for (let folder = from; folder !== dirname(folder); folder = dirname(folder)) {
    const at = join(folder, 'node_modules', name)
    if (existsSync(join(at, 'package.json'))) return realpathSync(at)
  }
  return undefined
}

/** Machine code of this platform only, without sources and build files. */
function isShipped(path: string, from: string): boolean {
  const [top = '', ...rest] = path.slice(from.length + 1).split('/')
  if (top === 'prebuilds') {
    return rest.length === 0 || (rest[0] ?? '').startsWith(`${process.platform}-${process.arch}`)
  }
  if (top === 'build' && existsSync(join(from, 'binding.gyp'))) {
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
async function copyPackage(name: string, neededBy: string, places: string[]): Promise<void> {
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
    const filter = (path: string): boolean => isShipped(path, from)
    await cp(from, target, { recursive: true, dereference: true, filter })
    for (const needed of Object.keys(manifest.dependencies ?? {})) {
      const below = [...places, join(target, 'node_modules')]
      if (!UNUSED.has(needed)) await copyPackage(needed, from, below)
    }
    return
  }
  throw new Error(`${name} ${manifest.version} finds no place`)
}

/** A hash over the content of the sources, dependencies, this file, Node.js and Caddy. */
function contentHash(): string {
  const globs = ['agent/src/**/*.ts', 'shared/src/**/*.ts', '{agent,shared}/package.json']
  globs.push('agent/not-needed/*')
  const files = [...globs, 'scripts/{package-agent,agent-flags}.ts', 'pnpm-lock.yaml']
    .flatMap((pattern) => globSync(pattern, { cwd: root }))
    .filter((file) => !file.endsWith('.test.ts'))
  const caddy = findShippedCaddy()?.pin.programSha256 ?? 'none'
  const hash = createHash('sha256').update(`${process.version} ${PLATFORM} ${caddy}`)
  for (const file of files.toSorted())
    hash.update(`\0${file}\0`).update(readFileSync(join(root, file)))
  return hash.digest('hex')
}

const archive = join(dist, `berth-agent-${PLATFORM}.tar.gz`)
const stamp = join(dist, `.berth-agent-${PLATFORM}.built-from`)

/** Removes leftovers of killed runs; no run takes an hour. */
async function dropLeftovers(): Promise<void> {
  for (const path of globSync(join(dist, '.packaging-*'))) {
    const age = Date.now() - statSync(path).mtimeMs
    if (age > 3_600_000) await rm(path, { recursive: true, force: true })
  }
}

/** Built aside and renamed, so that a running control plane offers either the old or the new package, complete. */
export async function packageAgent(): Promise<void> {
  fetchShippedCaddy()
  const from = contentHash()
  await mkdir(dist, { recursive: true })
  await dropLeftovers()
  const folder = await mkdtemp(join(dist, '.packaging-'))
  try {
    await fillPackage(join(folder, 'agent'))
    const tar = ['--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner']
    const made = join(folder, 'agent.tar')
    execFileSync('tar', [
      ...tar,
      '--mode=u+rwX,go+rX,go-w',
      '-C',
      join(folder, 'agent'),
      '-cf',
      made,
      '.',
    ])
    execFileSync('gzip', ['-6nf', made])
    await rm(stamp, { force: true })
    await rename(`${made}.gz`, archive)
    await writeFile(stamp, from)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Packages unless the current package is up to date. */
async function packageAgentIfStale(): Promise<void> {
  fetchShippedCaddy()
  const isFresh = existsSync(archive) && existsSync(stamp)
  if (!isFresh || readFileSync(stamp, 'utf8') !== contentHash()) await packageAgent()
}

async function fillPackage(folder: string): Promise<void> {
  await mkdir(join(folder, 'bin'), { recursive: true })
  await bundleAgent(join(folder, 'lib'))
  await writeFile(join(folder, 'lib/package.json'), '{"type":"module"}\n')
  for (const name of BESIDE) {
    await copyPackage(name, join(root, 'agent'), [join(folder, 'lib/node_modules')])
  }
  await cp(process.execPath, join(folder, 'bin/node'), { dereference: true })
  const caddy = findShippedCaddy()
  if (caddy) await cp(caddy.file, join(folder, 'bin/caddy'))
  await writeFile(join(folder, 'bin/berth-agent'), LAUNCHER, { mode: 0o755 })
}

if (import.meta.main) await packageAgentIfStale()
