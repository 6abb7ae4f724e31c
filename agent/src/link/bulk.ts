// The second connection of a session, for byte streams: a full uplink queue of it never delays a heartbeat. Opened by the
// first transfer, closed after a while without one, and with the session: whatever is under way then is cut.
import type { EventEmitter } from 'node:events'
import { TRANSFERS } from '@berth/shared'
import type { AgentClient } from './renewal.ts'

export class BulkLine {
  readonly #dial: () => AgentClient
  #client: AgentClient | undefined
  readonly #ends = new Set<() => void>()
  #idle: NodeJS.Timeout | undefined
  #closed = false

  constructor(dial: () => AgentClient) {
    this.#dial = dial
  }

  /** The client for one transfer; `end` is called when the line is cut. Call the returned function when it is over. */
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

  close(): void {
    if (this.#closed) return
    this.#closed = true
    for (const end of [...this.#ends]) end()
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
  /** For the first message: it has left. */
  opened(): void
  cancel(): void
}

/**
 * Ends an upload for good. grpc-js forgets a cancellation that comes before the call has its stream: it opens one all the
 * same, sends what was written and leaves it open, and the other side waits for the rest. So it waits for the first message.
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

/** Until the stream takes more; a reader that takes nothing for too long is given up. */
export function room(call: Pick<EventEmitter, 'on' | 'off'>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (error?: unknown): void => {
      clearTimeout(timer)
      call.off('drain', drained)
      signal.removeEventListener('abort', left)
      if (error === undefined) resolve()
      else reject(error)
    }
    const drained = (): void => settle()
    const left = (): void => settle(signal.reason)
    const timer = setTimeout(() => settle(new Error('nobody takes it')), TRANSFERS.idleMs)
    call.on('drain', drained)
    signal.addEventListener('abort', left)
    if (signal.aborted) left()
  })
}
