// What one session's server was sent of its own settings: everything at the start, then again when something changed.
import { readServerSettings } from '@berth/shared'
import { type ServerSettings, ServerSettingsSchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'
import type { Context } from '../../context.ts'
import { findServer, type Server } from '../../store/servers/servers.ts'
import { listShares } from '../../store/servers/shares.ts'

/** 0 or unset means what the server derives from its own size. */
function toWire(server: Server, shared: boolean): ServerSettings {
  const own = readServerSettings(server.settings)
  return create(ServerSettingsSchema, {
    name: server.name,
    buildMemoryBytes: BigInt(own.build_memory_bytes ?? 0),
    buildCpuMillis: Math.round((own.build_cpus ?? 0) * 1_000),
    ...(own.build_timeout_ms === null
      ? {}
      : { buildTimeout: durationFromMs(own.build_timeout_ms) }),
    buildSlots: own.build_slots ?? 0,
    taskSlots: own.task_slots ?? 0,
    shared,
  })
}

export class ServerSettingsState {
  readonly #ctx: Context
  readonly #send: (settings: ServerSettings) => void
  #serverId: number | undefined
  #sent = ''

  constructor(ctx: Context, send: (settings: ServerSettings) => void) {
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
    const server = await findServer(this.#ctx.db, this.#serverId)
    const shared = (await listShares(this.#ctx.db, [this.#serverId])).size > 0
    const now = server ? JSON.stringify([server.name, server.settings, shared]) : this.#sent
    if (!server || now === this.#sent) return
    this.#sent = now
    this.#send(toWire(server, shared))
  }
}
