// Packages the agent: an archive with its own Node.js and Caddy. The control plane offers the content of
// `dist` to `install.sh`. Builds are reproducible from a commit. `npm start` and an installed control plane package only
// if the content of a source changed.
import { createHash } from 'node:crypto'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { cp, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { build } from 'rolldown'
import { AGENT_ENV, AGENT_FLAGS } from './agent-flags.ts'
import { fetchShippedCaddy, findShippedCaddy } from './caddy.ts'
import {
  copyPackage,
  dist,
  makeArchive,
  ownParts,
  ownPlatform,
  type PlatformParts,
  root,
} from './packaging.ts'

/** By name: the release's public key, its version and counter. */
export type ReleaseFiles = Record<string, string>

/** Loaded at run time from files next to the bundle, because they contain machine code or read their own files. */
const BESIDE = ['better-sqlite3', 'node-pty']

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

/** More than the updater ever allows, so this is only for one that was killed. */
const STARTS = 10

const LAUNCHER = `#!/bin/sh
# Starts the agent with the Node.js it was shipped with. While an update is being tried, each start of the daemon is
# counted; the last resort after many is the version before, also if nothing of this one works.
here=$(dirname -- "$(readlink -f -- "$0")")
root=$here/../..
if [ "\${1:-}" = run ] && [ -e "$root/updating" ]; then
  echo $$ >>"$root/updating"
  if [ "$(wc -l <"$root/updating")" -gt ${STARTS} ] && before=$(readlink "$root/previous"); then
    ln -sfn "$before" "$root/.current" && mv -T "$root/.current" "$root/current"
    rm -f "$root/updating"
    exec "$root/current/bin/berth-agent" "$@"
  fi
fi
export MALLOC_ARENA_MAX=${AGENT_ENV.MALLOC_ARENA_MAX}
exec "$here/node" ${AGENT_FLAGS.join(' ')} "$here/../lib/berth-agent.cjs" "$@"
`

/** A hash over the content of the sources, dependencies, this file, Node.js and Caddy. */
function contentHash(): string {
  const globs = ['agent/src/**/*.ts', 'shared/src/**/*.ts', '{agent,shared}/package.json']
  globs.push('agent/not-needed/*')
  const files = [...globs, 'scripts/{package-agent,packaging,agent-flags}.ts', 'pnpm-lock.yaml']
    .flatMap((pattern) => globSync(pattern, { cwd: root }))
    .filter((file) => !file.endsWith('.test.ts'))
  const caddy = findShippedCaddy()?.pin.programSha256 ?? 'none'
  const hash = createHash('sha256').update(`${process.version} ${ownPlatform} ${caddy}`)
  for (const file of files.toSorted())
    hash.update(`\0${file}\0`).update(readFileSync(join(root, file)))
  return hash.digest('hex')
}

const archive = join(dist, `berth-agent-${ownPlatform}.tar.gz`)
const stamp = join(dist, `.berth-agent-${ownPlatform}.built-from`)

/** For this machine. */
export async function packageAgent(): Promise<void> {
  fetchShippedCaddy()
  const from = contentHash()
  await rm(stamp, { force: true })
  await makeArchive(archive, (folder) => fillAgent(folder, ownParts()))
  await writeFile(stamp, from)
}

/** Packages unless the current package is up to date. */
export async function packageAgentIfStale(): Promise<void> {
  fetchShippedCaddy()
  const isFresh = existsSync(archive) && existsSync(stamp)
  if (!isFresh || readFileSync(stamp, 'utf8') !== contentHash()) await packageAgent()
}

/** `release`: what makes an installed agent update itself; absent for a package that belongs to no release. */
export async function fillAgent(
  folder: string,
  parts: PlatformParts,
  release?: ReleaseFiles,
): Promise<void> {
  await mkdir(join(folder, 'bin'), { recursive: true })
  await bundleAgent(join(folder, 'lib'))
  await writeFile(join(folder, 'lib/package.json'), '{"type":"module"}\n')
  for (const name of BESIDE) {
    await copyPackage(name, join(root, 'agent'), [join(folder, 'lib/node_modules')], parts)
  }
  await cp(parts.node, join(folder, 'bin/node'), { dereference: true })
  if (parts.caddy) await cp(parts.caddy, join(folder, 'bin/caddy'))
  await writeFile(join(folder, 'bin/berth-agent'), LAUNCHER, { mode: 0o755 })
  for (const [name, text] of Object.entries(release ?? {})) {
    await writeFile(join(folder, name), text)
  }
}
