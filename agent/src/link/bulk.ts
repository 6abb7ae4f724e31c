// The second connection of a session, for byte streams, so that a full upload queue never delays a heartbeat. Opened by
// the first transfer, closed when idle. Large files get a connection for each transfer; if one cannot be opened, the
// session stops trying. All of them are cut when the session ends.
import type { EventEmitter } from 'node:events'
import type { TLSSocket } from 'node:tls'
import { TRANSFERS } from '@berth/shared'
import { dialFileLine, mayDial } from './bulk-transfer.ts'
import { openChannel } from './channel.ts'
import type { Identity } from './identity/identity.ts'
import type { AgentClient } from './identity/renewal.ts'

type DialFileLine = (signal: AbortSignal) => Promise<TLSSocket>

export class BulkLine {
  readonly #dial: () => AgentClient
  #dialFileLine: DialFileLine | undefined
  #client: AgentClient | undefined
  readonly #ends = new Set<() => void>()
  readonly #fileLines = new Set<() => void>()
  #idle: NodeJS.Timeout | undefined
  #closed = false

  constructor(dial: () => AgentClient, dialFileLine?: DialFileLine) {
    this.#dial = dial
    this.#dialFileLine = dialFileLine
  }

  static to(identity: Identity, endpoint: string): BulkLine {
    return new BulkLine(
      () => openChannel(identity, endpoint),
      mayDial(endpoint) ? (signal) => dialFileLine(identity, endpoint, signal) : undefined,
    )
  }

  /** The client for one transfer; calls `end` when the connection is cut. Call `done` when the transfer is over. */
  use(end: () => void): { client: AgentClient; done: () => void } {
    if (this.#closed) throw new Error('there is no session')
    clearTimeout(this.#idle)
    this.#client ??= this.#dial()
    this.#ends.add(end)
    return {
      client: this.#client,
      done: () => {
        if (!this.#ends.delete(end) || this.#ends.size > 0 || this.#closed) return
        this.#idle = setTimeout(() => this.#hangUp(), TRANSFERS.connectionIdleMs)
        this.#idle.unref()
      },
    }
  }

  /** A connection for one transfer, destroyed with the session; undefined: none is available, use the client. */
  async openFileLine(): Promise<TLSSocket | undefined> {
    if (this.#closed) throw new Error('there is no session')
    const dial = this.#dialFileLine
    if (!dial) return undefined
    const stop = new AbortController()
    let end = (): void => stop.abort()
    const cut = (): void => end()
    this.#fileLines.add(cut)
    try {
      const socket = await dial(stop.signal)
      socket.once('close', () => this.#fileLines.delete(cut))
      end = () => socket.destroy()
      return socket
    } catch (error) {
      this.#fileLines.delete(cut)
      if (this.#closed) throw error
      this.#dialFileLine = undefined
      return undefined
    }
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    for (const end of [...this.#ends, ...this.#fileLines]) end()
    this.#ends.clear()
    this.#hangUp()
  }

  #hangUp(): void {
    clearTimeout(this.#idle)
    this.#client?.close()
    this.#client = undefined
  }
}

export interface UploadEnd {
  /** Call when the first message has been sent. */
  opened(): void
  cancel(): void
}

/**
 * Cancels an upload reliably. If a call is canceled before it has its stream, grpc-js still opens one, sends what was
 * written and leaves it open, and the peer waits; so the cancellation waits for the first message.
 */
export function uploadEnd(call: { cancel(): void }): UploadEnd {
  let isOpen = false
  let isWanted = false
  return {
    opened() {
      isOpen = true
      if (isWanted) call.cancel()
    },
    cancel() {
      isWanted = true
      if (isOpen) call.cancel()
    },
  }
}

/** Resolves when the stream takes more; rejects when the reader takes nothing for too long. */
export const drained = (
  call: Pick<EventEmitter, 'on' | 'off'>,
  signal: AbortSignal,
): Promise<void> =>
  whileTaken(signal, (taken) => {
    const drained = (): void => taken()
    call.on('drain', drained)
    return () => call.off('drain', drained)
  })

/** Resolves when these bytes were sent and their buffer may be reused; same time limit. */
export const flushed = (socket: TLSSocket, bytes: Buffer, signal: AbortSignal): Promise<void> =>
  whileTaken(signal, (taken) => void socket.write(bytes, taken))

function whileTaken(
  signal: AbortSignal,
  begin: (taken: (error?: unknown) => void) => (() => void) | undefined,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (error?: unknown): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', left)
      stop?.()
      if (error) reject(error)
      else resolve()
    }
    const left = (): void => settle(signal.reason)
    const timer = setTimeout(() => settle(new Error('nobody takes it')), TRANSFERS.idleMs)
    signal.addEventListener('abort', left)
    const stop = begin(settle)
    if (signal.aborted) left()
  })
}
