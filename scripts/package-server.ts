// Bundles the control plane: one program that needs Node.js and better-sqlite3 beside it, and starts in half the time.
import { fileURLToPath } from 'node:url'
import { build } from 'rolldown'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Writes berth-server.mjs and its parts. */
export async function bundleServer(folder: string): Promise<void> {
  await build({
    cwd: root,
    platform: 'node',
    treeshake: true,
    logLevel: 'warn',
    input: { 'berth-server': 'control-plane/src/main.ts' },
    external: ['better-sqlite3', 'pg-native'], // a native addon, and one that pg only tries
    output: {
      dir: folder,
      format: 'esm',
      codeSplitting: true,
      entryFileNames: '[name].mjs',
      chunkFileNames: 'parts/[name]-[hash].mjs',
    },
  })
}
