// Addresses of routed containers: looked up when the edge starts, on events of the engine, and periodically. Invariant:
// an unreachable engine changes nothing; an address is removed only when the engine says that the container is gone.
import { PROXY } from '../../limits/proxy.ts'

/** The part of the engine that the edge needs. */
export interface AddressBook {
  /** Null when it does not run. Rejects when the engine is unreachable. */
  addressOf(containerId: string): Promise<string | null>
  /** Calls the listener when one container, or any, may have changed; returns how to stop. */
  onChange(listener: (containerId?: string) => void): () => void
}

export class Addresses {
  readonly #book: AddressBook
  readonly #known = new Map<string, string>()
  readonly #ofTable: () => string[]
  /** How many pending changes of the table need each container. */
  readonly #held = new Map<string, number>()
  readonly #onNews: () => void
  #looking: Promise<void> | undefined
  #again = false
  #end: () => void = () => undefined
  #timer: NodeJS.Timeout | undefined

  /** `wanted` returns the table's containers; `onNews` is called when an address was added, removed or changed. */
  constructor(book: AddressBook, wanted: () => string[], onNews: () => void) {
    this.#book = book
    this.#ofTable = wanted
    this.#onNews = onNews
  }

  #wanted(): string[] {
    return [...new Set([...this.#ofTable(), ...this.#held.keys()])]
  }

  /** Keeps these addresses while a concurrent change could drop them; returns how to release them. */
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

  /** Uses the addresses from before a restart until the engine reports others. */
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

  /** Looks up all wanted containers; a call during a lookup starts one more. */
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

  /** Called before a route leads to the container; undefined when it does not run. */
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
        // the engine is unreachable: the last known address is the best guess
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
