// Bundles what ships: the dashboard's files, the agent (package-agent.ts) and the client (package-client.ts). Builds are
// reproducible from a commit. With `client` as the only argument it bundles the client alone; with `--if-stale` it makes
// what a control plane offers to servers and laptops, as far as sources changed (`npm start`, `npm run control-plane`).
import { cp, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { buildDashboardIfStale, dashboardDist } from './build-dashboard.ts'
import { packageAgent, packageAgentIfStale } from './package-agent.ts'
import { bundleClient, bundleClientIfStale } from './package-client.ts'
import { dist } from './packaging.ts'

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
if (process.argv[2] === '--if-stale') {
  await bundleClientIfStale()
  await packageAgentIfStale()
} else {
  await bundleClient()
  if (process.argv[2] !== 'client') {
    await bundleDashboard()
    await packageAgent()
  }
}
