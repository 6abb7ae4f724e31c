// How many calls run at once: the next ones wait for their turn, in the order they came, and so many of them at most.
// A host that gives a call up takes it out of the line.
import { MCP } from '@berth/shared/client-limits'
import { CliError, EXIT } from '../terminal/exit.ts'

export class Turns {
  #running = 0
  readonly #waiting: (() => void)[] = []

  /** Resolves when the call may begin; what it gives is called once the call has ended. */
  async take(signal: AbortSignal): Promise<() => void> {
    if (this.#running < MCP.calls) this.#running += 1
    else await this.#wait(signal) // who ends hands its place on
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
