// The agents' gateway: which agent connects, which session is the newest, and closing all of them. Identity comes from
// the client certificate alone; no message carries an agent's id.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { AppError, never, SESSION } from '@berth/shared'
import {
  type AgentMessage,
  type ClaimHostsRequest,
  type ClaimHostsResponse,
  ClaimHostsResponseSchema,
  GoodbyeReason,
  HostVerdict,
  RenewCertificateResponseSchema,
  SendContainerLogsResponseSchema,
  SendFileResponseSchema,
  type ServerMessage,
  SignSshHostKeyResponseSchema,
} from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { type ServerDuplexStream, status as Status } from '@grpc/grpc-js'
import { receiveUpload } from '../../agents/transfers.ts'
import type { RefusedUpload } from '../../agents/uploads.ts'
import { claimHosts } from '../../app/environments/hostname-claims.ts'
import { renewAgentCertificate } from '../../app/servers/enrolment.ts'
import { Heartbeats } from '../../app/servers/heartbeats.ts'
import { signSshHostKey } from '../../app/ssh/host-keys.ts'
import type { Context } from '../../context.ts'
import { issueServerCertificate } from '../../keys/authority.ts'
import { REPLICAS } from '../../limits/installation.ts'
import { listAgentWakes } from '../../store/installation/replicas.ts'
import { Admission } from './admission.ts'
import { openFileLines } from './bulk-transfers.ts'
import { type AgentHandlers, agentIdentity, openListener } from './listener.ts'
import { LogIntake } from './log-intake.ts'
import { openLogStream } from './log-stream.ts'
import { elsewhereAfterMs, reconnectSpreadMs } from './policy.ts'
import { AgentSession, type Gateway, type SessionIdentity } from './session.ts'
import { sendRelease } from './updates.ts'

const TICK_MS = 1_000
const RETRY_MS = 5_000
const UNKNOWN_AGENT = {
  code: Status.PERMISSION_DENIED,
  details: 'The certificate is not one of an agent.',
}

export interface AgentGateway {
  port: number
  sessions(): AgentSession[]
  /** Sends all agents elsewhere: to the other replicas, or here again with a new session. */
  moveAll(message: string): void
  close(): Promise<void>
}

export async function openAgentGateway(ctx: Context): Promise<AgentGateway> {
  const sessions = new Map<string, AgentSession>()
  const unclosed = new Set<AgentSession>()
  const intake = new LogIntake(ctx)
  const admission = new Admission()
  const heartbeats = Heartbeats.of(ctx)
  const replicas = countReplicas(ctx)
  const gateway: Gateway = {
    agentCount: () => sessions.size,
    spreadMs: () => reconnectSpreadMs(sessions.size, replicas.count()),
    beat: (beat) => heartbeats.note(beat),
    admit: (session, patienceMs) => admission.enter(session, patienceMs),
    closed: (session) => {
      admission.leave(session)
      if (sessions.get(session.agentId) === session) sessions.delete(session.agentId)
    },
    unclosed: (session) => void unclosed.add(session),
    opened: (session) => {
      const former = sessions.get(session.agentId)
      sessions.set(session.agentId, session)
      former?.superseded()
    },
  }

  const handlers = makeHandlers(ctx, gateway, intake, sessions)
  const names = ctx.agentEndpoints.map((endpoint) => endpoint.replace(/:\d+$/, ''))
  const server = await issueServerCertificate(ctx.authority, {
    names: names.map((name) => name.replace(/^\[|\]$/g, '')),
    now: new Date(ctx.clock.now()),
  })
  const listener = await openListener({
    host: ctx.config.agentHost,
    port: ctx.config.agentPort,
    authority: ctx.authority,
    server,
    handlers,
    fileLine: openFileLines(ctx),
    log: ctx.log,
  })
  const stopTicking = startTicking(
    () => sessions.values(),
    () => {
      const again = [...unclosed]
      unclosed.clear()
      for (const session of again) session.endRows()
    },
  )
  const stopWakes = readWakes(ctx, sessions)
  const moveAll = (message: string): void => {
    const all = [...sessions.values()]
    for (const session of all) {
      session.goodbye(GoodbyeReason.SERVER_DRAINING, message, elsewhereAfterMs(all.length))
    }
  }
  return {
    port: listener.port,
    sessions: () => [...sessions.values()],
    moveAll,
    async close() {
      stopTicking()
      replicas.stop()
      await stopWakes()
      admission.stop()
      moveAll('The control plane is stopping.')
      await listener.close(SESSION.drainMs)
      await heartbeats.close()
      await intake.close()
    },
  }
}

function startTicking(sessions: () => Iterable<AgentSession>, endRows: () => void): () => void {
  const delay = monitorEventLoopDelay({ resolution: 100 })
  delay.enable()
  let retried = 0
  const timer = setInterval(() => {
    const lagged = delay.max / 1e6 > SESSION.lagMs
    delay.reset()
    retried += TICK_MS
    if (retried >= RETRY_MS) {
      retried = 0
      endRows()
    }
    for (const session of [...sessions()]) session.tick(lagged)
  }, TICK_MS)
  return () => {
    clearInterval(timer)
    delay.disable()
  }
}

/** How many control planes share the agents now; those that are stopped on purpose hand theirs over. */
function countReplicas(ctx: Context): { count: () => number; stop: () => void } {
  let count = 1
  const read = async (): Promise<void> => {
    count = Math.max(1, (await ctx.replicas.listLive()).length)
  }
  const timer = setInterval(() => {
    read().catch((error: unknown) => ctx.log.warn({ err: error }, 'replicas could not be counted'))
  }, REPLICAS.leaseMs)
  return { count: () => count, stop: () => clearInterval(timer) }
}

/** Wakes the sessions whose hint was lost on its way from another replica: their wake-ups are also rows. */
function readWakes(ctx: Context, sessions: Map<string, AgentSession>): () => Promise<void> {
  if (ctx.replicas.isAlone) return async () => {}
  let seen = new Set<number>()
  let reading: Promise<void> | undefined
  async function read(): Promise<void> {
    const wakes = await listAgentWakes(ctx.db, REPLICAS.wakesWithinMs)
    for (const { id, agentId, isTrust } of wakes) {
      if (!seen.has(id)) sessions.get(agentId)?.notify(isTrust)
    }
    seen = new Set(wakes.map(({ id }) => id))
  }
  const timer = setInterval(() => {
    reading ??= read()
      .catch((error: unknown) => ctx.log.warn({ err: error }, 'wake-ups could not be read'))
      .finally(() => {
        reading = undefined
      })
  }, REPLICAS.wakesMs)
  return async () => {
    clearInterval(timer)
    await reading
  }
}

function makeHandlers(
  ctx: Context,
  gateway: Gateway,
  intake: LogIntake,
  sessions: Map<string, AgentSession>,
): AgentHandlers {
  const identify = (call: Parameters<typeof agentIdentity>[0]): SessionIdentity | undefined => {
    const identity = agentIdentity(call, ctx.installationId)
    if (!identity) return undefined
    const { issuedAt, notAfter } = identity
    return { ...identity, issuedAt: issuedAt.getTime(), notAfter: notAfter.getTime() }
  }
  return {
    connect(call) {
      call.on('error', () => {}) // an error event without a listener ends the process
      const identity = identify(call)
      if (!identity) {
        refuse(call, UNKNOWN_AGENT.code, UNKNOWN_AGENT.details)
        return
      }
      attach(call, new AgentSession(ctx, identity, wrap(call), gateway))
    },
    streamLogs(call) {
      call.on('error', () => {})
      const identity = identify(call)
      const session = identity && sessions.get(identity.agentId)
      if (!session) {
        refuse(call, Status.FAILED_PRECONDITION, 'There is no session for this log stream.')
        return
      }
      openLogStream(ctx, call, session, intake)
    },
    renewCertificate(call, done) {
      const identity = identify(call)
      if (!identity) {
        done(UNKNOWN_AGENT)
        return
      }
      const { csrDer: csr, generation } = call.request
      renewAgentCertificate(ctx, identity.agentId, { csr, generation: Number(generation) }).then(
        (renewed) =>
          done(
            null,
            create(RenewCertificateResponseSchema, {
              certificatePem: Buffer.from(renewed.certificatePem),
              caPem: [Buffer.from(ctx.authority.certificatePem)],
              generation: BigInt(renewed.generation),
              notAfter: timestampFromDate(renewed.notAfter),
              renewAt: timestampFromDate(renewed.renewAt),
            }),
          ),
        (error: unknown) => {
          const refused = error instanceof AppError
          if (!refused) ctx.log.error({ err: error }, 'certificate could not be renewed')
          const code = refused ? Status.PERMISSION_DENIED : Status.INTERNAL
          done({ code, details: refused ? error.message : 'Internal error' })
        },
      )
    },
    claimHosts(call, done) {
      const identity = identify(call)
      if (!identity) {
        done(UNKNOWN_AGENT)
        return
      }
      answerClaim(ctx, identity.agentId, call.request).then(
        (answer) => ('claims' in answer ? done(null, answer) : done(answer)),
        (error: unknown) => {
          ctx.log.error({ err: error }, 'host names could not be claimed')
          done({ code: Status.INTERNAL, details: 'Internal error' })
        },
      )
    },
    signSshHostKey(call, done) {
      const identity = identify(call)
      if (!identity) {
        done(UNKNOWN_AGENT)
        return
      }
      signSshHostKey(ctx, identity.agentId, call.request.publicKey).then(
        ({ certificate, renewAt }) =>
          done(
            null,
            create(SignSshHostKeyResponseSchema, {
              certificate,
              renewAt: timestampFromDate(renewAt),
            }),
          ),
        (error: unknown) => {
          const refused = error instanceof AppError
          if (!refused) ctx.log.error({ err: error }, 'host key could not be signed')
          const code = refused ? Status.PERMISSION_DENIED : Status.INTERNAL
          done({ code, details: refused ? error.message : 'Internal error' })
        },
      )
    },
    sendFile(call, done) {
      call.on('error', () => {})
      const identity = identify(call)
      if (!identity) return done(UNKNOWN_AGENT)
      receiveUpload(ctx, identity.agentId, 'file', call, (refused) =>
        refused
          ? done(statusOf(refused))
          : done(null, create(SendFileResponseSchema, { complete: true })),
      )
    },
    sendContainerLogs(call, done) {
      call.on('error', () => {})
      const identity = identify(call)
      if (!identity) return done(UNKNOWN_AGENT)
      receiveUpload(ctx, identity.agentId, 'container_logs', call, (refused) =>
        refused ? done(statusOf(refused)) : done(null, create(SendContainerLogsResponseSchema)),
      )
    },
    fetchRelease(call) {
      call.on('error', () => {})
      const identity = identify(call)
      if (!identity) return refuse(call, UNKNOWN_AGENT.code, UNKNOWN_AGENT.details)
      sendRelease(ctx, identity.agentId, call).catch((error: Error) => {
        ctx.log.info({ err: error, agentId: identity.agentId }, 'a release was not sent')
        refuse(call, Status.PERMISSION_DENIED, 'No release is offered.')
      })
    },
  }
}

const UPLOAD_STATUS = {
  late: Status.DEADLINE_EXCEEDED,
  canceled: Status.CANCELLED,
  unexpected: Status.PERMISSION_DENIED,
} as const
const statusOf = ({ reason, details }: RefusedUpload) => ({ code: UPLOAD_STATUS[reason], details })

const VERDICTS = {
  granted: HostVerdict.GRANTED,
  taken: HostVerdict.TAKEN,
  not_allowed: HostVerdict.NOT_ALLOWED,
} as const

async function answerClaim(
  ctx: Context,
  agentId: string,
  { attemptId, fence, hosts }: ClaimHostsRequest,
): Promise<ClaimHostsResponse | { code: Status; details: string }> {
  const answer = await claimHosts(ctx, agentId, { attemptId, fence: Number(fence), hosts })
  switch (answer.kind) {
    case 'decided':
      return create(ClaimHostsResponseSchema, {
        claims: answer.claims.map((claim) => ({ ...claim, verdict: VERDICTS[claim.verdict] })),
      })
    case 'foreign':
      return { code: Status.PERMISSION_DENIED, details: 'It is not an attempt of this agent.' }
    case 'over':
      return { code: Status.FAILED_PRECONDITION, details: answer.message }
    case 'too_many':
      return { code: Status.INVALID_ARGUMENT, details: answer.message }
    default:
      return never(answer)
  }
}

type Stream = ServerDuplexStream<AgentMessage, ServerMessage>

function refuse(
  call: { emit(event: 'error', error: { code: Status; details: string }): boolean },
  code: Status,
  details: string,
): void {
  call.emit('error', { code, details })
}

const wrap = (call: Stream) => ({
  write: (message: ServerMessage) => call.write(message),
  backlog: () => call.writableLength,
  pause: () => void call.pause(),
  resume: () => void call.resume(),
  end: () => call.end(),
})

function attach(call: Stream, session: AgentSession): void {
  const helloTimer = setTimeout(() => {
    if (!session.hasHello) session.goodbye(GoodbyeReason.PROTOCOL_ERROR, 'no Hello in time')
  }, SESSION.helloMs)
  const finish = (): void => {
    clearTimeout(helloTimer)
    session.close()
  }
  call.on('end', finish)
  call.on('cancelled', finish)
  call.on('close', finish)
  call.on('error', finish)
  call.on('data', (message: AgentMessage) => session.receive(message))
}
