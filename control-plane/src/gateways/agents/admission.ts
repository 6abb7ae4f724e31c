// Decides when a session opens. A connection waits here with its Hello for its turn, which costs no second handshake.
// One whose turn would come later than the agent waits gets a time at which there is a turn for it, and then goes first.
import { SESSION } from '@berth/shared'
import { WaitingLine } from '../grpc/waiting-line.ts'
import { elsewhereAfterMs } from './policy.ts'

export type Admitted =
  /** Call `end` when the session is open or closed. */
  | { kind: 'admitted'; end: () => void }
  | { kind: 'later'; againMs: number }
  /** Its stream ended, or the agent sent a newer Hello. */
  | { kind: 'gone' }

/** One Hello of an agent. */
interface Newcomer {
  readonly agentId: string
}

interface Waiting {
  who: Newcomer
  leave: (as?: Admitted) => void
}

/** More agents than one control plane serves. */
const PROMISES = 10_000
/** An agent may come this much after its time: a handshake waits too. */
const LATE_MS = 30_000

export class Admission {
  readonly #line: WaitingLine
  readonly #now: () => number
  /** Agents that were sent away, and when they go first. */
  readonly #promises = new Map<string, { from: number; until: number }>()
  /** One of each agent, so that none has more than one place. */
  readonly #waiting = new Map<string, Waiting>()
  /** How many were in line when the control plane began to stop. */
  #leftAtStop: number | undefined

  constructor(
    line = new WaitingLine({ width: SESSION.openingsAtOnce, patienceMs: SESSION.admissionMs }),
    now = () => performance.now(),
  ) {
    this.#line = line
    this.#now = now
  }

  enter(who: Newcomer, patienceMs?: number): Promise<Admitted> {
    const { agentId } = who
    this.#waiting.get(agentId)?.leave()
    if (this.#leftAtStop !== undefined) return Promise.resolve(elsewhere(this.#leftAtStop))
    return new Promise((resolve) => {
      const now = this.#now()
      const { from, until } = this.#promises.get(agentId) ?? { from: now, until: now }
      if (now < from && this.#line.waitMs > 0) {
        resolve({ kind: 'later', againMs: Math.ceil(from - now) })
        return
      }
      const begin = (end: () => void): void => {
        this.#waiting.delete(agentId)
        this.#promises.delete(agentId)
        resolve({ kind: 'admitted', end })
      }
      const isReturned = now >= from && now < until
      const entered = this.#line.enter(begin, { isReturned, patienceMs })
      if (entered.kind === 'refused') {
        this.#promise(agentId, now + entered.againMs)
        resolve({ kind: 'later', againMs: Math.ceil(entered.againMs) })
        return
      }
      if (!entered.isWaiting) return
      const leave = (as: Admitted = { kind: 'gone' }): void => {
        entered.leave()
        this.#waiting.delete(agentId)
        resolve(as)
      }
      this.#waiting.set(agentId, { who, leave })
    })
  }

  /** Its stream has ended. */
  leave(who: Newcomer): void {
    const waiting = this.#waiting.get(who.agentId)
    if (waiting?.who === who) waiting.leave()
  }

  /** Sends everyone in line elsewhere, and those who still come. */
  stop(): void {
    const all = [...this.#waiting.values()]
    this.#leftAtStop = all.length
    for (const { leave } of all) leave(elsewhere(all.length))
  }

  #promise(agentId: string, at: number): void {
    this.#promises.delete(agentId)
    const [oldest] = this.#promises.keys()
    if (this.#promises.size >= PROMISES && oldest !== undefined) this.#promises.delete(oldest)
    this.#promises.set(agentId, { from: at, until: at + LATE_MS })
  }
}

const elsewhere = (agents: number): Admitted => ({
  kind: 'later',
  againMs: elsewhereAfterMs(agents),
})
