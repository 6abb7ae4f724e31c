// `npm run control-plane`: the control plane of an installation. It first rebuilds the dashboard, the agent's package and
// the client if they are missing or stale by content, in child processes so that none of it stays in memory. If the tree
// is read-only, it offers what exists, with a warning. It reads a settings file only if BERTH_CONFIG_FILE names one: the
// one in /etc belongs to an installed package, which may run beside this checkout.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'

function make(what: string, script: string): void {
  const argv = [join(import.meta.dirname, script), '--if-stale']
  const { status } = spawnSync(process.execPath, argv, { stdio: ['ignore', 'ignore', 'inherit'] })
  if (status !== 0) console.error(`warning: ${what} could not be made; what is there is offered.`)
}

if (process.argv.length === 2) {
  make('the dashboard', 'build-dashboard.ts')
  make("the agent's package or the client", 'bundle.ts')
}
process.env.BERTH_CONFIG_FILE ??= ''
await import('../control-plane/src/main.ts')
