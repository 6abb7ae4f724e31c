// Bundles what ships. The client is one file that needs nothing but Node.js; commands stay lazy
// inside it, because a start-up that loads everything is felt at every call.
import { chmod } from 'node:fs/promises'
import { build } from 'rolldown'

await build({
  platform: 'node',
  treeshake: true,
  input: 'cli/src/main.ts',
  output: { file: 'dist/berth.mjs', format: 'esm', minify: true, codeSplitting: false },
})
await chmod('dist/berth.mjs', 0o755)
