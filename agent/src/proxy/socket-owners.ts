// Finds the account that must own a routed socket: the one in the route, or for a route of an earlier version the one
// of the environment's number. Invariant: as root, a socket of unknown owner is never dialled.
import { PROXY } from '../limits/proxy.ts'
import { findAccount, isRoot } from '../machine/users/users.ts'
import type { AgentSettings } from '../settings.ts'
import type { SocketTarget } from './protocol.ts'

export class SocketOwners {
  readonly #prefix: string
  /** By environment. */
  readonly #known = new Map<number, number>()
  /** Limits the search for a missing account to one per second. */
  readonly #askedAt = new Map<number, number>()

  constructor({ accountPrefix }: Pick<AgentSettings, 'accountPrefix'>) {
    this.#prefix = accountPrefix
  }

  /** Undefined when there is no owner; the socket must not be dialled. */
  async find(environmentId: number, { uid }: SocketTarget): Promise<number | undefined> {
    if (!isRoot()) return process.getuid?.()
    const found = uid ?? this.#known.get(environmentId) ?? (await this.#look(environmentId))
    return found !== undefined && found > 0 ? found : undefined
  }

  async #look(environmentId: number): Promise<number | undefined> {
    const now = performance.now()
    if (now - (this.#askedAt.get(environmentId) ?? Number.NEGATIVE_INFINITY) < PROXY.relinkMs)
      return
    this.#askedAt.set(environmentId, now)
    const account = await findAccount(`${this.#prefix}${environmentId}`)
    if (account) this.#known.set(environmentId, account.uid)
    return account?.uid
  }
}
