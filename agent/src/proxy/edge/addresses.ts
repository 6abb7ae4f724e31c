// Where routed containers are reached: their addresses, looked up when the edge starts, when the engine says that
// something happened, and now and then. Invariant: an engine that cannot be asked changes nothing; only its own word
// that a container is gone takes an address away.
import { PROXY } from '@berth/shared'

/** The engine, as far as the edge needs it. */
export interface AddressBook {
  /** Null: it does not run. Rejects when the engine cannot be asked. */
  addressOf(containerId: string): Promise<string | null>
  /** Called when something may have changed, everything or one container; returns how to end it. */
  onChange(listener: (containerId?: string) => void): () => void
}

export class Addresses {
  readonly #book: AddressBook
  readonly #known = new Map<string, string>()
  readonly #ofTable: () => string[]
  /** Of changes on their way into the table: who waits for each. */
  readonly #held = new Map<string, number>()
  readonly #onNews: () => void
  #looking: Promise<void> | undefined
  #again = false
  #end: () => void = () => undefined
  #timer: NodeJS.Timeout | undefined

  /** `wanted`: containers of the table; `onNews`: an address came, went or changed. */
  constructor(book: AddressBook, wanted: () => string[], onNews: () => void) {
    this.#book = book
    this.#ofTable = wanted
    this.#onNews = onNews
  }

  #wanted(): string[] {
    return [...new Set([...this.#ofTable(), ...this.#held.keys()])]
  }

  /** Another change meanwhile must not forget what this one has learned; returns how to let go of them. */
  hold(ids: readonly string[]): () => void {
    for (const id of ids) this.#held.set(id, (this.#held.get(id) ?? 0) + 1)
    return () => {
      for (const id of ids) {
        const others = (this.#held.get(id) ?? 0) - 1
        if (others > 0) this.#held.set(id, others)
        else this.#held.delete(id)
      }
    }
  }

  /** What was known before a restart, until the engine says otherwise. */
  remember(known: Record<string, string>): void {
    for (const [id, address] of Object.entries(known)) this.#known.set(id, address)
  }

  find(containerId: string): string | undefined {
    return this.#known.get(containerId)
  }

  all(): Record<string, string> {
    return Object.fromEntries(this.#known)
  }

  open(): void {
    this.#end = this.#book.onChange((id) => {
      if (id === undefined || this.#wanted().includes(id)) void this.look()
    })
    this.#timer = setInterval(() => void this.look(), PROXY.addressesMs)
  }

  close(): void {
    clearInterval(this.#timer)
    this.#end()
  }

  /** Asks for all that are wanted; a call during a look makes one more. */
  look(): Promise<void> {
    if (this.#looking) {
      this.#again = true
      return this.#looking
    }
    this.#looking = this.#lookOnce().finally(() => {
      this.#looking = undefined
      if (!this.#again) return
      this.#again = false
      void this.look()
    })
    return this.#looking
  }

  /** Before a route leads there; undefined: it does not run. */
  async learn(containerId: string): Promise<string | undefined> {
    this.#keep(containerId, await this.#book.addressOf(containerId))
    return this.#known.get(containerId)
  }

  async #lookOnce(): Promise<void> {
    const wanted = this.#wanted()
    let isNews = false
    for (const id of wanted) {
      try {
        if (this.#keep(id, await this.#book.addressOf(id))) isNews = true
      } catch {
        // the engine is away: what was true a moment ago is the best there is
      }
    }
    if (isNews) this.#onNews()
  }

  forgetOthers(): void {
    const wanted = new Set(this.#wanted())
    for (const id of this.#known.keys()) if (!wanted.has(id)) this.#known.delete(id)
  }

  #keep(id: string, address: string | null): boolean {
    if ((this.#known.get(id) ?? null) === address) return false
    if (address === null) this.#known.delete(id)
    else this.#known.set(id, address)
    return true
  }
}
