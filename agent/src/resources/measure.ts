// Measures hourly how much disk each environment takes: its folders, and what carries its label in the engine. Files
// count with their apparent size, so that sparse files cannot bypass a limit; the engine counts the same way. Used in
// messages about disks and on the server's page; only a deployment that would be refused waits for it.
import { existsSync } from 'node:fs'
import type { Ledger } from '../journal/ledger.ts'
import { MAINTENANCE } from '../limits/maintenance.ts'
import type { Engine } from '../machine/docker/engine.ts'
import { measureEngine } from '../machine/docker/engine-info.ts'
import { allPaths } from '../machine/files.ts'
import { runProgram } from '../machine/process/programs.ts'
import type { AgentSettings } from '../settings.ts'

async function measureFolders(settings: AgentSettings, environmentId: number): Promise<number> {
  const folders = allPaths(settings, environmentId).filter((folder) => existsSync(folder))
  if (folders.length === 0) return 0
  const argv = ['du', '-sx', '--apparent-size', '-B1', '--', ...folders]
  const { stdout } = await runProgram(argv, { timeoutMs: MAINTENANCE.measureMs })
  const lines = stdout.toString('utf8').split('\n')
  const sizes = lines.map((line) => Number(/^([0-9]+)\t/.exec(line)?.[1] ?? 0))
  return sizes.reduce((a, b) => a + b, 0)
}

/** Measures all environments, or one. Without an engine, only the folders. */
export async function measureEnvironments(
  engine: Engine,
  ledger: Ledger,
  settings: AgentSettings,
  only?: number,
): Promise<void> {
  const inEngine = await measureEngine(engine, settings).catch(() => undefined)
  for (const { environmentId } of ledger.usage.list()) {
    if (only !== undefined && environmentId !== only) continue
    const folders = await measureFolders(settings, environmentId)
    ledger.usage.setBytes(environmentId, folders + (inEngine?.environments.get(environmentId) ?? 0))
  }
}
