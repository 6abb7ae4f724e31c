// The environment of a session: what runs in it, and which values must be masked.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ledger } from '../../journal/ledger.ts'
import { type EnvironmentPaths, environmentPaths, listFolder } from '../../machine/files.ts'
import { Masker } from '../../machine/masking/mask.ts'
import type { LastPlan } from '../../runner/plan/plan.ts'
import { parseShellFile } from '../../runner/plan/variable-files.ts'
import type { AgentSettings } from '../../settings.ts'

export interface SessionContext {
  environmentId: number
  paths: EnvironmentPaths
  /** Null when it never had a successful deployment here. */
  plan: LastPlan | null
  masker: Masker
}

/** Values of every kept version, because old log lines may contain old values. */
function readSecrets(paths: EnvironmentPaths, plan: LastPlan | null): Buffer[] {
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

/** What runs now; a deployment may have replaced what ran when the session began. */
export function readPlan(settings: AgentSettings, environmentId: number): LastPlan | null {
  const ledger = new Ledger(settings)
  try {
    const stored = ledger.findPlan(environmentId)
    return stored ? (JSON.parse(stored.body) as LastPlan) : null
  } finally {
    ledger.close()
  }
}

export function openSessionContext(settings: AgentSettings, environmentId: number): SessionContext {
  const paths = environmentPaths(settings, environmentId)
  const plan = readPlan(settings, environmentId)
  return { environmentId, paths, plan, masker: new Masker(readSecrets(paths, plan)) }
}
