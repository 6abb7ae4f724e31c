// Resources that several steps of an attempt share and the first one opens: the engine, the routes, a fetch under way.
// Each module keeps the key of its own part, so the attempt knows none of them.

/** Names a part; its type is that of the part. */
export class PartKey<T> {
  declare readonly part?: T
  readonly name: string
  constructor(name: string) {
    this.name = name
  }
}

export class Parts {
  readonly #open = new Map<PartKey<unknown>, unknown>()

  find<T>(key: PartKey<T>): T | undefined {
    return this.#open.get(key) as T | undefined
  }

  /** Returns the part, and opens it on first use. */
  open<T>(key: PartKey<T>, make: () => T): T {
    if (!this.#open.has(key)) this.#open.set(key, make())
    return this.#open.get(key) as T
  }
}
