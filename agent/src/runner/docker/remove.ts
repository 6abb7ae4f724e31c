// Removes objects from the engine when an environment is removed or reset, or leaves the docker recipe. Every part is
// idempotent, and objects without our label are never touched.

import { FailureCode } from '@berth/shared/wire'
import type { Ledger } from '../../journal/ledger.ts'
import { listOwnedContainers, removeContainer } from '../../machine/docker/containers.ts'
import { listOwnedImages, removeImage } from '../../machine/docker/images.ts'
import { showImage } from '../../machine/docker/names.ts'
import { listOwnedNetworks, removeNetwork } from '../../machine/docker/networks.ts'
import { listOwnedVolumes, removeVolume } from '../../machine/docker/volumes.ts'
import { serverName } from '../../machine/server-settings.ts'
import { isShared, removeFormer } from '../../resources/garbage.ts'
import type { Attempt } from '../attempt.ts'
import { StepFailure } from '../failure.ts'
import { isDockerPlan, type LastPlan } from '../plan/plan.ts'
import { resetRoutes } from '../routing.ts'
import { emptyFolders, endVersion } from '../steps/end-version.ts'
import { endContainer } from './container-end.ts'
import { dockerOf } from './docker-context.ts'

/** Whether the engine may hold objects of the environment. */
export const hasObjects = (ledger: Ledger, environmentId: number, last: LastPlan | null): boolean =>
  isDockerPlan(last) || ledger.objects.list({ environmentId }).length > 0

/** Every container of the environment, in the ledger or not. */
export async function endContainers(attempt: Attempt): Promise<void> {
  const { settings, ledger, assignment, output } = attempt
  const { engine } = dockerOf(attempt)
  const { environmentId } = assignment
  for (const row of ledger.objects.list({ environmentId, kind: 'container' })) {
    const tookMs = await endContainer(attempt, row)
    output.say(`${row.service} of deployment ${row.taskId} stopped in ${Math.round(tookMs)} ms.`)
  }
  for (const { id } of await listOwnedContainers(engine, settings, environmentId)) {
    await removeContainer(engine, id)
  }
}

export async function removeVolumes(attempt: Attempt): Promise<void> {
  const { settings, ledger, assignment } = attempt
  const { engine } = dockerOf(attempt)
  const { environmentId } = assignment
  for (const { name } of await listOwnedVolumes(engine, settings, environmentId)) {
    if ((await removeVolume(engine, name)) === 'in_use') {
      throw new StepFailure(FailureCode.STEP_FAILED, `Volume ${name} is still in use.`)
    }
  }
  for (const row of ledger.objects.list({ environmentId, kind: 'volume' }))
    ledger.objects.remove(row)
}

async function removeImages(attempt: Attempt): Promise<void> {
  const { settings, ledger, assignment } = attempt
  const { engine } = dockerOf(attempt)
  const { environmentId } = assignment
  const rows = ledger.objects.list({ environmentId })
  const names = rows.filter(({ kind }) => kind === 'image').map(({ name }) => name)
  for (const name of names) await removeImage(engine, name)
  for (const { id, names: more } of await listOwnedImages(engine, settings, environmentId)) {
    for (const name of more.length > 0 ? more : [id]) await removeImage(engine, name)
  }
  for (const row of rows.filter(({ kind }) => kind === 'pulled')) {
    // another environment uses it too, so it stays
    if (!isShared(ledger, row)) await removeImage(engine, row.name)
    await removeFormer(engine, ledger, row, undefined)
  }
}

interface Left {
  kind: string
  name: string
}

/** Everything of the environment that the engine still holds. */
async function listLeft(attempt: Attempt): Promise<Left[]> {
  const { settings, assignment } = attempt
  const { engine } = dockerOf(attempt)
  const { environmentId } = assignment
  const named = (kind: string, found: { name: string }[]): Left[] =>
    found.map(({ name }) => ({ kind, name }))
  const images = await listOwnedImages(engine, settings, environmentId)
  return [
    ...named('container', await listOwnedContainers(engine, settings, environmentId)),
    ...named('network', await listOwnedNetworks(engine, settings, environmentId)),
    ...named('volume', await listOwnedVolumes(engine, settings, environmentId)),
    ...images.map(({ id, names }) => ({ kind: 'image', name: showImage(names[0] ?? id) })),
  ]
}

/** Ends by counting our objects, which must give 0. */
export async function removeObjects(attempt: Attempt): Promise<void> {
  const { settings, assignment, output } = attempt
  const { engine } = dockerOf(attempt)
  const { environmentId } = assignment
  await endContainers(attempt)
  for (const { name } of await listOwnedNetworks(engine, settings, environmentId)) {
    await removeNetwork(engine, settings, name)
  }
  await removeVolumes(attempt)
  await removeImages(attempt)
  const left = await listLeft(attempt)
  if (left.length > 0) {
    const names = left.slice(0, 5).map(({ kind, name }) => `${kind} ${name}`)
    throw new StepFailure(
      FailureCode.STEP_FAILED,
      `${left.length} objects could not be removed from the engine of server ${serverName(attempt.settings)}: ${names.join(', ')}.`,
    )
  }
  output.say('Objects of it in the engine: 0.')
}

/** Removes routes, containers and volumes; keeps images, variables and settings. No version is left to fall back to. */
export async function resetDocker(attempt: Attempt): Promise<void> {
  const { output, results } = attempt
  output.say('Removing the running version and its data: from here on there is none to return to.')
  await resetRoutes(attempt)
  await endVersion(attempt)
  await endContainers(attempt)
  await removeVolumes(attempt)
  await emptyFolders(attempt)
  results.last = null
  output.say('The environment is empty.')
}
