// Stops the processes that a manual deployment started, and restarts those that were paused for it.
import { instructionsOf, startService, stopService } from '../../supervise/control.ts'
import type { Attempt } from '../attempt.ts'
import { routeOf, routingOf } from '../routing.ts'

/** If the routes could not be restored, their targets stay; the recovery of the environment ends them later. */
export function requireUnrouted(attempt: Attempt, service: string): void {
  const isLedTo = routingOf(attempt).hasSwitched && routeOf(attempt, service) !== undefined
  if (isLedTo) throw new Error('the routes still lead there')
}

export async function takeBackProcess(attempt: Attempt, service: string): Promise<void> {
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
  const isStopped = ledger.listStopped(assignment.environmentId).has(service)
  if (!isStopped) await startService(settings, instructionsOf(old), { isVerified: true })
  ledger.setProcessState(old, 'serving', assignment.attemptId)
  if (isStopped) return
  output.say(`${service} of deployment ${old.taskId} was started again.`)
}
