// A value that must never be printed by accident: JSON, inspection and string conversion show a word
// instead. The value leaves through `reveal()` alone, so that every place that needs it can be found.
const INSPECT = Symbol.for('nodejs.util.inspect.custom')

export class Sensitive<T> {
  readonly #value: T

  constructor(value: T) {
    this.#value = value
  }

  reveal(): T {
    return this.#value
  }

  toString(): string {
    return '[sensitive]'
  }

  toJSON(): string {
    return '[sensitive]'
  }

  [INSPECT](): string {
    return '[sensitive]'
  }
}
