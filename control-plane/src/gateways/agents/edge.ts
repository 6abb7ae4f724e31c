// Tracks what the edge of one session's server was sent: desired state by revision, everything at the start, then
// changes. A server that was offline receives them when it reconnects.

import { type EdgeSettings, EdgeSettingsSchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { readEdgeForDispatch } from '../../app/environments/values.ts'
import type { Context } from '../../context.ts'
import { EDGE } from '../../limits/installation.ts'

const REVISION_BITS = 20n

/**
 * A later era outranks every earlier one: after a restore, the database's revisions are lower than what servers have
 * seen, and servers must follow them anyway.
 */
export const revisionOnWire = ({ replicas }: Context, revision: number): bigint =>
  (BigInt(replicas.era) << REVISION_BITS) | BigInt.asUintN(Number(REVISION_BITS), BigInt(revision))

export class EdgeState {
  readonly #ctx: Context
  readonly #send: (settings: EdgeSettings) => void
  readonly #reported = new Map<number, number>()
  #serverId: number | undefined

  constructor(ctx: Context, send: (settings: EdgeSettings) => void) {
    this.#ctx = ctx
    this.#send = send
  }

  async sendComplete(serverId: number): Promise<void> {
    this.#serverId = serverId
    this.#reported.clear()
    await this.sendChanges()
  }

  async sendChanges(): Promise<void> {
    if (this.#serverId === undefined) return
    const isReported = (id: number, revision: number) => this.#reported.get(id) === revision
    const values = (await readEdgeForDispatch(this.#ctx, this.#serverId, isReported)).reveal()
    for (let at = 0; at < values.length; at += EDGE.environmentsPerMessage) {
      const part = values.slice(at, at + EDGE.environmentsPerMessage)
      const environments = part.map(({ environmentId, revision, basicAuth }) => ({
        environmentId,
        revision: revisionOnWire(this.#ctx, revision),
        ...(basicAuth ? { basicAuth } : {}),
      }))
      this.#send(create(EdgeSettingsSchema, { environments }))
      for (const { environmentId, revision } of part) this.#reported.set(environmentId, revision)
    }
  }
}
