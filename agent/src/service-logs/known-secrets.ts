// The values of an environment that must not be shown, from every kept version, because old lines may contain old values.
// Writers masked what was secret then; readers mask again what became secret since.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ledger, ledgerFile } from '../journal/ledger.ts'
import { type EnvironmentPaths, environmentPaths, listFolder } from '../machine/files.ts'
import { Masker } from '../machine/masking/mask.ts'
import type { LastPlan } from '../runner/plan/plan.ts'
import { parseShellFile } from '../runner/plan/variable-files.ts'
import type { AgentSettings } from '../settings.ts'

export function readSecrets(paths: EnvironmentPaths, plan: LastPlan | null): Buffer[] {
  const files = listFolder(paths.variables).filter((name) => name.endsWith('.sh'))
  return files.flatMap((name) => {
    let values: Map<string, string>
    try {
      values = parseShellFile(readFileSync(join(paths.variables, name), 'utf8'))
    } catch {
      return [] // removed meanwhile
    }
    const keys = plan?.secretKeys ?? [...values.keys()]
    return keys.map((key) => Buffer.from(values.get(key) ?? '')).filter((value) => value.length > 0)
  })
}

/** What runs now; null when nothing was ever deployed successfully here. */
export function readPlan(settings: AgentSettings, environmentId: number): LastPlan | null {
  if (!existsSync(ledgerFile(settings))) return null
  const ledger = new Ledger(settings)
  try {
    const stored = ledger.findPlan(environmentId)
    return stored ? (JSON.parse(stored.body) as LastPlan) : null
  } finally {
    ledger.close()
  }
}

export const openMasker = (settings: AgentSettings, environmentId: number): Masker =>
  new Masker(
    readSecrets(environmentPaths(settings, environmentId), readPlan(settings, environmentId)),
  )
