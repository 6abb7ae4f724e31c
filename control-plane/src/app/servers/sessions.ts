// One agent, one session; the newest wins. Applies a hello to the rows: which agent may connect, which attempts were
// lost meanwhile, and where the journal continues.
import { AttemptState, FailureCode, GoodbyeReason, type Hello } from '@berth/shared/wire'
import type { Context } from '../../context.ts'
import { isAttemptState, moveAttempt } from '../../domain/deployments/attempt.ts'
import { describeFailure } from '../../domain/deployments/failure.ts'
import { noteTakeover } from '../../domain/servers/takeovers.ts'
import { RECONCILE } from '../../limits/forges.ts'
import { REPLICAS, RESTORE } from '../../limits/installation.ts'
import { ENROLMENT } from '../../limits/keys.ts'
import {
  type Attempt,
  listHeldAttempts,
  raiseAttempt,
  updateAttempt,
  updateReachability,
} from '../../store/deployments/attempts.ts'
import { lockTask, moveTask, updateTask } from '../../store/deployments/tasks.ts'
import { hastenRoundsOfServer } from '../../store/forges/repositories.ts'
import {
  type Agent,
  type AgentCertificate,
  endSessions,
  endSessionsOfOthers,
  findAgent,
  findAgentCertificate,
  findGenerations,
  insertAgentCertificate,
  listOrphanSessions,
  lockAgent,
  markCertificateSeen,
  type StoredSession,
  takeSession,
  updateTakeovers,
  updateUnderEpoch,
} from '../../store/servers/agents.ts'
import { type HostFacts, listServersById, updateServerHost } from '../../store/servers/servers.ts'
import { auditAgent } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { agentTopic, change, emit, emitTask, logTopic } from '../core/transaction.ts'
import { endRemovalTask } from '../environments/removal.ts'
import {
  adoptFormerAttempts,
  closeUnknownAttempts,
  recoverFences,
  type UnknownAttempt,
} from './restored.ts'

export interface Opened {
  kind: 'opened'
  agent: Agent
  ackedEventSeq: number
  /** When the agent should replace the certificate it connected with. */
  renewAt: number
  unknownAttempts: UnknownAttempt[]
}
interface TurnedAway {
  kind: 'turned_away'
  reason: GoodbyeReason
  message: string
  /** The agent may retry after this time; 0 means that the agent decides. */
  againAfterMs: number
}

/** The contents of a connection's certificate, which our own authority signed. */
export interface Certified {
  agentId: string
  fingerprint: string
  issuedAt: number
  notAfter: number
}

interface Opening {
  /** Known before, so that the session can be ended if its commit was not answered. */
  sessionId: string
  identity: Certified
  hello: Hello
  isAwaited: () => boolean
}

/** Its agent may have told another control plane more by now: judged by this Hello, it would look like a copy. */
export class LateHello extends Error {}

const turnAway = (reason: GoodbyeReason, message: string, againAfterMs = 0): TurnedAway => ({
  kind: 'turned_away',
  reason,
  message,
  againAfterMs,
})

/** Throws `LateHello` and changes nothing if the agent has given up meanwhile. */
export async function openSession(
  ctx: Context,
  { sessionId, identity, hello, isAwaited }: Opening,
): Promise<Opened | TurnedAway> {
  return change(ctx, async (c) => {
    const judged = await judgeIdentity(c, identity, hello)
    if (judged.kind === 'turned_away') {
      if (!isAwaited()) throw new LateHello()
      return judged
    }
    const agent = await takeSession(c.db, identity.agentId, {
      sessionId,
      replicaId: ctx.replicaId,
      instanceId: hello.instanceId,
      version: hello.agentVersion,
      capabilities: hello.capabilities,
      now: c.now,
    })
    if (!isAwaited()) throw new LateHello() // this may have waited for a session that began at another control plane
    if (!agent) return turnAway(GoodbyeReason.REVOKED, 'This agent was revoked.')
    const { certificate } = judged
    if (certificate.firstSeenAt === null) {
      await markCertificateSeen(c.db, identity.fingerprint, c.now)
    }
    const { gone } = await adoptFormerAttempts(c, agent, hello)
    for (const attempt of gone) {
      await loseAttempt(ctx, c, attempt, FailureCode.AGENT_LOST, UNKNOWN_THERE)
      await releaseAttempt(c, attempt)
    }
    const ackedEventSeq = await recoverJournal(ctx, c, agent, hello)
    const unknownAttempts = await recoverAttempts(ctx, c, agent, hello)
    await recoverFences(ctx, c, agent, hello)
    await updateReachability(c.db, [agent.id], null)
    await hastenRoundsOfServer(c.db, agent.serverId, c.now + RECONCILE.afterReturnMs)
    if (hello.host) await updateServerHost(c.db, agent.serverId, toHostFacts(hello.host))
    await emitServers(c, [agent.serverId], 'online')
    const renewAt = renewalPoint(certificate)
    return { kind: 'opened', agent, ackedEventSeq, renewAt, unknownAttempts }
  })
}

/** A point in the certificate's life that is always the same for one agent and differs between agents. */
function renewalPoint(certificate: AgentCertificate): number {
  const life = certificate.notAfter - certificate.issuedAt
  const spread = Number.parseInt(certificate.fingerprint.slice(0, 8), 16) / 0xffff_ffff
  const { renewFrom, renewTo } = ENROLMENT
  return Math.round(certificate.issuedAt + life * (renewFrom + (renewTo - renewFrom) * spread))
}

async function judgeIdentity(
  c: Change,
  identity: Certified,
  hello: Hello,
): Promise<TurnedAway | { kind: 'known'; certificate: AgentCertificate }> {
  const agent = await findAgent(c.db, identity.agentId)
  // revoked agents keep their row, so an agent without one joined after the restored backup was made
  if (!agent) return turnAway(GoodbyeReason.UNKNOWN_AGENT, UNKNOWN_AGENT, RESTORE.unknownAgentMs)
  if (agent.revokedAt !== null) return turnAway(GoodbyeReason.REVOKED, 'This agent was revoked.')
  if (agent.lockedAt !== null) {
    return turnAway(GoodbyeReason.DUPLICATE_IDENTITY, agent.lockReason ?? 'This agent is locked.')
  }
  // a lower generation than one already seen means that two copies of the disk exist
  const { seen } = await findGenerations(c.db, agent.id)
  const certificate = await findOwnCertificate(c, identity)
  const wentBack =
    agent.journalId === hello.journalId && Number(hello.lastEventSeq) < agent.ackedEventSeq
  const reason =
    certificate.generation < seen
      ? 'An older certificate of this agent connected: two copies of its disk exist. Make a new join token.'
      : wentBack
        ? 'The journal of this agent went back in time: its disk was restored. Make a new join token.'
        : (await pushesOut(c, agent, hello.instanceId))
          ? 'Two copies of this agent push each other out. Make a new join token.'
          : undefined
  if (reason === undefined) return { kind: 'known', certificate }
  await lockDuplicate(c, agent, reason)
  return turnAway(GoodbyeReason.DUPLICATE_IDENTITY, reason)
}

/** Notes that the session changes hands, at whichever control plane; true if two copies do so again and again. */
async function pushesOut(c: Change, agent: Agent, instance: string): Promise<boolean> {
  const { id, sessionId, instanceId, takeovers } = agent
  // an agent may return before the end of its own broken session is known
  if (sessionId === null || instance === instanceId) return false
  const { stored, isDuplicate } = noteTakeover(takeovers, instance, c.now)
  await updateTakeovers(c.db, id, stored)
  c.notify(agentTopic(id)) // the former session may be at another control plane
  return isDuplicate
}

/**
 * Our own authority signed it for this agent. If it is missing here, it was issued after the restored backup was
 * made: the newest one is the agent's own, an older one comes from a copy of the disk.
 */
async function findOwnCertificate(
  c: Change,
  { agentId, fingerprint, issuedAt, notAfter }: Certified,
): Promise<AgentCertificate> {
  const known = await findAgentCertificate(c.db, fingerprint)
  if (known) return known
  const { issued, newestAt } = await findGenerations(c.db, agentId)
  const own = { fingerprint, agentId, notAfter, issuedAt }
  if (issuedAt < newestAt) return { ...own, generation: 0, firstSeenAt: null }
  const generation = issued + 1
  await insertAgentCertificate(c.db, { ...own, generation })
  const details = { fingerprint, generation, reason: 'issued after the backup that was restored' }
  await auditAgent(
    c,
    agentId,
    'system',
    'agent.certificate_known_again',
    ['agent', agentId],
    details,
  )
  return { ...own, generation, firstSeenAt: null }
}

async function lockDuplicate(c: Change, agent: Agent, reason: string): Promise<void> {
  await lockAgent(c.db, agent.id, reason, c.now)
  await auditAgent(c, agent.id, 'system', 'agent.lock', ['agent', agent.id], { reason })
  c.notify(agentTopic(agent.id)) // its session ends
}

/** Where the outbox continues. A new journal means a wiped disk; a hole means that our database was restored. */
async function recoverJournal(
  ctx: Context,
  c: Change,
  agent: Agent,
  hello: Hello,
): Promise<number> {
  const { journalId } = hello
  if (agent.journalId !== null && agent.journalId !== journalId) {
    const message = 'The agent lost its journal; what became of this attempt is not known.'
    for (const attempt of await listHeldAttempts(c.db, agent.id)) {
      await loseAttempt(ctx, c, attempt, FailureCode.JOURNAL_LOST, message)
      await releaseAttempt(c, attempt)
    }
  }
  const same = agent.journalId === journalId
  const first = Number(hello.firstEventSeq)
  let acked = same ? agent.ackedEventSeq : 0
  if (first > acked + 1) {
    if (same) {
      const hole = { from: acked + 1, to: first - 1, reason: 'restored from a backup' }
      await auditAgent(c, agent.id, 'system', 'agent.events_missing', ['agent', agent.id], hole)
    }
    acked = first - 1
  }
  await updateUnderEpoch(c.db, agent.id, agent.sessionEpoch, { journalId, ackedEventSeq: acked })
  return acked
}

/** The agent no longer holds the attempt, so no more of its log will arrive. */
async function releaseAttempt(c: Change, attempt: Attempt): Promise<void> {
  const whole = attempt.logCompleteAt !== null
  await updateAttempt(c.db, attempt.id, {
    releasedAt: c.now,
    ...(whole ? {} : { logCompleteAt: c.now, logTruncated: 1 }),
  })
  c.notify(logTopic(attempt.id))
}

const UNKNOWN_AGENT =
  'The database of this control plane does not know this agent: the server joined after the backup that was ' +
  'restored. Make a join token on its page (berth server join-token NAME) and run on the server: ' +
  'berth-agent join --force <url> <token>. What runs there keeps running.'
const UNKNOWN_THERE =
  'The agent does not know this attempt any more; what became of it is not known.'

const hasNothingToReport = (hello: Hello): boolean => hello.firstEventSeq > hello.lastEventSeq

async function warnOfRestore(c: Change, { taskId }: Attempt): Promise<void> {
  const task = await lockTask(c.db, taskId)
  if (!task) return
  const message =
    'The control plane was restored from a backup while this ran: parts of its log and of its report are missing.'
  const warnings = [...task.warnings, { code: 'restored', message, step: null }]
  await updateTask(c.db, taskId, { warnings: JSON.stringify(warnings) })
}

/** Compares the attempts that the agent holds with the rows. */
async function recoverAttempts(
  ctx: Context,
  c: Change,
  agent: Agent,
  hello: Hello,
): Promise<Opened['unknownAttempts']> {
  const held = await listHeldAttempts(c.db, agent.id)
  const fences = new Map(hello.fences.map((f) => [f.environmentId, Number(f.fence)]))
  const repeats = hello.capabilities.includes('retell')
  const reported = new Map(hello.attempts.map((a) => [a.attemptId, a]))
  for (const attempt of held) {
    const begun = attempt.state >= AttemptState.STARTING && attempt.state < AttemptState.SUCCEEDED
    const there = reported.get(attempt.id)
    // ended there, and the agent will not report it again, because our database was restored
    const unreported = (there?.state ?? 0) >= AttemptState.SUCCEEDED && hasNothingToReport(hello)
    if (begun && (!there || unreported) && !repeats) {
      const message = there
        ? 'The attempt is over on its server, but its end was lost with a restored backup.'
        : UNKNOWN_THERE
      await loseAttempt(ctx, c, attempt, FailureCode.AGENT_LOST, message)
    }
    // the agent forgot it already, so only its acknowledgement was lost
    if (((begun && !repeats) || attempt.state >= AttemptState.SUCCEEDED) && !there) {
      await releaseAttempt(c, attempt)
      continue
    }
    // the agent had it and forgot it: it reports the end again, but the log is lost
    const was = begun || attempt.fence <= (fences.get(attempt.environmentId) ?? 0)
    if (was && !there && attempt.logCompleteAt === null) {
      await updateAttempt(c.db, attempt.id, { logCompleteAt: c.now })
      await warnOfRestore(c, attempt)
    }
  }
  return closeUnknownAttempts(ctx, c, agent, hello, new Set(held.map((a) => a.id)))
}

/** The control plane stops waiting and releases the lock; the real end may still arrive. */
export async function loseAttempt(
  ctx: Context,
  c: Change,
  attempt: Attempt,
  code: FailureCode,
  message: string,
): Promise<void> {
  if (!isAttemptState(attempt.state)) return
  if (moveAttempt(attempt.state, 'lost').kind !== 'moved') return
  const task = await lockTask(c.db, attempt.taskId)
  const lost = { code, message, finishedAt: c.now }
  // false if it ended by itself since it was read
  if (!(await raiseAttempt(c.db, attempt.id, AttemptState.LOST, lost)) || !task) return
  const word = code === FailureCode.JOURNAL_LOST ? 'journal_lost' : 'agent_lost'
  const failure = JSON.stringify(describeFailure({ code: word, message }))
  if (!(await moveTask(c.db, task.id, 'failed', { finishedAt: c.now, failure }))) return
  emitTask(c, task, 'task.failed', { code: word })
  await endRemovalTask(ctx, c, task, { status: 'failed', message })
}

/** The agent is being stopped and takes no new attempts. */
export const markDraining = (ctx: Context, agentId: string, epoch: number): Promise<boolean> => {
  const now = ctx.clock.now()
  return updateUnderEpoch(ctx.db, agentId, epoch, { lastSeenAt: now, drainingAt: now })
}

/** Live attempts continue; people see since when they have not been heard of. */
export const endStoredSessions = (ctx: Context, sessions: StoredSession[]): Promise<void> =>
  change(ctx, async (c) => {
    const ended = await endSessions(c.db, sessions, c.now)
    const agents = ended.map(({ id }) => id)
    await updateReachability(c.db, agents, c.now)
    await emitServers(
      c,
      ended.map(({ serverId }) => serverId),
      'offline',
    )
  })

async function emitServers(
  c: Change,
  serverIds: number[],
  status: 'online' | 'offline',
): Promise<void> {
  for (const { id, organizationId, removedAt } of await listServersById(c.db, serverIds)) {
    if (removedAt === null) emit(c, { organizationId }, 'server.updated', { id, status })
  }
}

/** At the start of the only control plane, ends the sessions of earlier processes. */
export const endFormerSessions = (ctx: Context): Promise<void> =>
  endSessionsOfOthers(ctx.db, ctx.replicaId, ctx.clock.now())

/** Ends the sessions that no replica has: their replica died, and the agents return to others by themselves. */
export async function endOrphanSessions(ctx: Context): Promise<void> {
  for (;;) {
    const orphans = await listOrphanSessions(ctx.db, REPLICAS.sessionsTogether)
    if (orphans.length === 0) return
    await endStoredSessions(ctx, orphans)
    if (orphans.length < REPLICAS.sessionsTogether) return
  }
}

export function toHostFacts(host: NonNullable<Hello['host']>): HostFacts {
  return {
    hostname: host.hostname,
    os: host.os,
    arch: host.arch,
    dockerVersion: host.dockerVersion,
    cpus: host.cpus,
    memoryBytes: Number(host.memoryBytes),
    diskBytes: Number(host.diskBytes),
    diskFreeBytes: Number(host.diskFreeBytes),
    parts: host.parts.map(({ name, version, reason }) => ({ name, version, reason })),
    ssh: toSshFacts(host.parts.find(({ name }) => name === 'sshd')?.details ?? {}),
  }
}

const ACCOUNT = /^[a-z_][a-z0-9_-]{0,31}$/

/** Accepts only a valid port and two valid account names. */
function toSshFacts(details: { [key: string]: string }): HostFacts['ssh'] {
  if (details.mode === 'off') return { isOff: true, port: 0, accounts: [] }
  const port = Number(details.port)
  const accounts = (details.accounts ?? '').split(' ')
  const isUsable = Number.isInteger(port) && port > 0 && port < 65_536
  if (!isUsable || accounts.length !== 2 || !accounts.every((name) => ACCOUNT.test(name)))
    return undefined
  return { isOff: false, port, accounts }
}
