// Wraps a value that must not be printed by accident: JSON, inspection and string conversion show a word instead. Only
// `reveal()` returns the value, so every use can be found.
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
