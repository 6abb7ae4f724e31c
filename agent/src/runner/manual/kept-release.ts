// The releases of earlier deployments that this server still has: which of them a rollback can use as it is.
import { join } from 'node:path'
import { STEPS } from '@berth/shared'
import type { ServiceFile } from '@berth/shared/service-file'
import { insideFolder } from '../../machine/files.ts'
import { type Attempt, need } from '../attempt.ts'
import { isManualPlan, type KeptRelease, releaseIdOf } from '../plan/plan.ts'

/** Newest last; versions deployed before releases were listed count as far as the last plan knows them. */
function knownReleases({ results: { last } }: Attempt): KeptRelease[] {
  if (!isManualPlan(last)) return []
  const own = { taskId: releaseIdOf(last), commit: last.commit }
  const releases = last.releases ?? []
  const known = releases.find(({ taskId }) => taskId === own.taskId)
  return [...releases.filter((release) => release !== known), known ?? own]
}

/**
 * Undefined if the repository's own commands start a service: without them the new version would not run. Then, and
 * without a kept release, the deploy steps run as in any deployment.
 */
export function findKeptRelease(attempt: Attempt, { manual }: ServiceFile): number | undefined {
  const services = manual?.services ?? []
  const isOurs = services.every(({ run, target }) => run !== null || target?.kind === 'root')
  if (services.length === 0 || !isOurs) return undefined
  const { sha } = need(attempt, 'commit')
  const { releases } = attempt.paths
  const isThere = ({ taskId, commit }: KeptRelease): boolean =>
    commit === sha && insideFolder(join(releases, String(taskId)), '.') !== undefined
  return knownReleases(attempt).findLast(isThere)?.taskId
}

/** The list for the plan of this deployment; it holds more than the server keeps, because kept ones vary. */
export function keepRelease(attempt: Attempt, commit: string): KeptRelease[] {
  const taskId = attempt.results.reused ?? attempt.assignment.taskId
  const known = knownReleases(attempt)
  const builtAt =
    attempt.results.builtAt ?? known.find((release) => release.taskId === taskId)?.builtAt
  const own = { taskId, commit, ...(builtAt === undefined ? {} : { builtAt }) }
  const others = known.filter((release) => release.taskId !== taskId)
  return [...others, own].slice(-2 * STEPS.keptReleases)
}
