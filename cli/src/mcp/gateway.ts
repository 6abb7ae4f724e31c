// Connects to the control plane for each call: with the current login, at the installation that the first call found. A
// login elsewhere in between must not redirect a call, or the fixed project and environment, to another installation.
import type { Api } from '../client/api.ts'
import { connectAs, findIdentity, type SessionFlags } from '../client/login.ts'
import { type Io, sleepUnlessInterrupted } from '../terminal/io.ts'

interface Opened {
  api: Api
  /** Ends with the call. */
  io: Io
}

export interface Gateway {
  /** Undefined: there was no login yet. */
  readonly baseUrl: string | undefined
  open(signal: AbortSignal): Promise<Opened>
}

export function createGateway(flags: SessionFlags, io: Io): Gateway {
  let baseUrl: string | undefined
  return {
    get baseUrl() {
      return baseUrl
    },
    async open(signal) {
      const interrupted = AbortSignal.any([io.interrupted, signal])
      const callIo: Io = {
        ...io,
        stdout: io.stderr, // stdout belongs to the protocol
        env: baseUrl === undefined ? io.env : { ...io.env, BERTH_URL: baseUrl },
        interrupted,
        sleep: (ms) => sleepUnlessInterrupted(ms, interrupted),
      }
      const given = baseUrl === undefined ? flags : { ...flags, url: undefined }
      const identity = await findIdentity(given, callIo)
      baseUrl ??= identity.baseUrl
      return { api: await connectAs(identity, given, callIo, 'mcp'), io: callIo }
    },
  }
}
