// Takes back what a deployment made when it failed, was stopped or ran out of time: steps backwards, the things of
// each step backwards, within the time the assignment gives for it. What cannot be taken back is told, and the rest
// is still tried. Commands of the repository that ran are not undone; the message says so.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { never } from '@berth/shared'
import { Recipe } from '@berth/shared/wire'
import { listFolder, removeTree } from '../machine/files.ts'
import { instructionsOf, startService, stopService } from '../supervise/control.ts'
import { restoreCurrent } from './activation.ts'
import type { Attempt } from './attempt.ts'
import { containerUpstreams, takeBackContainers, takeBackImages } from './docker/undo.ts'
import { processUpstreams } from './manual/routes.ts'
import { staticFolder } from './manual/static.ts'
import type { Made, PlacedStep } from './plan/plan.ts'
import { routeAgain, routeOf, routingOf, takeBackPages, takeBackRoutes } from './routing.ts'
import { releasePorts } from './steps/configure.ts'

const isDocker = ({ spec }: Attempt): boolean => spec.recipe === Recipe.DOCKER

/** Where the routes could not be taken back, what they lead to stays; whoever settles the environment later ends it. */
function requireUnrouted(attempt: Attempt, service: string): void {
  const isLedTo = routingOf(attempt).hasSwitched && routeOf(attempt, service) !== undefined
  if (isLedTo) throw new Error('the routes still lead there')
}

async function takeBackProcess(attempt: Attempt, service: string): Promise<void> {
  const { ledger, settings, output, assignment } = attempt
  const rows = ledger.listProcesses(assignment.environmentId)
  const own = rows.find(
    (row) =>
      row.service === service && row.taskId === assignment.taskId && row.state === 'starting',
  )
  if (own) {
    requireUnrouted(attempt, service)
    await stopService(settings, instructionsOf(own))
    ledger.removeProcess(own)
    output.say(`${service} of this deployment was stopped.`)
  }
  const old = rows.find(
    (row) =>
      row.service === service && row.state === 'paused' && row.attemptId === assignment.attemptId,
  )
  if (!old) return
  await startService(settings, instructionsOf(old), { isVerified: true })
  ledger.setProcessState(old, 'serving', assignment.attemptId)
  output.say(`${service} of deployment ${old.taskId} was started again.`)
}

/** With the docker recipe there are two files a service. */
function removeVariables({ paths, assignment }: Attempt): void {
  const own = new RegExp(`^${assignment.taskId}[.-]`)
  for (const name of listFolder(paths.variables)) {
    if (own.test(name)) rmSync(join(paths.variables, name), { force: true })
  }
}

async function takeBack(attempt: Attempt, made: Made): Promise<void> {
  switch (made.kind) {
    case 'process':
      return takeBackProcess(attempt, made.service)
    case 'current':
      return restoreCurrent(attempt)
    case 'variables':
      return removeVariables(attempt)
    case 'ports':
      return releasePorts(attempt)
    case 'routes':
      return takeBackRoutes(
        attempt,
        isDocker(attempt) ? containerUpstreams(attempt) : processUpstreams(attempt),
      )
    case 'containers':
      return takeBackContainers(attempt)
    case 'images':
      return takeBackImages(attempt)
    case 'pages':
      return takeBackPages(attempt)
    case 'unrouted':
      return routeAgain(attempt)
    case 'static':
      requireUnrouted(attempt, made.service)
      return removeTree(staticFolder(attempt, made.service))
    case 'release':
      await removeTree(attempt.paths.checkout) // where it was interrupted
      return removeTree(attempt.releaseDir)
    default:
      return never(made)
  }
}

/** `begun` are the steps that were started, in their order. */
export async function undo(attempt: Attempt, begun: PlacedStep[]): Promise<void> {
  const all = begun.flatMap(({ undo: made }) => made).reverse()
  const known = new Set<string>()
  // several steps may have made the same kind of thing: it is taken back once, at its first turn
  const list = all.filter((made) => {
    const key = JSON.stringify(made)
    const isNew = !known.has(key)
    known.add(key)
    return isNew
  })
  const bound = delay(attempt.limits.cleanupMs, 'late', { ref: false })
  for (const made of list) {
    const what = 'service' in made ? made.service : made.kind
    try {
      const done = await Promise.race([takeBack(attempt, made).then(() => 'done'), bound])
      if (done === 'late') {
        attempt.output.say(`Warning: clean-up took too long; ${what} and what came before it stay.`)
        return
      }
    } catch (error) {
      attempt.output.say(`Warning: ${what} could not be taken back: ${(error as Error).message}`)
    }
  }
}
