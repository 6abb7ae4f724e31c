// From `activate` to the end: moves `current`, verifies that the new version of each service answers, makes the
// deployment the running version and removes what it replaced. After verification nothing fails: problems with the old
// version are warnings.

import { basename, join } from 'node:path'
import { STEPS } from '@berth/shared'
import type { ManualService } from '@berth/shared/service-file'
import { FailureCode } from '@berth/shared/wire'
import { PROCESSES } from '../../limits/machine.ts'
import { listFolder, readLink, removeTree } from '../../machine/files.ts'
import { tidyRepository } from '../../machine/git/git.ts'
import { findListeners, findSocketListeners, holdsListener } from '../../machine/process/ports.ts'
import { collectVariables } from '../../resources/garbage.ts'
import { proofMs } from '../../settings.ts'
import { instructionsOf, listServiceProcesses, stopService } from '../../supervise/control.ts'
import { markVerified, serviceDir } from '../../supervise/instructions.ts'
import { moveCurrent } from '../activation.ts'
import type { Attempt } from '../attempt.ts'
import { need } from '../attempt.ts'
import { StepFailure } from '../failure.ts'
import type { ManualPlan } from '../plan/plan.ts'
import { reportedAddress } from '../routing.ts'
import { stepBounds } from '../steps/command.ts'
import { keepGrowth } from '../steps/disk-space.ts'
import { deploymentRef, gitContext } from '../steps/fetch.ts'
import { unproven } from '../steps/route.ts'
import { reportOrWarn, toWireAction } from '../steps/success.ts'
import { sectionOf } from './configure.ts'
import { keepRelease } from './kept-release.ts'
import { manualRoutes, verifyManualRoute } from './routes.ts'
import { awaitHealthy, requireAlive, serviceOf, targetOf } from './service-processes.ts'
import { collectStatics } from './static.ts'

export async function activate(attempt: Attempt): Promise<void> {
  moveCurrent(attempt)
}

/**
 * The listening socket must belong to a process of this deployment. The kernel's tables are read in parts while they
 * change, so a single read may miss a socket.
 */
async function requireHeld(attempt: Attempt, service: ManualService): Promise<void> {
  const target = targetOf(attempt, service)
  if (!target) return
  const row = ownRow(attempt, service.name)
  for (let look = 1; look <= STEPS.heldLooks; look += 1) {
    const members = listServiceProcesses(attempt.settings, instructionsOf(row))
    const listeners =
      'port' in target ? findListeners(target.port) : findSocketListeners(target.socket)
    if (holdsListener(members, listeners)) return
    await attempt.interruption.wait(PROCESSES.endPollMs)
  }
  const where = 'port' in target ? `port ${target.port}` : target.socket
  throw unproven(`${service.name} runs, but ${where} is not held by the version that was deployed.`)
}

function ownRow(attempt: Attempt, service: string) {
  const { environmentId, taskId } = attempt.assignment
  const rows = attempt.ledger.listProcesses(environmentId)
  const row = rows.find((found) => found.service === service && found.taskId === taskId)
  if (!row) throw new Error(`no process of ${service} in the ledger`)
  return row
}

/** Services are verified one by one, but share one observation period in which none may restart. */
async function watchAwhile(attempt: Attempt, name: string): Promise<void> {
  attempt.results.verifySince ??= performance.now()
  const left = attempt.results.verifySince + proofMs(attempt.settings) - performance.now()
  requireAlive(attempt, name)
  if (left > 0) await attempt.interruption.wait(left)
}

async function verifyProcess(attempt: Attempt, service: ManualService): Promise<void> {
  const { name } = service
  const before = requireAlive(attempt, name)
  await watchAwhile(attempt, name)
  const after = requireAlive(attempt, name)
  if (after.pid !== before.pid || after.taskId !== attempt.assignment.taskId) {
    throw unproven(`${name} was started again while it was watched.`)
  }
  await requireHeld(attempt, service)
  const isAlive = (): void => void requireAlive(attempt, name)
  await awaitHealthy(attempt, service, isAlive, { startPeriodMs: 0 })
}

/** Its owner keeps it running, so Berth can only probe it. */
async function verifyOther(attempt: Attempt, service: ManualService): Promise<void> {
  await awaitHealthy(attempt, service, () => undefined, { startPeriodMs: 0 })
}

export async function verify(attempt: Attempt, name: string): Promise<void> {
  const service = serviceOf(attempt, name)
  try {
    await (service.run ? verifyProcess(attempt, service) : verifyOther(attempt, service))
    await verifyManualRoute(attempt, service)
  } catch (error) {
    if (error instanceof StepFailure && error.code === FailureCode.HEALTH_CHECK_FAILED) {
      throw unproven(error.message)
    }
    throw error
  }
  attempt.output.say(`${name} is verified.`)
}

/** The point of no return: this is the running version, and its processes are restarted when they exit. */
export function completeDeployment(attempt: Attempt): void {
  const { environmentId, taskId, fence } = attempt.assignment
  const section = sectionOf(attempt)
  const file = need(attempt, 'file')
  const commit = need(attempt, 'commit').sha
  const ports = need(attempt, 'ports')
  const { secretKeys, strong } = need(attempt, 'variables')
  for (const { name, run } of section.services) {
    if (run) markVerified(serviceDir(attempt.settings, { environmentId, service: name, taskId }))
  }
  const plan: ManualPlan = {
    format: 1,
    taskId,
    commit,
    section,
    actions: file.actions,
    ...(attempt.results.reused === undefined ? {} : { release: attempt.results.reused }),
    releases: keepRelease(attempt, commit),
    ...(attempt.results.toolPaths ? { toolPaths: attempt.results.toolPaths } : {}),
    ports: Object.fromEntries(ports),
    routes: manualRoutes(attempt),
    secretKeys,
    strongKeys: [...strong],
    bounds: stepBounds(attempt),
  }
  attempt.ledger.saveSuccess({ environmentId, taskId, fence, commit, body: JSON.stringify(plan) })
}

export function reportDeployment(attempt: Attempt): void {
  const ports = need(attempt, 'ports')
  reportOrWarn(attempt, 'the services', () =>
    attempt.report.services(
      sectionOf(attempt).services.map((service) =>
        reportedAddress(attempt, service, ports.get(service.name)),
      ),
    ),
  )
  reportOrWarn(attempt, 'its size on the disk', () => keepGrowth(attempt))
  const { actions } = need(attempt, 'file')
  reportOrWarn(attempt, 'the actions', () => attempt.report.actions(actions.map(toWireAction)))
}

export async function stopOld(attempt: Attempt): Promise<void> {
  const rows = attempt.ledger.listProcesses(attempt.assignment.environmentId)
  const { ledger } = attempt
  for (const row of rows.filter((one) => one.state === 'retired' && !ledger.isDraining(one))) {
    const tookMs = await stopService(attempt.settings, instructionsOf(row))
    ledger.removeProcess(row)
    attempt.output.say(
      `${row.service} of deployment ${row.taskId} stopped in ${Math.round(tookMs)} ms.`,
    )
  }
}

/** Removes old releases and variable files, except those in use by a running process. */
export async function collect(attempt: Attempt): Promise<void> {
  const { paths, ledger, assignment } = attempt
  const inUse = ledger.listProcesses(assignment.environmentId).map(({ taskId }) => taskId)
  const current = Number(basename(readLink(paths.current) ?? ''))
  const releases = listFolder(paths.releases).filter((name) => /^[0-9]+$/.test(name))
  const newest = releases.map(Number).sort((a, b) => b - a)
  const kept = new Set([...newest.slice(0, STEPS.keptReleases), ...inUse, current])
  for (const taskId of newest.filter((id) => !kept.has(id))) {
    await removeTree(join(paths.releases, String(taskId)))
    attempt.output.say(`Release ${taskId} was removed.`)
  }
  collectVariables(attempt.settings, ledger, assignment.environmentId)
  await collectStatics(attempt)
  await tidyRepository(gitContext(attempt), new Set([...kept].map(deploymentRef)))
}
