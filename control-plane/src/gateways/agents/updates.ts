// What one session's agent is offered, and the bytes of the package that it then fetches.
import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import { Readable, type Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import {
  type FetchReleaseRequest,
  type ReleaseChunk,
  ReleaseChunkSchema,
  type UpdateAgent,
  UpdateAgentSchema,
} from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import type { ServerWritableStream } from '@grpc/grpc-js'
import { findAgentRelease } from '../../app/servers/agent-release.ts'
import type { Context } from '../../context.ts'
import { findAgent } from '../../store/servers/agents.ts'
import { findOffer } from '../../store/servers/rollouts.ts'

export class UpdateState {
  readonly #ctx: Context
  readonly #send: (offer: UpdateAgent) => void
  #serverId: number | undefined
  #sent = ''

  constructor(ctx: Context, send: (offer: UpdateAgent) => void) {
    this.#ctx = ctx
    this.#send = send
  }

  async sendFirst(serverId: number): Promise<void> {
    this.#serverId = serverId
    this.#sent = ''
    await this.sendChanges()
  }

  async sendChanges(): Promise<void> {
    if (this.#serverId === undefined) return
    const update = await findOffer(this.#ctx.db, this.#serverId)
    if (!update || update.id === this.#sent) return
    const found = await findAgentRelease(this.#ctx)
    // its packages were replaced meanwhile; the rollout fails when no answer comes in time
    if (found.kind === 'none') return
    const { bytes, signature, manifest } = found.release
    if (manifest.counter !== update.counter) return // another version's rollout: its control planes have the packages
    this.#sent = update.id
    this.#send(
      create(UpdateAgentSchema, {
        manifest: bytes,
        signatures: [signature],
        updateId: update.id,
      }),
    )
  }
}

const CHUNK_BYTES = 65_536

/** Throws a sentence if this agent was not offered the update. */
export async function sendRelease(
  ctx: Context,
  agentId: string,
  call: ServerWritableStream<FetchReleaseRequest, ReleaseChunk>,
): Promise<void> {
  const { updateId, platform, offset } = call.request
  const agent = await findAgent(ctx.db, agentId)
  const update = agent && (await findOffer(ctx.db, agent.serverId))
  const found = await findAgentRelease(ctx)
  const manifest = found.kind === 'signed' ? found.release.manifest : undefined
  const isOffered = update?.id === updateId && update.counter === manifest?.counter
  const file = manifest?.platforms[platform]
  if (!isOffered || !file) throw new Error('No release is offered.')
  const start = Math.min(Number(offset), file.bytes)
  const bytes = createReadStream(join(ctx.config.agentPackages, file.file), {
    start,
    highWaterMark: CHUNK_BYTES,
  })
  // grpc-js declares a part of the Writable that it is
  await pipeline(Readable.from(toChunks(bytes, start)), call as unknown as Writable)
}

async function* toChunks(
  bytes: AsyncIterable<Buffer>,
  start: number,
): AsyncGenerator<ReleaseChunk> {
  let at = start
  for await (const data of bytes) {
    yield create(ReleaseChunkSchema, { offset: BigInt(at), data })
    at += data.length
  }
}
