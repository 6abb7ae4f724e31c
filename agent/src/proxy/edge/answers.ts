// Knows for how long Caddy may still use an answer of the name server that has since changed. A switch has taken effect
// once Caddy has asked again, or has forgotten what it was told; a hostname without requests switches immediately.
import { setTimeout as delay } from 'node:timers/promises'
import { PROXY } from '../../limits/proxy.ts'
import type { FindUpstreams, Upstream } from './name-server.ts'

interface Given {
  at: number
  upstreams: string
}

export class Answers {
  readonly #given = new Map<string, Given>()
  readonly #now: () => number
  /** When too many names are asked to remember all, every switch waits as for a name that was just asked. */
  #uncountedAt = Number.NEGATIVE_INFINITY

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  note(name: string, upstreams: readonly Upstream[]): void {
    const at = this.#now()
    if (!this.#given.has(name) && this.#given.size >= PROXY.rememberedAnswers) {
      this.#forget(at)
      if (this.#given.size >= PROXY.rememberedAnswers) {
        this.#uncountedAt = at
        return
      }
    }
    this.#given.set(name, { at, upstreams: spell(upstreams) })
  }

  /** How long Caddy may still use an answer that differs from `find`; 0 when every name has switched. */
  remainingMs(names: Iterable<string>, find: FindUpstreams): number {
    let last = this.#uncountedAt
    for (const name of names) {
      const given = this.#given.get(name)
      const upstreams = find(name)
      const isFormer = given && upstreams && given.upstreams !== spell(upstreams)
      if (isFormer) last = Math.max(last, given.at)
    }
    return Math.max(0, last + PROXY.settleMs - this.#now())
  }

  /** Waits until Caddy uses the present answers. The bound holds also while answers keep changing. */
  async settle(names: string[], find: FindUpstreams): Promise<void> {
    const end = this.#now() + PROXY.settleMs
    while (this.#now() < end) {
      const remaining = this.remainingMs(names, find)
      if (remaining <= 0) return
      await delay(Math.min(remaining, PROXY.settlePollMs))
    }
  }

  #forget(now: number): void {
    for (const [name, { at }] of this.#given) {
      if (now - at >= PROXY.settleMs) this.#given.delete(name)
    }
  }
}

const spell = (upstreams: readonly Upstream[]): string =>
  upstreams.map(({ address, port }) => `${address}:${port}`).join(' ')
