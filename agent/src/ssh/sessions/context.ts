// The environment of a session: what runs in it, and which values must be masked.
import { type EnvironmentPaths, environmentPaths } from '../../machine/files.ts'
import { Masker } from '../../machine/masking/mask.ts'
import type { LastPlan } from '../../runner/plan/plan.ts'
import { readPlan, readSecrets } from '../../service-logs/known-secrets.ts'
import type { AgentSettings } from '../../settings.ts'

export interface SessionContext {
  environmentId: number
  paths: EnvironmentPaths
  /** Null when it never had a successful deployment here. */
  plan: LastPlan | null
  masker: Masker
}

export function openSessionContext(settings: AgentSettings, environmentId: number): SessionContext {
  const paths = environmentPaths(settings, environmentId)
  const plan = readPlan(settings, environmentId)
  return { environmentId, paths, plan, masker: new Masker(readSecrets(paths, plan)) }
}
