// After verification: the deployment becomes the running version, and what it replaced is removed once no request uses
// it. Problems from here on are warnings, because the new version serves.
import { join } from 'node:path'
import { STEPS } from '@berth/shared'
import type { ObjectRow } from '../../journal/objects.ts'
import { inspectContainer } from '../../machine/docker/containers.ts'
import { listFolder, removeLink, removeTree } from '../../machine/files.ts'
import { tidyRepository } from '../../machine/git/git.ts'
import { collectEnvironment } from '../../resources/garbage.ts'
import { type Attempt, need } from '../attempt.ts'
import type { DockerPlan, RunningContainer } from '../plan/plan.ts'
import { type Retired, reportedAddress } from '../routing.ts'
import { keepGrowth } from '../steps/disk-space.ts'
import { endWithin } from '../steps/drain.ts'
import { deploymentRef, gitContext } from '../steps/fetch.ts'
import { reportOrWarn, toWireAction } from '../steps/success.ts'
import { endContainer } from './container-end.ts'
import { dockerOf, dockerSectionOf, isUntrusted, type Placed } from './docker-context.ts'
import { placedOf } from './health.ts'
import { newRoutes } from './routes.ts'

function runningContainer(attempt: Attempt, service: string, placed: Placed): RunningContainer {
  const image = dockerOf(attempt).images.get(service)
  return {
    service,
    taskId: placed.taskId,
    containerId: placed.id,
    container: placed.name,
    imageId: placed.imageId,
    image: image?.reference ?? '',
    digest: image?.digest ?? '',
    spec: placed.spec,
    replica: placed.replica,
  }
}

/**
 * The point of no return: this becomes the running version, and every other container of the environment is retired.
 */
export function completeDocker(attempt: Attempt): void {
  const { environmentId, taskId, fence, attemptId } = attempt.assignment
  const section = dockerSectionOf(attempt)
  const commit = need(attempt, 'commit').sha
  const services = section.services.flatMap(({ name }) =>
    placedOf(attempt, name).map((placed) => runningContainer(attempt, name, placed)),
  )
  const plan: DockerPlan = {
    format: 2,
    taskId,
    commit,
    section,
    actions: isUntrusted(attempt) ? [] : need(attempt, 'file').actions,
    services,
    routes: newRoutes(attempt),
    secretKeys: need(attempt, 'variables').secretKeys,
  }
  attempt.ledger.saveSuccess(
    { environmentId, taskId, fence, commit, body: JSON.stringify(plan) },
    services.map(({ container }) => container),
    attemptId,
  )
}

export function reportDocker(attempt: Attempt): void {
  const { images } = dockerOf(attempt)
  reportOrWarn(attempt, 'the services', () =>
    attempt.report.services(
      dockerSectionOf(attempt).services.map((service) => ({
        ...reportedAddress(attempt, service, service.port),
        image: images.get(service.name)?.reference ?? '',
        imageDigest: images.get(service.name)?.digest ?? '',
      })),
    ),
  )
  reportOrWarn(attempt, 'its size on the disk', () => keepGrowth(attempt))
  const actions = isUntrusted(attempt) ? [] : need(attempt, 'file').actions
  reportOrWarn(attempt, 'the actions', () => attempt.report.actions(actions.map(toWireAction)))
}

/** Those that an earlier deployment left to the daemon are not ours. */
const retiredRows = ({ ledger, assignment }: Attempt): ObjectRow[] =>
  ledger.objects
    .list({ environmentId: assignment.environmentId, kind: 'container' })
    .filter((row) => row.state === 'retired' && !ledger.isDraining(row))

/** Where the containers answer that are about to be removed. */
export async function retiredContainers(attempt: Attempt): Promise<Retired[]> {
  const found: Retired[] = []
  for (const { name, service, taskId, facts } of retiredRows(attempt)) {
    const address = (await inspectContainer(dockerOf(attempt).engine, name))?.address
    const { port } = facts
    const drainMs = Number(facts.drainMs ?? STEPS.drainMs)
    if (address && typeof port === 'number') found.push({ address, port, service, taskId, drainMs })
  }
  return found
}

/** Stops the containers that were replaced, one after the other. */
export async function stopOldContainers(attempt: Attempt): Promise<void> {
  for (const row of retiredRows(attempt)) {
    const tookMs = await endWithin(attempt, row, () => endContainer(attempt, row))
    const what = `${row.service} of deployment ${row.taskId}`
    attempt.output.say(
      tookMs === undefined
        ? `${what} takes long to stop; it goes on after this deployment.`
        : `${what} stopped in ${Math.round(tookMs)} ms.`,
    )
  }
}

/** Only builds need checkouts. */
export async function collectDocker(attempt: Attempt): Promise<void> {
  const { paths, ledger, settings, assignment, output } = attempt
  const { environmentId, taskId, attemptId } = assignment
  removeLink(paths.current)
  for (const name of listFolder(paths.releases)) await removeTree(join(paths.releases, name))
  await removeTree(paths.statics)
  const request = { environmentId, attemptId }
  const { engine } = dockerOf(attempt)
  const { removed, problems } = await collectEnvironment(engine, ledger, settings, request)
  for (const what of removed) output.say(`Removed: ${what}.`)
  for (const problem of problems) output.say(`Warning: ${problem}`)
  const images = ledger.objects.list({ environmentId, kind: 'image' })
  const refs = new Set([...images.map((row) => row.taskId), taskId].map(deploymentRef))
  await tidyRepository(gitContext(attempt), refs)
}
