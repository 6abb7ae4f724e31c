// Reports to one session what runs here: everything once, in bounded messages, then changes, at most every few seconds.
// Observations are not journaled; the next session repeats what one did not receive.

import type { ObservedSchema } from '@berth/shared/wire'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { MAINTENANCE } from '../limits/maintenance.ts'
import type { Host } from '../maintenance/host.ts'
import type { Observations, ObservedEnvironment } from '../maintenance/observations.ts'

type Observed = MessageInitShape<typeof ObservedSchema>

interface ObservedOptions {
  observations: Observations
  host: Pick<Host, 'info'>
  send: (observed: Observed) => void
}

export class ObservedSender {
  readonly #o: ObservedOptions
  readonly #unlisten: () => void
  /** Undefined: the complete set was not sent yet. */
  #reported: number | undefined
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: ObservedOptions) {
    this.#o = options
    this.#unlisten = options.observations.onChange(() => this.#plan())
    // the first check may hang on an unresponsive engine, which must not block the session
    this.#timer = setTimeout(() => this.#reportAll(), MAINTENANCE.observedMs)
    void options.observations.ready.then(() => this.#reportAll())
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#unlisten()
  }

  #reportAll(): void {
    if (this.#isClosed || this.#reported !== undefined) return
    clearTimeout(this.#timer)
    const { observations, host } = this.#o
    const all = observations.since(0)
    this.#reported = observations.version
    this.#send(all, { complete: true, host: host.info() })
    this.#rest()
  }

  /** Pauses; changes meanwhile are sent together. */
  #rest(): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#o.observations.version !== this.#reported) this.#reportChanges()
    }, MAINTENANCE.observedMs)
    this.#timer.unref()
  }

  #plan(): void {
    if (this.#reported === undefined || this.#timer !== undefined) return
    this.#reportChanges()
  }

  #reportChanges(): void {
    if (this.#isClosed || this.#reported === undefined) return
    const { observations } = this.#o
    const changed = observations.since(this.#reported)
    this.#reported = observations.version
    this.#send(changed, { complete: false })
    this.#rest()
  }

  #send(
    environments: ObservedEnvironment[],
    { complete, host }: { complete: boolean; host?: ReturnType<Host['info']> },
  ): void {
    const size = MAINTENANCE.observedPerMessage
    for (let from = 0; from === 0 || from < environments.length; from += size) {
      const last = from + size >= environments.length
      const some = environments.slice(from, from + size)
      this.#o.send({ complete, last, environments: some, ...(from === 0 && host ? { host } : {}) })
    }
  }
}
