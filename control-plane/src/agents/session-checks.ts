// Ends transfers whose agent another control plane holds, soon after the agent's session ended: a revoked agent finishes
// none. One query for all of them, only while there are some.
import { PEERS } from '../limits/peers.ts'
import type { Db } from '../store/engine/db.ts'
import { listSessionEpochs } from '../store/servers/agents.ts'

interface Checked {
  readonly agentId: string
  /** The upload has begun; before that, the agent may be on its way to another control plane. */
  readonly isTaken: boolean
}

export class SessionChecks {
  readonly #db: Db
  /** With the epoch of the session that sends it, once known. */
  readonly #open = new Map<Checked, { epoch: number | undefined; onEnd: () => void }>()
  #timer: NodeJS.Timeout | undefined
  #isLooking = false

  constructor(db: Db) {
    this.#db = db
  }

  /** Returns the function that ends the checks. */
  add(transfer: Checked, onEnd: () => void): () => void {
    this.#open.set(transfer, { epoch: undefined, onEnd })
    this.#timer ??= setInterval(() => {
      if (this.#isLooking) return
      this.#isLooking = true
      this.look()
        .catch(() => undefined) // the database is away; the next look comes soon
        .finally(() => {
          this.#isLooking = false
        })
    }, PEERS.sessionLookMs).unref()
    return () => {
      this.#open.delete(transfer)
      if (this.#open.size > 0) return
      clearInterval(this.#timer)
      this.#timer = undefined
    }
  }

  async look(): Promise<void> {
    const ids = new Set([...this.#open.keys()].map(({ agentId }) => agentId))
    const epochs = await listSessionEpochs(this.#db, [...ids])
    for (const [transfer, check] of [...this.#open]) {
      if (!transfer.isTaken) continue
      const epoch = epochs.get(transfer.agentId)
      check.epoch ??= epoch
      if (epoch === undefined || epoch !== check.epoch) check.onEnd()
    }
  }
}
