// Limits concurrent calls: further calls wait in order of arrival, up to a limit. A call that the MCP host gives up
// leaves the queue.
import { MCP } from '../limits/client.ts'
import { CliError, EXIT } from '../terminal/exit.ts'

export class Turns {
  #running = 0
  readonly #waiting: (() => void)[] = []

  /** Resolves when the call may begin; call the returned function once it has ended. */
  async take(signal: AbortSignal): Promise<() => void> {
    if (this.#running < MCP.calls) this.#running += 1
    else await this.#wait(signal) // a call that ends passes its place on
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      const next = this.#waiting.shift()
      if (next) next()
      else this.#running -= 1
    }
  }

  #wait(signal: AbortSignal): Promise<void> {
    if (this.#waiting.length >= MCP.callsWaiting) {
      const busy = `${MCP.calls} calls are running and ${MCP.callsWaiting} are waiting already`
      return Promise.reject(new CliError(EXIT.refused, busy, 'try again when some have ended'))
    }
    return new Promise((resolve, reject) => {
      const begin = (): void => {
        signal.removeEventListener('abort', leave)
        resolve()
      }
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(begin), 1)
        reject(new CliError(EXIT.interrupted, 'the call was given up'))
      }
      if (signal.aborted) {
        reject(new CliError(EXIT.interrupted, 'the call was given up'))
        return
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#waiting.push(begin)
    })
  }
}
