// Bundles the client as one file that needs only Node.js and loads commands lazily, because users feel the start-up of
// every call. The control plane offers it to `install-cli.sh`.
import { createHash } from 'node:crypto'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { chmod, mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { build } from 'rolldown'
import { dist, root } from './packaging.ts'

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
export async function bundleClient(folder = dist): Promise<void> {
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
  await mkdir(folder, { recursive: true })
  const file = join(folder, 'berth.cjs')
  const aside = `${file}.${process.pid}`
  await writeFile(aside, joinParts(Object.fromEntries(parts.toSorted()), 'berth.cjs'))
  await chmod(aside, 0o755)
  await rename(aside, file) // a running control plane offers it
}

const stamp = join(dist, '.berth-client.built-from')

/** A hash over the content of the sources and dependencies. */
function contentHash(): string {
  const globs = ['{cli,shared}/src/**/*.ts', '{.,cli,shared}/package.json', 'pnpm-lock.yaml']
  const files = [...globs, 'scripts/package-client.ts']
    .flatMap((pattern) => globSync(pattern, { cwd: root }))
    .filter((file) => !file.endsWith('.test.ts'))
  const hash = createHash('sha256')
  for (const file of files.toSorted())
    hash.update(`\0${file}\0`).update(readFileSync(join(root, file)))
  return hash.digest('hex')
}

/** Bundles into `dist` unless what is there is up to date. */
export async function bundleClientIfStale(): Promise<void> {
  const from = contentHash()
  const isFresh = existsSync(join(dist, 'berth.cjs')) && existsSync(stamp)
  if (isFresh && readFileSync(stamp, 'utf8') === from) return
  await bundleClient()
  await writeFile(stamp, from)
}
