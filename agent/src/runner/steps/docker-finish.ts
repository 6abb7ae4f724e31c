// After the proof: the deployment becomes the running version, and what it replaced goes, once nobody talks to it any
// more. Trouble from here on is a warning; the new version serves.
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { DOCKER_STEPS } from '@berth/shared'
import { countConnections } from '../../exec/connections.ts'
import { inspectContainer } from '../../exec/docker/containers.ts'
import { listFolder, removeLink, removeTree } from '../../exec/files.ts'
import { tidyRepository } from '../../exec/git.ts'
import { endLeftovers } from '../../exec/leftovers.ts'
import { collectEnvironment } from '../../housekeeping/collect.ts'
import type { ObjectRow } from '../../journal/objects.ts'
import type { DockerPlan, RunningContainer } from '../../recipes/plan.ts'
import { isManualPlan } from '../../recipes/plan.ts'
import { type Attempt, need } from '../attempt.ts'
import { endContainer } from '../docker-end.ts'
import { dockerOf, dockerSectionOf, isUntrusted, routeOf } from '../docker-scene.ts'
import { deploymentRef, gitContext } from './checkout.ts'
import { belongingOf } from './destroy.ts'
import { placedOf } from './docker-health.ts'
import { newRoutes } from './docker-route.ts'
import { stopOld, tell, toWireAction } from './finish.ts'
import { keepGrowth } from './room.ts'

function runningContainer(attempt: Attempt, service: string): RunningContainer {
  const placed = placedOf(attempt, service)
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
  }
}

/** The point of no return: this version is the running one, every other container of the environment is to go. */
export function completeDocker(attempt: Attempt): void {
  const { environmentId, taskId, fence, attemptId } = attempt.assignment
  const section = dockerSectionOf(attempt)
  const commit = need(attempt, 'commit').sha
  const services = section.services.map(({ name }) => runningContainer(attempt, name))
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

export function tellDocker(attempt: Attempt): void {
  const { edge, images } = dockerOf(attempt)
  const hasAuth = attempt.secrets.basicAuth !== undefined
  tell(attempt, 'the services', () =>
    attempt.report.services(
      dockerSectionOf(attempt).services.map(({ name, port }) => {
        const route = routeOf(attempt, name)
        return {
          name,
          hosts: route ? [route.host] : [],
          port: port ?? 0,
          image: images.get(name)?.reference ?? '',
          imageDigest: images.get(name)?.digest ?? '',
          basicAuth: hasAuth && (route?.auth ?? false),
          url: route ? edge.urlOf(route.host, route.path) : '',
        }
      }),
    ),
  )
  tell(attempt, 'its size on the disk', () => keepGrowth(attempt))
  const actions = isUntrusted(attempt) ? [] : need(attempt, 'file').actions
  tell(attempt, 'the actions', () => attempt.report.actions(actions.map(toWireAction)))
}

const retiredRows = (attempt: Attempt): ObjectRow[] =>
  attempt.ledger.objects
    .list({ environmentId: attempt.assignment.environmentId, kind: 'container' })
    .filter(({ state }) => state === 'retired')

interface OldUpstream {
  address: string
  port: number
}

async function oldUpstreams(attempt: Attempt): Promise<OldUpstream[]> {
  const found: OldUpstream[] = []
  for (const { name, facts } of retiredRows(attempt)) {
    const address = (await inspectContainer(dockerOf(attempt).engine, name))?.address
    if (address && typeof facts.port === 'number') found.push({ address, port: facts.port })
  }
  return found
}

/** Requests that still run; where the proxy does not count them, connections, of which an idle one counts too. */
async function countBusy(attempt: Attempt, old: OldUpstream[]): Promise<number> {
  const names = old.map(({ address, port }) => `${address}:${port}`)
  const requests = await dockerOf(attempt).edge.countRequests(names)
  if (requests !== undefined) return requests
  return old.reduce((sum, { address, port }) => sum + countConnections(address, port), 0)
}

/** Waits until nobody talks to the old containers: requests that were on their way, and long ones, up to a bound. */
export async function drain(attempt: Attempt): Promise<void> {
  const old = await oldUpstreams(attempt)
  if (old.length === 0) return attempt.output.say('Nothing to wait for.')
  const startedAt = performance.now()
  const { settledAt } = dockerOf(attempt)
  await delay(Math.max(0, settledAt + DOCKER_STEPS.drainMinMs - startedAt))
  let open = await countBusy(attempt, old)
  while (open > 0 && performance.now() - startedAt < DOCKER_STEPS.drainMaxMs) {
    await delay(DOCKER_STEPS.drainPollMs)
    open = await countBusy(attempt, old)
  }
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1)
  attempt.output.say(
    open > 0
      ? `${open} requests to the version before still run after ${seconds} s; they are cut.`
      : `Nobody talks to the version before any more (${seconds} s).`,
  )
}

/** Containers that were replaced; of an environment that was manual until now, its processes. */
export async function stopOldContainers(attempt: Attempt): Promise<void> {
  for (const row of retiredRows(attempt)) {
    const tookMs = await endContainer(attempt, row)
    attempt.output.say(
      `${row.service} of deployment ${row.taskId} stopped in ${Math.round(tookMs)} ms.`,
    )
  }
  await stopOld(attempt)
  if (!isManualPlan(attempt.found.last)) return
  const left = await endLeftovers(await belongingOf(attempt), attempt.limits.killGraceMs)
  if (left.length > 0) throw new Error(`${left.length} processes could not be ended`)
}

/** Checkouts are needed for a build only. */
export async function collectDocker(attempt: Attempt): Promise<void> {
  const { places, ledger, settings, assignment, output } = attempt
  const { environmentId, taskId, attemptId } = assignment
  removeLink(places.current)
  for (const name of listFolder(places.releases)) await removeTree(join(places.releases, name))
  const request = { environmentId, attemptId }
  const { engine } = dockerOf(attempt)
  const { removed, problems } = await collectEnvironment(engine, ledger, settings, request)
  for (const what of removed) output.say(`Removed: ${what}.`)
  for (const problem of problems) output.say(`Warning: ${problem}`)
  const images = ledger.objects.list({ environmentId, kind: 'image' })
  const refs = new Set([...images.map((row) => row.taskId), taskId].map(deploymentRef))
  await tidyRepository(gitContext(attempt), refs)
}
