// Passes passwords of environments from the control plane to the edge, as desired state by revision. What the edge
// could not take (it is starting) is retried; a newer revision replaces a waiting one. Values are never logged.

import type { EdgeSettings } from '@berth/shared/wire'
import { PROXY } from '../limits/proxy.ts'
import type { Log } from '../log.ts'
import { type EdgeClient, openEdge } from '../proxy/client.ts'
import { EdgeError, type SetAuth } from '../proxy/protocol.ts'
import type { AgentSettings } from '../settings.ts'

export class EdgeReporting {
  readonly #edge: Pick<EdgeClient, 'setAuth'>
  readonly #log: Log
  readonly #waiting = new Map<number, SetAuth>()
  #timer: NodeJS.Timeout | undefined
  #isBusy = false
  #isClosed = false

  constructor(
    settings: AgentSettings,
    log: Log,
    edge: Pick<EdgeClient, 'setAuth'> = openEdge(settings),
  ) {
    this.#edge = edge
    this.#log = log
  }

  report({ environments }: EdgeSettings): void {
    for (const { environmentId, revision, basicAuth } of environments) {
      const known = this.#waiting.get(environmentId)
      if (known && known.revision > revision) continue
      const auth = basicAuth && {
        username: basicAuth.username,
        passwordHash: basicAuth.bcryptHash,
      }
      this.#waiting.set(environmentId, { environmentId, revision, basicAuth: auth ?? null })
    }
    void this.#pass()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  async #pass(): Promise<void> {
    if (this.#isBusy) return
    this.#isBusy = true
    clearTimeout(this.#timer)
    let isAway = false
    // this iteration also visits entries that are added meanwhile
    for (const [id, auth] of this.#waiting) {
      if (this.#isClosed) break
      const done = await this.#passOne(auth)
      if (!done) isAway = true
      else if (this.#waiting.get(id) === auth) this.#waiting.delete(id)
      if (isAway) break
    }
    this.#isBusy = false
    if (this.#isClosed || this.#waiting.size === 0) return
    this.#timer = setTimeout(() => void this.#pass(), isAway ? PROXY.restartMs : 0)
  }

  /** False: retry later. */
  async #passOne(auth: SetAuth): Promise<boolean> {
    try {
      await this.#edge.setAuth(auth)
      return true
    } catch (error) {
      const { kind, message } = error as EdgeError
      if (!(error instanceof EdgeError) || kind === 'unavailable') return false
      const { environmentId } = auth
      if (kind === 'refused') this.#log.error({ environmentId, message }, 'a password was refused')
      return true // the edge has a newer one, or can never accept this one
    }
  }
}
