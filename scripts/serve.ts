// `npm run control-plane`: the control plane of an installation, after what it offers was made where it is missing or stale,
// by content: the dashboard and the agent's package for new servers. In children: none of it stays in memory. Where the
// tree cannot be written, what is there is offered, with a warning.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'

function make(what: string, script: string): void {
  const argv = [join(import.meta.dirname, script), '--if-stale']
  const { status } = spawnSync(process.execPath, argv, { stdio: ['ignore', 'ignore', 'inherit'] })
  if (status !== 0) console.error(`warning: ${what} could not be made; what is there is offered.`)
}

if (process.argv.length === 2) {
  make('the dashboard', 'build-dashboard.ts')
  make("the agent's package", 'package-agent.ts')
}
await import('../control-plane/src/main.ts')
