// Turns agents' reports into rows: one transaction per batch, each event exactly once, acknowledged after the commit.
// Events of unknown attempts, old fences and finished attempts are stored as history and change nothing else.
import { failureWord, isLifecycle, SERVICE_FILE, shownLine, shownText, TASKS } from '@berth/shared'
import {
  type AttemptChanged,
  AttemptState,
  Desired,
  type Event,
  EventSchema,
  type ServicesDeployed,
} from '@berth/shared/wire'
import { toBinary } from '@bufbuild/protobuf'
import { timestampMs } from '@bufbuild/protobuf/wkt'
import type { Context } from '../../context.ts'
import { whenHappened } from '../../domain/deployments/agent-clock.ts'
import {
  type AttemptStateValue,
  attemptEvent,
  isAttemptState,
  mayRepeat,
  moveAttempt,
  taskStatusFor,
} from '../../domain/deployments/attempt.ts'
import { describeFailure } from '../../domain/deployments/failure.ts'
import { shownImage, shownUrl } from '../../domain/environments/environment.ts'
import { insertAgentEvents } from '../../store/core/events.ts'
import { saveActions } from '../../store/deployments/actions.ts'
import {
  type Attempt,
  findAttempt,
  listSteps,
  raiseAttempt,
  updateAttempt,
} from '../../store/deployments/attempts.ts'
import {
  findOpenTask,
  findTask,
  lockTask,
  moveTask,
  type Task,
  updateTask,
} from '../../store/deployments/tasks.ts'
import {
  findEnvironment,
  lockEnvironment,
  updateDeployed,
  updateEnvironment,
} from '../../store/environments/environments.ts'
import { type Agent, findAgent, updateUnderEpoch } from '../../store/servers/agents.ts'
import { auditAgent, type Subject } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { agentTopic, change, emitTask } from '../core/transaction.ts'
import { recordBackup, recordRemoved } from '../environments/backups.ts'
import { releaseHosts } from '../environments/hostname-claims.ts'
import { destroyFormerCopy, endRemovalTask } from '../environments/removal.ts'
import { recordArtifacts } from '../files/artifacts.ts'
import { applyAgentUpdated } from '../servers/rollouts.ts'
import { applySshSession } from '../ssh/sessions.ts'
import { schedulesOf, toSyncedAction } from './actions.ts'
import { recordLifecycle } from './lifecycle.ts'
import { applyPlan, applyStep, closeOpenSteps } from './report-steps.ts'
import { syncSchedules } from './schedules.ts'

type Applied =
  /** `unknown`: ended attempts without a row. */
  | { kind: 'applied'; ackedSeq: number; finished: string[]; unknown: string[] }
  | { kind: 'superseded' }
  | { kind: 'hole'; expected: number; got: number }
  | { kind: 'foreign'; attemptId: string }

/** Rolls the transaction back: a batch is applied completely or not at all. */
class Refused extends Error {
  readonly applied: Exclude<Applied, { kind: 'applied' }>
  constructor(applied: Exclude<Applied, { kind: 'applied' }>) {
    super(`events refused: ${applied.kind}`)
    this.applied = applied
  }
}

export interface SessionRef {
  agentId: string
  epoch: number
  /** How far the server's clock is behind ours; undefined if unknown. */
  clockOffsetMs?: number | undefined
}

export async function applyEvents(
  ctx: Context,
  session: SessionRef,
  events: readonly Event[],
): Promise<Applied> {
  try {
    return await change(ctx, (c) => applyBatch(ctx, c, session, events))
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    const { applied } = error
    if (applied.kind === 'foreign') {
      const subject: Subject = ['attempt', applied.attemptId]
      await change(ctx, (c) => auditAgent(c, session.agentId, 'agent', 'attempt.foreign', subject))
    }
    return applied
  }
}

async function applyBatch(
  ctx: Context,
  c: Change,
  session: SessionRef,
  events: readonly Event[],
): Promise<Applied> {
  // write first: this locks the row, so that no newer session begins before the commit
  const { agentId, epoch } = session
  const mine = await updateUnderEpoch(c.db, agentId, epoch, { lastSeenAt: c.now })
  const agent = mine ? await findAgent(c.db, agentId) : undefined
  if (!agent || agent.journalId === null) return { kind: 'superseded' }
  let acked = agent.ackedEventSeq
  const finished: string[] = []
  const unknown: string[] = []
  const history: Parameters<typeof insertAgentEvents>[1] = []
  for (const event of events) {
    const seq = Number(event.seq)
    if (seq <= acked) continue
    if (seq !== acked + 1) throw new Refused({ kind: 'hole', expected: acked + 1, got: seq })
    acked = seq
    history.push({
      agentId: agent.id,
      journalId: agent.journalId,
      seq,
      attemptId: event.attemptId,
      kind: event.body.case ?? 'unknown',
      body: Buffer.from(toBinary(EventSchema, event)).toString('base64'),
      receivedAt: c.now,
    })
    const ofNoAttempt = event.attemptId === ''
    if (ofNoAttempt && event.body.case === 'sshSession') {
      await applySshSession(c, agent, event.body.value)
      continue
    }
    if (ofNoAttempt && event.body.case === 'updated') {
      await applyAgentUpdated(c, agent, event.body.value)
      continue
    }
    const end = await applyEvent(ctx, c, agent, event, session.clockOffsetMs)
    if (end === 'finished') finished.push(event.attemptId)
    if (end === 'unknown') unknown.push(event.attemptId)
  }
  await insertAgentEvents(c.db, history)
  await updateUnderEpoch(c.db, agent.id, epoch, { ackedEventSeq: acked })
  return { kind: 'applied', ackedSeq: acked, finished, unknown }
}

const DEPLOYED: ReadonlySet<string> = new Set(['commit', 'serviceFile', 'services', 'actions'])

/** How this event ended the attempt; undefined if it did not. */
async function applyEvent(
  ctx: Context,
  c: Change,
  agent: Agent,
  event: Event,
  offsetMs: number | undefined,
): Promise<'finished' | 'unknown' | undefined> {
  if (event.attemptId === '') return undefined
  const attempt = await findAttempt(c.db, event.attemptId)
  if (attempt?.agentId === agent.id) {
    return (await applyOwn(ctx, c, attempt, event, offsetMs)) ? 'finished' : undefined
  }
  // events of the server's former identity are history, like events without a row
  const owner = attempt && (await findAgent(c.db, attempt.agentId))
  if (owner && owner.serverId !== agent.serverId) {
    throw new Refused({ kind: 'foreign', attemptId: event.attemptId })
  }
  const { body } = event
  const isEnd = body.case === 'attempt' && body.value.state >= AttemptState.SUCCEEDED
  return isEnd ? 'unknown' : undefined
}

/** True when this event ended the attempt. */
async function applyOwn(
  ctx: Context,
  c: Change,
  attempt: Attempt,
  event: Event,
  offsetMs: number | undefined,
): Promise<boolean> {
  if (attempt.fence !== Number(event.fence)) return false
  const task = await findTask(c.db, attempt.taskId)
  if (!task) return false
  const { body } = event
  const notBefore = task.startedAt ?? task.createdAt
  const reported = (body.case === 'attempt' && body.value.since) || event.at
  const at = whenHappened({
    at: reported && timestampMs(reported),
    offsetMs,
    notBefore,
    heardAt: c.now,
  })
  // only deployments change what is deployed
  if (DEPLOYED.has(body.case ?? '') && task.type !== 'deploy') return false
  switch (body.case) {
    case 'attempt': {
      await lockEnvironment(c.db, task.environmentId) // lock order: environment before task
      const held = await lockTask(c.db, task.id)
      const current = await findAttempt(c.db, attempt.id)
      return held && current ? applyAttempt(ctx, c, current, held, body.value, at) : false
    }
    case 'plan':
      await applyPlan(c, attempt, body.value)
      emitTask(c, task, 'task.planned', { steps: body.value.phases.length })
      return false
    case 'step':
      await applyStep(c, attempt, body.value, at)
      emitTask(c, task, 'task.step', {
        step: body.value.stepId,
        state: body.value.state,
      })
      return false
    case 'commit': {
      const { commitSha, subject, authorName } = body.value
      const environment = await lockEnvironment(c.db, task.environmentId)
      await updateTask(c.db, task.id, {
        commitSha,
        commitMessage: shownText(subject),
        commitAuthor: shownLine(authorName, TASKS.authorChars) || null,
      })
      // if a newer deployment is queued, its commit stays the target
      if (environment?.lastTaskId === task.id) {
        await updateDeployed(c.db, task.environmentId, attempt.fence, { targetSha: commitSha })
      }
      emitTask(c, task, 'task.commit', { commit_sha: commitSha })
      return false
    }
    case 'serviceFile': {
      const serviceFileSha = Buffer.from(body.value.sha256).toString('hex') || null
      await updateTask(c.db, task.id, { serviceFileSha })
      return false
    }
    case 'services':
      await applyServices(c, attempt, task, body.value, at)
      return false
    case 'actions': {
      const reported = body.value.actions.slice(0, SERVICE_FILE.actions)
      const actions = reported.map(toSyncedAction)
      const environment = await lockEnvironment(c.db, task.environmentId)
      await saveActions(c.db, task.environmentId, attempt.fence, actions, c.now)
      if (environment?.fence === attempt.fence) {
        await syncSchedules(c, environment, schedulesOf(reported), actions)
      }
      return false
    }
    case 'warning': {
      const { code, stepId } = body.value
      const warning = { code, message: shownText(body.value.message), step: stepId || null }
      const warnings = [...task.warnings, warning].slice(0, 100)
      await updateTask(c.db, task.id, { warnings: JSON.stringify(warnings) })
      return false
    }
    case 'artifacts':
      await recordArtifacts(c, task, body.value)
      return false
    case 'backup':
      await recordBackup(c, task, body.value)
      return false
    case 'backupsRemoved':
      await recordRemoved(c, task, body.value.backupIds)
      return false
    default:
      return false // stored as history; unknown kinds come from newer agents
  }
}

async function applyServices(
  c: Change,
  attempt: Attempt,
  task: Task,
  deployed: ServicesDeployed,
  at: number,
): Promise<void> {
  const services = deployed.services.map(({ name, hosts, port, url, image }) => {
    return { name, hosts, port, url: shownUrl(url), image: shownImage(image) }
  })
  const environment = await lockEnvironment(c.db, task.environmentId)
  if (environment?.fence === attempt.fence) {
    await updateEnvironment(c.db, environment.id, { services: JSON.stringify(services) })
    const served = services.flatMap(({ hosts }) => hosts)
    await releaseHosts(c, attempt.agentId, environment, served)
  }
  const images = deployed.services
    .filter(({ image, imageDigest }) => image !== '' || imageDigest !== '')
    .map(({ name, image, imageDigest }) => ({ name, image, digest: imageDigest }))
  await updateTask(c.db, task.id, {
    liveAt: task.liveAt ?? at,
    images: images.length > 0 ? JSON.stringify(images) : null,
  })
  emitTask(c, task, 'task.live', {})
}

async function applyAttempt(
  ctx: Context,
  c: Change,
  attempt: Attempt,
  task: Task,
  changed: AttemptChanged,
  at: number,
): Promise<boolean> {
  const event = attemptEvent(changed.state)
  if (!event || !isAttemptState(attempt.state)) return false
  const step = moveAttempt(attempt.state, event)
  if (step.kind === 'nothing') {
    if (changed.state === attempt.state) await applyWait(c, attempt, task, changed)
    return false
  }
  const log = {
    finalLogSeq: Number(changed.finalLogSeq),
    logSha256: Buffer.from(changed.logSha256).toString('hex') || null,
    logDropped: Number(changed.logBytesDropped),
  }
  if (step.kind === 'late') {
    // the task was given up and stays failed; the real outcome is recorded beside it
    await updateAttempt(c.db, attempt.id, { lateOutcome: step.outcome, ...log })
    await updateTask(c.db, task.id, { lateOutcome: step.outcome })
    emitTask(c, task, 'task.late_outcome', { outcome: step.outcome })
    if (step.outcome === 'succeeded') await finishLateRemoval(ctx, c, attempt, task)
    return true
  }
  const ended = step.state >= AttemptState.SUCCEEDED
  await raiseAttempt(c.db, attempt.id, step.state, {
    code: changed.code,
    message: shownText(changed.message),
    failedStepId: changed.failedStepId,
    exitCode: changed.exitCode ?? null,
    platformCheck: changed.platformCheck ? 1 : 0,
    waitingFor: changed.waitingFor || null,
    waitingPlace: null,
    waitingSince: null,
    ...(step.state === AttemptState.ACCEPTED ? { acceptedAt: c.now } : {}),
    ...(step.state === AttemptState.STARTING ? { startedAt: c.now } : {}),
    ...(ended ? { finishedAt: c.now, unreachableSince: null, ...log } : {}),
    // the server forgot the attempt before it reported the end again, so no more of its log will arrive
    ...(ended && attempt.logCompleteAt !== null
      ? {
          desired: Desired.FORGOTTEN,
          logTruncated: log.finalLogSeq > attempt.ackedLogSeq ? 1 : 0,
        }
      : {}),
  })
  if (ended) await closeOpenSteps(c, attempt.id, step.state)
  await moveTaskWith(ctx, c, attempt, task, step.state, changed, at)
  return ended
}

/** A running attempt waits for a build slot, or no longer does; an accepted one waits for another reason. */
async function applyWait(
  c: Change,
  attempt: Attempt,
  task: Task,
  { waitingFor, waitingPlace }: AttemptChanged,
): Promise<void> {
  const isSame = (attempt.waitingFor ?? '') === waitingFor
  if (isSame && (attempt.waitingPlace ?? 0) === waitingPlace) return
  const isBuild = waitingFor === 'build'
  const { waitingSince, waitedMs } = attempt
  await updateAttempt(c.db, attempt.id, {
    waitingFor: waitingFor || null,
    waitingPlace: waitingPlace || null,
    waitingSince: isBuild ? (waitingSince ?? c.now) : null,
    waitedMs: isBuild || waitingSince === null ? waitedMs : waitedMs + (c.now - waitingSince),
  })
  emitTask(c, task, 'task.updated', { waiting_for: waitingFor || null })
}

/** A given-up removal succeeded after all: closes the environment unless a newer task began. */
async function finishLateRemoval(
  ctx: Context,
  c: Change,
  attempt: Attempt,
  task: Task,
): Promise<void> {
  const environment = await findEnvironment(c.db, task.environmentId)
  if (environment?.fence !== attempt.fence) return
  if (await findOpenTask(c.db, task.environmentId)) return
  await endRemovalTask(ctx, c, task, { status: 'succeeded' })
}

async function moveTaskWith(
  ctx: Context,
  c: Change,
  attempt: Attempt,
  task: Task,
  state: AttemptStateValue,
  changed: AttemptChanged,
  at: number,
): Promise<void> {
  const refused = state === AttemptState.REFUSED
  const repeats = refused && mayRepeat(changed.code, attempt.number, TASKS.attempts)
  // a refusal proves that nothing ran, so a requested cancel succeeds
  const canceled = repeats && task.cancelRequestedAt !== null
  const status = canceled ? 'canceled' : taskStatusFor(state, repeats)
  if (repeats && !canceled) c.notify(agentTopic(attempt.agentId)) // dispatches the next attempt
  if (!status || status === 'queued') return
  if (status === 'running') {
    if (await moveTask(c.db, task.id, 'running', { startedAt: at })) {
      emitTask(c, task, 'task.running', {})
    }
    return
  }
  const failure = status === 'failed' ? JSON.stringify(await failureOf(c, attempt, changed)) : null
  // the attempt's row has the arrival times of its reports, because deadlines run from them
  const begun = attempt.startedAt === null ? null : Math.min(attempt.startedAt, at)
  const startedAt = task.startedAt ?? begun
  const moved = await moveTask(c.db, task.id, status, { finishedAt: at, failure, startedAt })
  if (!moved) return
  if (status === 'succeeded') await recordSuccess(c, attempt, task)
  if (isLifecycle(task.type)) await recordLifecycle(c, task, status, at)
  const message = shownText(changed.message)
  await endRemovalTask(ctx, c, task, { status, message, begun: startedAt !== null })
  await updateEnvironment(c.db, task.environmentId, { updatedAt: c.now })
  emitTask(c, task, `task.${status}`, { code: failure ? failureWord(changed.code) : null })
  c.notify(agentTopic(attempt.agentId)) // a task that waited for this one may start now
}

/** Records that this deployment serves now. removal.ts handles the end of a removal. */
async function recordSuccess(c: Change, attempt: Attempt, task: Task): Promise<void> {
  if (task.type !== 'deploy') return
  await updateDeployed(c.db, task.environmentId, attempt.fence, {
    commitSha: task.commitSha,
    deployedFence: attempt.fence,
    deployedVariablesRevision: attempt.variablesRevision,
    degradedReason: null,
    stopped: null,
  })
  await destroyFormerCopy(c, task.environmentId)
}

async function failureOf(c: Change, attempt: Attempt, changed: AttemptChanged) {
  const steps = await listSteps(c.db, [attempt.id])
  const step = steps.find((s) => s.stepId === changed.failedStepId)
  const timedOut = changed.state === AttemptState.TIMED_OUT
  return describeFailure({
    code: timedOut ? 'timeout' : failureWord(changed.code),
    message: shownText(changed.message),
    exitCode: changed.exitCode ?? null,
    platformCheck: changed.platformCheck,
    step: step && { ...step, line: null },
  })
}
