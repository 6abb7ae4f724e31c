// Limits what a socket may buffer. Streams wait for space before they read on; a reader that stalls, or has too much in
// flight for any reason, is cut off, reconnects and resumes by number. tRPC itself sends without checking.

import type { WebSocket } from 'ws'
import type { Clock } from '../../clock.ts'
import { LIVE } from '../../limits/browser.ts'

const LOOK_MS = 250 // how often the wait for space checks the clock

export class Pace {
  readonly #socket: WebSocket
  readonly #clock: Clock
  #waiting = new Set<() => void>()

  constructor(socket: WebSocket, clock: Clock) {
    this.#socket = socket
    this.#clock = clock
    const send = socket.send.bind(socket)
    socket.send = (data: Parameters<WebSocket['send']>[0]) => {
      if (socket.readyState !== socket.OPEN) return
      send(data, () => this.#release())
      if (socket.bufferedAmount > LIVE.bufferedBytes) socket.terminate()
    }
    socket.once('close', () => this.#release())
  }

  get #canSend(): boolean {
    const { bufferedAmount, readyState, OPEN } = this.#socket
    return bufferedAmount <= LIVE.bufferBytes || readyState !== OPEN
  }

  #release(): void {
    const waiting = this.#waiting
    this.#waiting = new Set()
    for (const go of waiting) go()
  }

  async drained(signal: AbortSignal): Promise<void> {
    const since = this.#clock.now()
    let least = this.#socket.bufferedAmount
    let moved = since
    while (!this.#canSend && !signal.aborted) {
      await this.#turn(signal)
      const { bufferedAmount } = this.#socket
      if (bufferedAmount < least) {
        least = bufferedAmount
        moved = this.#clock.now()
      }
      if (this.#clock.now() - moved > LIVE.stallMs) this.#socket.terminate()
    }
  }

  /** Resolves when data was flushed, the viewer left, or it is time to check the clock. */
  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const finish = (): void => {
        clearTimeout(timer)
        this.#waiting.delete(finish)
        signal.removeEventListener('abort', finish)
        resolve()
      }
      const timer = setTimeout(finish, LOOK_MS)
      signal.addEventListener('abort', finish)
      this.#waiting.add(finish)
    })
  }
}
