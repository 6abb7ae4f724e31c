// Undoes a docker deployment after its routes: containers (those it had stopped are started again), then images. Finds
// everything by its ledger row, so a second call or another attempt finds what is left.
import { STEPS } from '@berth/shared'
import type { ObjectRow } from '../../journal/objects.ts'
import { inspectOwned, startContainer } from '../../machine/docker/containers.ts'
import { removeImage } from '../../machine/docker/images.ts'
import { isShared } from '../../resources/garbage.ts'
import type { Attempt } from '../attempt.ts'
import { routeOf, routingOf } from '../routing.ts'
import { removeVariables } from '../steps/remove-variables.ts'
import { endContainer } from './container-end.ts'
import { dockerOf, dockerServiceOf } from './docker-context.ts'

const ownRows = (attempt: Attempt, kind: ObjectRow['kind']): ObjectRow[] =>
  attempt.ledger.objects
    .list({ environmentId: attempt.assignment.environmentId, kind })
    .filter(({ attemptId }) => attemptId === attempt.assignment.attemptId)

/** Addresses of the routed services of this deployment. */
export const containerUpstreams = (attempt: Attempt): string[] =>
  routingOf(attempt).routes.flatMap(({ service }) => {
    const { port } = dockerServiceOf(attempt, service)
    const placed = dockerOf(attempt).containers.get(service) ?? []
    return placed.map(({ address }) => `${address}:${port}`)
  })

async function startOld(attempt: Attempt, row: ObjectRow): Promise<void> {
  const { engine } = dockerOf(attempt)
  const seen = await inspectOwned(engine, attempt.settings, row.name)
  if (!seen) throw new Error(`${row.name} is gone`)
  const { attemptId, environmentId } = attempt.assignment
  const isStopped = attempt.ledger.listStopped(environmentId).has(row.service)
  if (!isStopped) await startContainer(engine, seen.id)
  attempt.ledger.objects.setState(row, 'serving', attemptId)
  if (isStopped) return
  attempt.output.say(`${row.service} of deployment ${row.taskId} was started again.`)
}

/**
 * A database that starts for the first time creates its files, and an end in the middle breaks them. If another service
 * failed, a service without an address that nothing precedes stays for the next try.
 */
async function isFirstStart(attempt: Attempt, row: ObjectRow): Promise<boolean> {
  const { engine, unhealthy } = dockerOf(attempt)
  const { ledger, assignment, settings } = attempt
  const isService = typeof row.facts.spec === 'string' // not a release command
  if (!isService || unhealthy.has(row.service) || routeOf(attempt, row.service)) return false
  const others = ledger.objects.list({ environmentId: assignment.environmentId, kind: 'container' })
  const isOlder = others.some(
    ({ service, taskId }) => service === row.service && taskId !== row.taskId,
  )
  if (isOlder) return false
  return (await inspectOwned(engine, settings, row.name))?.state === 'running'
}

function leaveRunning(attempt: Attempt, row: ObjectRow): void {
  dockerOf(attempt).left.add(row.service)
  const facts = { ...row.facts, isFirstStart: true }
  attempt.ledger.objects.put({ ...row, facts, state: 'serving' })
}

/** Tells users what a failed deployment left running; empty: nothing. */
export async function explainLeft(attempt: Attempt): Promise<string> {
  const names = [...dockerOf(attempt).left].join(', ')
  if (names === '') return ''
  return `First start, so left running for the next deployment: ${names}.`
}

/**
 * The old container of a service starts after the new one is gone, since they may share a volume. A failure of one does
 * not stop the others.
 */
export async function takeBackContainers(attempt: Attempt): Promise<void> {
  const docker = dockerOf(attempt)
  docker.isOver = true
  await Promise.allSettled(docker.ahead.values()) // by then every start under way has its row and its container
  const problems: string[] = []
  const note = (error: Error): void => void problems.push(error.message)
  const inState = (state: ObjectRow['state']): ObjectRow[] =>
    ownRows(attempt, 'container').filter((row) => row.state === state)
  const isLedTo = ({ service }: ObjectRow): boolean =>
    routingOf(attempt).hasSwitched && routeOf(attempt, service) !== undefined
  const end = async (row: ObjectRow): Promise<void> => {
    // a long stop timeout is for a version that serves; this container delays the return of the old one
    const ownMs = Number(row.facts.stopTimeoutMs ?? STEPS.stopTimeoutMs)
    const stopTimeoutMs = Math.min(ownMs, STEPS.stopTimeoutMs)
    await endContainer(attempt, { ...row, facts: { ...row.facts, stopTimeoutMs } })
    attempt.output.say(`${row.name} was removed.`)
  }
  for (const row of inState('making')) {
    if (await isFirstStart(attempt, row).catch(() => false)) leaveRunning(attempt, row)
  }
  const going = inState('making').filter((row) => !isLedTo(row))
  await Promise.all(going.map((row) => end(row).catch(note)))
  const stuck = new Set(inState('making').map(({ service }) => service))
  for (const row of inState('paused')) {
    if (!stuck.has(row.service)) await startOld(attempt, row).catch(note)
  }
  // a later recovery finds their rows and removes them, after the routes
  if (inState('making').some(isLedTo)) problems.push('the routes still lead to them')
  if (problems.length > 0) throw new Error(problems.join('; '))
}

export async function takeBackImages(attempt: Attempt): Promise<void> {
  const { engine } = dockerOf(attempt)
  for (const kind of ['image', 'pulled'] as const) {
    for (const row of ownRows(attempt, kind).filter(({ state }) => state === 'making')) {
      if (dockerOf(attempt).left.has(row.service)) {
        attempt.ledger.objects.setState(row, 'serving')
        continue
      }
      const isTheirs = kind === 'pulled' && isShared(attempt.ledger, row)
      const result = isTheirs ? 'in_use' : await removeImage(engine, row.name)
      // another environment uses it, so it keeps the image
      if (result === 'removed' || kind === 'pulled') attempt.ledger.objects.remove(row)
    }
  }
}

/** A container that stays needs its files when it restarts. */
export const takeBackVariables = async (attempt: Attempt): Promise<void> =>
  removeVariables(attempt, dockerOf(attempt).left)
