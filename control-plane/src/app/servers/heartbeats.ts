// Heartbeats of many agents, written together: thousands of agents send hundreds in a second, and a statement and a
// commit for each would be most of what an idle fleet costs. The first one is written at once, those that come soon
// after it wait for each other.
import type { HostUsage } from '@berth/shared/wire'
import type { Context } from '../../context.ts'
import { HEARTBEATS } from '../../limits/installation.ts'
import { touchSessions } from '../../store/servers/agents.ts'
import { change } from '../core/transaction.ts'
import { type Report, recordUsage } from './facts.ts'

export interface Beat {
  agentId: string
  epoch: number
  serverId: number
  diskFreeBytes: number
  dockerOk: boolean
  proxyOk: boolean
  /** About once a minute. */
  usage?: HostUsage | undefined
}

interface Waiting {
  beat: Beat
  resolve: (isCurrent: boolean) => void
  reject: (error: unknown) => void
}

type Write = (beats: readonly Beat[]) => Promise<Set<string>>

export class Heartbeats {
  readonly #write: Write
  #waiting: Waiting[] = []
  #writing: Promise<void> | undefined
  #writtenAt = Number.NEGATIVE_INFINITY
  #timer: NodeJS.Timeout | undefined

  constructor(write: Write) {
    this.#write = write
  }

  static of(ctx: Context): Heartbeats {
    return new Heartbeats((beats) => writeBeats(ctx, beats))
  }

  /** Resolves when it is stored; false if the session is not the agent's newest. One at a time for each session. */
  note(beat: Beat): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ beat, resolve, reject })
      this.#plan()
    })
  }

  /** Writes what waits. */
  async close(): Promise<void> {
    clearTimeout(this.#timer)
    while (this.#waiting.length > 0 || this.#writing) await (this.#writing ?? this.#flush())
  }

  #plan(): void {
    if (this.#writing || this.#timer || this.#waiting.length === 0) return
    const rest = this.#writtenAt + HEARTBEATS.togetherMs - performance.now()
    this.#timer = setTimeout(() => void this.#flush(), Math.max(0, rest))
  }

  #flush(): Promise<void> {
    this.#timer = undefined
    this.#writtenAt = performance.now()
    this.#writing = this.#writeAll(this.#takeSome()).finally(() => {
      this.#writing = undefined
      this.#plan()
    })
    return this.#writing
  }

  /** The oldest; at most one of each agent, since a statement changes a row once. */
  #takeSome(): Waiting[] {
    const taken = new Map<string, Waiting>()
    const left: Waiting[] = []
    for (const one of this.#waiting) {
      const fits = taken.size < HEARTBEATS.together && !taken.has(one.beat.agentId)
      if (fits) taken.set(one.beat.agentId, one)
      else left.push(one)
    }
    this.#waiting = left
    return [...taken.values()]
  }

  async #writeAll(batch: Waiting[]): Promise<void> {
    try {
      const current = await this.#write(batch.map(({ beat }) => beat))
      for (const { beat, resolve } of batch) resolve(current.has(beat.agentId))
    } catch (error) {
      // a report that the database does not take must end the session of its own agent only
      if (batch.length === 1) batch[0]?.reject(error)
      else for (const one of batch) await this.#writeAll([one])
    }
  }
}

const writeBeats = (ctx: Context, beats: readonly Beat[]): Promise<Set<string>> =>
  change(ctx, async (c) => {
    const current = await touchSessions(c.db, beats, c.now)
    const reports = beats.flatMap(({ usage, ...beat }): Report[] =>
      usage && current.has(beat.agentId) ? [{ ...beat, usage }] : [],
    )
    if (reports.length > 0) await recordUsage(c, reports)
    return current
  })
