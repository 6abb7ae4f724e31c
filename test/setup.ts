// Once per run: the real components that tests share. They are private instances; nothing of the machine is touched.
import { execFileSync } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildDashboardIfStale } from '../scripts/build-dashboard.ts'
import { type DockerEngine, startDockerEngine } from '../scripts/docker-engine.ts'
import { makeBusyboxImage } from './fixtures/docker/images.ts'
import { locate, missing } from './fixtures/platform/components.ts'
import { startPostgres } from './fixtures/platform/postgres.ts'
import { openScratch } from './fixtures/platform/scratch.ts'
import { makeTemplates } from './fixtures/platform/templates.ts'
import { sweepRules } from './fixtures/server/packet-rules.ts'

/** Not every machine can start an engine (namespaces, overlay mounts); its tests are then reported as skipped. */
async function startDocker(): Promise<DockerEngine | undefined> {
  const dockerd = missing('docker') ? undefined : locate('docker')
  if (!dockerd) return undefined
  try {
    const engine = await startDockerEngine(dockerd)
    await makeBusyboxImage(engine.socket)
    return engine
  } catch (error) {
    console.warn(`skipped: no Docker engine starts here: ${(error as Error).message}`)
    return undefined
  }
}

/** As it is shipped: tests call it a thousand times, and from source each call reads a hundred files. */
function bundleClient(): string {
  const folder = mkdtempSync(join(tmpdir(), 'berth-client-'))
  const script = fileURLToPath(new URL('../scripts/bundle.ts', import.meta.url))
  const env = { ...process.env, BERTH_DIST: folder }
  execFileSync(process.execPath, [script, 'client'], {
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  return join(folder, 'berth.cjs')
}

export default async function setUp(): Promise<() => Promise<void>> {
  await buildDashboardIfStale()
  await sweepRules()
  const docker = await startDocker()
  if (docker) {
    process.env.BERTH_TEST_DOCKER = docker.socket
    process.env.BERTH_TEST_DOCKER_POOL = docker.pool
  }
  // most tests only wait for the proof of running to pass; tests about it set its full length
  process.env.BERTH_TEST_PROOF_MS = '1000'
  process.env.BERTH_CONFIG_FILE = '' // no test reads the settings of an installation on this machine
  const scratch = openScratch()
  await import('./fixtures/server/programs.ts') // fetches Caddy; builds agent and control plane, into the scratch folder
  process.env.BERTH_TEST_CLIENT = bundleClient()
  const path = missing('postgres') ? undefined : locate('postgres')
  const postgres = path ? await startPostgres(path) : undefined
  if (postgres) process.env.BERTH_TEST_POSTGRES = postgres.folder
  await makeTemplates()
  return async () => {
    await docker?.stop()
    await postgres?.stop()
    scratch.remove()
    await sweepRules()
  }
}
