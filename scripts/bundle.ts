// Bundles what ships: the dashboard's files, the client, one file that needs nothing but Node.js (commands stay lazy
// inside it, because a start-up that loads everything is felt at every call), and the agent, an archive with its own
// Node.js for the platform this runs on. The control plane offers what lies in `dist` to `install.sh`. Two builds of one
// commit give the same bytes. `client` as the only word leaves the others out.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { chmod, cp, mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'rolldown'
import { AGENT_ENV, AGENT_FLAGS } from './agent-flags.ts'
import { buildDashboardIfStale, dashboardDist } from './build-dashboard.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const dist = process.env.BERTH_DIST ?? join(root, 'dist')
/** Loaded at run time from beside the bundle: they carry machine code, or read files of their own. */
const BESIDE = ['better-sqlite3', 'node-pty']
/** Asked for by features of gRPC that nobody here turns on (channelz, ORCA). */
const NEVER_LOADED = ['@grpc/proto-loader']
/** Named by those packages and not needed at run time: build tools. */
const UNUSED = new Set(['node-addon-api'])

const bundle = (input: string, file: string) =>
  build({
    cwd: root,
    platform: 'node',
    treeshake: true,
    input,
    output: { file, format: 'cjs', minify: true, codeSplitting: false },
  })

/** What `engines` of the client says; what it lacks of newer ones is in cli/src/older-node.ts. */
const OLDEST_NODE = 18

/** Parts as texts: Node.js reads through all code of a file before it runs the first line of it. */
const joinParts = (parts: Record<string, string>, first: string): string => `#!/usr/bin/env node
if (parseInt(process.versions.node, 10) < ${OLDEST_NODE}) {
  console.error('berth: Node.js ${OLDEST_NODE} or newer is needed; this is ' + process.versions.node + '.')
  process.exit(1)
}
const parts = ${JSON.stringify(parts, null, 1)}
const { compileFunction } = require('node:vm')
const loaded = {}
function load(name) {
  if (!loaded[name]) {
    const module = (loaded[name] = { exports: {} })
    const run = compileFunction(parts[name], ['exports', 'require', 'module'], {
      filename: __filename + '/' + name,
    })
    run(module.exports, (other) => (other.startsWith('./') ? load(other.slice(2)) : require(other)), module)
  }
  return loaded[name].exports
}
load(${JSON.stringify(first)})
`

/** A text that is compiled has no `import()`: modules of Node.js are what is left for it here. */
function withoutImports(code: string): string {
  const required = code.replaceAll(/\bimport\((`node:[a-z_/]+`)\)/g, 'Promise.resolve(require($1))')
  if (/\bimport\((?!\))/.test(required)) throw new Error('a part of the client imports something')
  return required
}

/**
 * One file, in which a part is compiled when its command needs it: most of the code is for few of the commands, and every
 * call would wait for it. CommonJS: a module of Node.js that only some command needs is loaded by that command.
 */
async function bundleClient(): Promise<void> {
  const { output } = await build({
    cwd: root,
    platform: 'node',
    treeshake: true,
    write: false,
    transform: { target: `node${OLDEST_NODE}` },
    input: { berth: 'cli/src/main.ts' },
    output: {
      format: 'cjs',
      minify: true,
      codeSplitting: true,
      entryFileNames: '[name].cjs',
      chunkFileNames: '[name]-[hash].cjs',
    },
  })
  const parts = output.map((one): [string, string] => {
    if (one.type !== 'chunk') throw new Error(`${one.fileName} is no code`)
    return [one.fileName, withoutImports(one.code.replace(/^#!.*\n/, ''))]
  })
  const file = join(dist, 'berth.cjs')
  await writeFile(file, joinParts(Object.fromEntries(parts.toSorted()), 'berth.cjs'))
  await chmod(file, 0o755)
}

/**
 * In parts, so that a process keeps in memory only what its command needs, and CommonJS, because an `import` of
 * `node:http` loads all of Node's fetch with it: together a fifth of what the daemon took as one module.
 */
async function bundleAgent(folder: string): Promise<void> {
  await build({
    cwd: root,
    platform: 'node',
    treeshake: true,
    input: { 'berth-agent': 'agent/src/main.ts' },
    external: [...BESIDE, ...NEVER_LOADED],
    output: {
      dir: folder,
      format: 'cjs',
      minify: true,
      codeSplitting: true,
      entryFileNames: '[name].cjs',
      chunkFileNames: 'parts/[name]-[hash].cjs',
    },
  })
}

/** The files the control plane serves to browsers; BERTH_DASHBOARD_DIR points to them. */
async function bundleDashboard(): Promise<void> {
  await buildDashboardIfStale()
  const target = join(dist, 'dashboard')
  await rm(target, { recursive: true, force: true })
  await cp(dashboardDist, target, {
    recursive: true,
    filter: (path) => !path.endsWith('.built-from'),
  })
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

/** Machine code of this platform only; sources and what built them stay behind. */
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

/** The package and everything it needs: flat, a second version of something below the one that needs it. */
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

async function packageAgent(): Promise<void> {
  const platform = `${process.platform}-${process.arch}`
  const folder = join(dist, `berth-agent-${platform}`)
  await rm(folder, { recursive: true, force: true })
  await mkdir(join(folder, 'bin'), { recursive: true })
  await bundleAgent(join(folder, 'lib'))
  // what sshd starts for people: a file of its own, and CommonJS, because they wait for its start
  await bundle('agent/src/ssh/session-main.ts', join(folder, 'lib/ssh-session.cjs'))
  await writeFile(join(folder, 'lib/package.json'), '{"type":"module"}\n')
  for (const name of BESIDE) {
    await copyPackage(name, join(root, 'agent'), [join(folder, 'lib/node_modules')])
  }
  await cp(process.execPath, join(folder, 'bin/node'), { dereference: true })
  await writeFile(join(folder, 'bin/berth-agent'), LAUNCHER, { mode: 0o755 })
  const tar = ['--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner']
  execFileSync('tar', [...tar, '--mode=go-w', '-C', folder, '-cf', `${folder}.tar`, '.'])
  execFileSync('gzip', ['-6nf', `${folder}.tar`])
  await rm(folder, { recursive: true })
}

await mkdir(dist, { recursive: true })
await bundleClient()
if (process.argv[2] !== 'client') {
  await bundleDashboard()
  await packageAgent()
}
