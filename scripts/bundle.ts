// Bundles what ships: the dashboard's files, the agent (package-agent.ts), and the client as one file that needs only
// Node.js and loads commands lazily, because users feel the start-up of every call. Builds are reproducible from a
// commit. With `client` as the only argument it bundles the client alone.
import { chmod, cp, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'rolldown'
import { buildDashboardIfStale, dashboardDist } from './build-dashboard.ts'
import { dist, packageAgent } from './package-agent.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

/** The `engines` of the client; cli/src/older-node.ts adds what this version lacks. */
const OLDEST_NODE = 18

/** Parts are strings, because Node.js scans all code of a file before it runs the first line. */
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

/** Code compiled from a string has no `import()`; only Node.js modules remain to be imported here. */
function withoutImports(code: string): string {
  const required = code.replaceAll(/\bimport\((`node:[a-z_/]+`)\)/g, 'Promise.resolve(require($1))')
  if (/\bimport\((?!\))/.test(required)) throw new Error('a part of the client imports something')
  return required
}

/**
 * One file whose parts are compiled when a command needs them: most code serves few commands, and every call would wait
 * for it. CommonJS, so that a Node.js module is loaded only by the commands that use it.
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

await mkdir(dist, { recursive: true })
await bundleClient()
if (process.argv[2] !== 'client') {
  await bundleDashboard()
  await packageAgent()
}
