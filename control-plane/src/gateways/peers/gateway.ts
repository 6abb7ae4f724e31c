// The gateway for other control planes: answers for the agents that this one holds, and takes uploads that it expects.
// Only a certificate of a control plane of this installation opens a connection.

import type { TLSSocket } from 'node:tls'
import { SESSION } from '@berth/shared'
import { type ServiceHandlers, serviceDefinition } from '@berth/shared/wire'
import {
  AskRefusal,
  AskResponseSchema,
  DeliverOpenSchema,
  DeliverRefusal,
  type DeliverRequest,
  DeliverResponseSchema,
  PASSED_TRANSFER,
  PeerService,
  TransferKind,
} from '@berth/shared/wire/peers'
import { create, fromBinary } from '@bufbuild/protobuf'
import { durationMs } from '@bufbuild/protobuf/wkt'
import { status as Status, type UntypedServiceImplementation } from '@grpc/grpc-js'
import { toAskRefusal } from '../../agents/agent-rpc.ts'
import { finishLine, readFirstMessage, uploadOn } from '../../agents/bulk-lines.ts'
import { receivePassedUpload } from '../../agents/transfers.ts'
import type { Frames, RefusedUpload, Upload } from '../../agents/uploads.ts'
import type { Context } from '../../context.ts'
import { CONTROL_PLANE_NAME, parseReplicaId } from '../../keys/authority.ts'
import { PEERS } from '../../limits/peers.ts'
import type { OwnCertificate } from '../../peers/own-certificate.ts'
import { openGrpcListener } from '../grpc/listener.ts'

type Handlers = ServiceHandlers<typeof PeerService>

export interface PeerGateway {
  port: number
  close(): Promise<void>
}

/** Where this control plane listens for the others. */
export interface PeerListening {
  host: string
  port: number
}

type Parts = Pick<Context, 'agentRpc' | 'transfers' | 'installationId' | 'log'>

export async function openPeerGateway(
  ctx: Parts,
  own: OwnCertificate,
  { host, port }: PeerListening,
): Promise<PeerGateway> {
  const handlers = makeHandlers(ctx) as unknown as UntypedServiceImplementation
  const listener = await openGrpcListener({
    title: 'The listener for other control planes',
    portVariable: 'BERTH_PEER_PORT',
    host,
    port,
    trusted: [own.authorityPem],
    own: own.current,
    // a peer may reconnect before its dead connection is noticed; each bulk transfer has its own
    connections: 2 * PEERS.connections + PEERS.deliveries,
    handshakeLimits: {
      width: SESSION.handshakesAtOnce,
      limit: PEERS.pendingHandshakes,
      patienceMs: PEERS.handshakeWaitMs,
    },
    streamsPerConnection: PEERS.streamsPerConnection,
    keepaliveMs: PEERS.keepaliveMs,
    keepaliveTimeoutMs: PEERS.keepaliveTimeoutMs,
    serve: (server) => server.addService(serviceDefinition(PeerService), handlers),
    protocols: [PASSED_TRANSFER],
    take: (socket) => {
      const raw = socket.authorized ? socket.getPeerCertificate().raw : undefined
      if (parseReplicaId(raw, ctx.installationId) === undefined) return 'refused'
      if (socket.alpnProtocol !== PASSED_TRANSFER) return 'http2'
      receiveLine(ctx, socket)
      return 'taken'
    },
    async probe() {
      const { keyPem: key, certificatePem: cert } = own.current
      const checkServerIdentity = () => undefined // the authority is enough: it asks for its windows only
      const servername = CONTROL_PLANE_NAME
      return { ca: own.authorityPem, key, cert, servername, checkServerIdentity }
    },
    handshakeWords: {
      port: 'the port for other control planes',
      byKind: {
        certificate_missing: 'it showed no certificate; only control planes may connect here',
        certificate_expired: 'its certificate has expired; the clocks of two machines differ',
        unknown_authority: 'its certificate is not from this installation',
        wrong_purpose: 'its certificate is not one of a control plane',
        not_tls: 'it did not speak TLS; this port is for control planes alone',
      },
    },
    log: ctx.log,
  })
  own.onRenewed(() => listener.reloadCertificate(own.current, [own.authorityPem]))
  return { port: listener.port, close: () => listener.close(PEERS.drainMs) }
}

function makeHandlers(ctx: Parts): Handlers {
  return {
    ask(call, done) {
      const { agentId, request } = call.request
      const refuse = (refusal: AskRefusal): void =>
        done(null, create(AskResponseSchema, { result: { case: 'refusal', value: refusal } }))
      const requests = ctx.agentRpc.find(agentId)
      if (!requests || !request) return refuse(AskRefusal.NOT_HERE)
      const gone = new AbortController()
      call.on('cancelled', () => gone.abort())
      const deadlineMs = request.deadline ? durationMs(request.deadline) : 0
      requests
        .ask(request.body, { deadlineMs, signal: gone.signal })
        .then((body) =>
          done(null, create(AskResponseSchema, { result: { case: 'response', value: { body } } })),
        )
        .catch((error: unknown) => {
          if (gone.signal.aborted) return done({ code: Status.CANCELLED })
          refuse(toAskRefusal(error))
        })
        .catch((error: unknown) => {
          ctx.log.error({ err: error, agentId }, 'a question of another control plane failed')
          done({ code: Status.INTERNAL, details: 'Internal error' })
        })
    },
    deliver(call, done) {
      call.on('error', () => {}) // an error event without a listener ends the process
      call.once('data', ({ part }: DeliverRequest) => {
        const answer = (refused: RefusedUpload | null): void =>
          done(
            null,
            create(DeliverResponseSchema, { refusal: refused ? REFUSALS[refused.reason] : 0 }),
          )
        if (part.case !== 'open') return done({ code: Status.INVALID_ARGUMENT })
        const { agentId, kind } = part.value
        if (kind === TransferKind.FILE)
          receivePassedUpload(ctx, agentId, 'file', framesOf(call, toFile), answer)
        else if (kind === TransferKind.CONTAINER_LOGS)
          receivePassedUpload(ctx, agentId, 'container_logs', framesOf(call, toLogs), answer)
        else done({ code: Status.INVALID_ARGUMENT })
      })
    },
  }
}

/** A bulk transfer that a peer passes on. */
function receiveLine(ctx: Parts, socket: TLSSocket): void {
  socket.on('error', () => undefined) // the close event handles it
  readFirstMessage(socket, (message) => {
    const { agentId } = fromBinary(DeliverOpenSchema, message)
    receivePassedUpload(ctx, agentId, 'file', uploadOn(socket), finishLine(socket))
    socket.resume()
    return 'drop'
  })
}

const REFUSALS = {
  late: DeliverRefusal.LATE,
  canceled: DeliverRefusal.CANCELED,
  unexpected: DeliverRefusal.UNEXPECTED,
} as const

type DeliverCall = Parameters<Handlers['deliver']>[0]

/** Presents the messages of a call as the frames of an upload. A message of another kind breaks it. */
function framesOf<F>(
  call: DeliverCall,
  toFrame: (part: DeliverRequest['part']) => F | undefined,
): Upload<F> {
  let breakOff: () => void = () => {}
  return {
    on(event: string, listener: (frame: F) => void) {
      if (event !== 'data') {
        if (event === 'cancelled') breakOff = listener as () => void
        call.on(event, listener)
        return
      }
      call.on('data', ({ part }: DeliverRequest) => {
        const frame = toFrame(part)
        if (frame) listener(frame)
        else breakOff()
      })
    },
    pause: () => call.pause(),
    resume: () => call.resume(),
  }
}

function toFile(part: DeliverRequest['part']): Frames['file'] | undefined {
  if (part.case === 'file') return part.value
  if (part.case !== 'fileData') return undefined
  return { $typeName: 'berth.agent.v1.FileFrame', frame: { case: 'data', value: part.value } }
}

const toLogs = (part: DeliverRequest['part']): Frames['container_logs'] | undefined =>
  part.case === 'containerLogs' ? part.value : undefined
