// What attempts that are over left in the engine: their runner died, or the engine was away when they took things back.
// The version that runs is made whole again first (its routes, its paused containers), then what belongs to nobody goes.
// Nobody else works in the environment meanwhile.

import { basename, join } from 'node:path'
import { startContainer } from '../exec/docker/containers.ts'
import { isNotFound } from '../exec/docker/engine.ts'
import { removeImage } from '../exec/docker/images.ts'
import { listFolder, readLink, removeTree } from '../exec/files.ts'
import type { ObjectRow } from '../journal/objects.ts'
import { isManualPlan } from '../recipes/plan.ts'
import type { Attempt } from './attempt.ts'
import { endContainer } from './docker-end.ts'
import { dockerOf, lastDocker } from './docker-scene.ts'

const isForeign = (attempt: Attempt, { attemptId }: ObjectRow): boolean =>
  attemptId !== attempt.assignment.attemptId

/** The table may lead to containers of a deployment that never succeeded. */
async function settleRoutes(attempt: Attempt, rows: ObjectRow[]): Promise<void> {
  const last = lastDocker(attempt)
  const isHalf = rows.some(({ kind, state }) => kind === 'container' && state === 'making')
  if (!last || !isHalf || last.routes.length === 0) return
  const { environmentId, fence } = attempt.assignment
  await dockerOf(attempt).edge.setRoutes({ environmentId, fence, routes: last.routes })
}

async function startAgain(attempt: Attempt, row: ObjectRow): Promise<void> {
  try {
    await startContainer(dockerOf(attempt).engine, row.name)
    attempt.output.say(`${row.service} of deployment ${row.taskId} was started again.`)
  } catch (error) {
    if (!isNotFound(error)) throw error // removed by hand: the deployment at hand brings a new one
  }
  attempt.ledger.objects.setState(row, 'serving')
}

async function settleRow(attempt: Attempt, row: ObjectRow): Promise<void> {
  const { objects } = attempt.ledger
  if (row.kind === 'container' && (row.state === 'making' || row.state === 'retired')) {
    attempt.output.say(`Removing ${row.name}, which was left over.`)
    await endContainer(attempt, row)
  }
  if (row.kind === 'image' && row.state === 'making') {
    await removeImage(dockerOf(attempt).engine, row.name)
    objects.remove(row)
  }
}

/** Checkouts of attempts that are over. A manual version that still runs is in its own. */
async function settleFiles(attempt: Attempt): Promise<void> {
  const { places, assignment, found } = attempt
  if (isManualPlan(found.last)) return
  const current = basename(readLink(places.current) ?? '')
  for (const name of listFolder(places.releases)) {
    const isOld = /^[0-9]+$/.test(name) && name !== String(assignment.taskId) && name !== current
    if (isOld) await removeTree(join(places.releases, name))
  }
}

export async function settleDocker(attempt: Attempt): Promise<void> {
  const { environmentId } = attempt.assignment
  const rows = attempt.ledger.objects.list({ environmentId })
  const left = rows.filter((row) => isForeign(attempt, row))
  await settleRoutes(attempt, left)
  for (const row of left.filter(({ state }) => state === 'paused')) await startAgain(attempt, row)
  for (const row of left) await settleRow(attempt, row)
  await settleFiles(attempt)
}
