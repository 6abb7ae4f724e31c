// Whose a routed socket must be: the account of its environment. The route says it; of a route that a former version
// wrote, the environment's number tells the account. Invariant: as root no socket is dialled whose owner is not known.
import { PROXY } from '@berth/shared'
import { findAccount, isRoot } from '../machine/users/users.ts'
import type { AgentSettings } from '../settings.ts'
import type { SocketTarget } from './protocol.ts'

export class SocketOwners {
  readonly #prefix: string
  /** By environment. */
  readonly #known = new Map<number, number>()
  /** An account that is not there is asked for once a second. */
  readonly #askedAt = new Map<number, number>()

  constructor({ accountPrefix }: Pick<AgentSettings, 'accountPrefix'>) {
    this.#prefix = accountPrefix
  }

  /** Undefined: nobody's; it must not be dialled. */
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
