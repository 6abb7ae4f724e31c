// Decides when a session opens. A connection waits here with its Hello for its turn, which costs no second handshake.
// One whose turn would come after the agent's deadline gets a time at which there is a turn for it, and then goes first.
import { SESSION } from '@berth/shared'
import { WaitingLine } from '../grpc/waiting-line.ts'

export type Admitted =
  /** Call `end` when the session is open or closed. */
  { kind: 'admitted'; end: () => void } | { kind: 'later'; againMs: number }

/** More agents than one control plane serves. */
const PROMISES = 10_000
/** An agent may come this much after its time: a handshake waits too. */
const LATE_MS = 30_000

export class Admission {
  readonly #line: WaitingLine
  /** Agents that were sent away, and until when they go first. */
  readonly #promises = new Map<string, number>()

  constructor(
    line = new WaitingLine({ width: SESSION.openingsAtOnce, patienceMs: SESSION.admissionMs }),
  ) {
    this.#line = line
  }

  enter(agentId: string): Promise<Admitted> {
    return new Promise((resolve) => {
      const isReturned = (this.#promises.get(agentId) ?? 0) > performance.now()
      this.#promises.delete(agentId)
      const entered = this.#line.enter((end) => resolve({ kind: 'admitted', end }), isReturned)
      if (entered.kind === 'entered') return
      const [oldest] = this.#promises.keys()
      if (this.#promises.size >= PROMISES && oldest !== undefined) this.#promises.delete(oldest)
      this.#promises.set(agentId, performance.now() + entered.againMs + LATE_MS)
      resolve({ kind: 'later', againMs: Math.ceil(entered.againMs) })
    })
  }
}
