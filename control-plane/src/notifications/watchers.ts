// Tracks which logs are watched now. A watched log is sent and committed at short intervals; nothing else depends on
// it.
export class Watchers {
  readonly #counts = new Map<string, number>()
  readonly #listeners = new Set<(attemptId: string, watched: boolean) => void>()

  isWatched(attemptId: string): boolean {
    return this.#counts.has(attemptId)
  }

  /** Returns the function that ends the watching. */
  watch(attemptId: string): () => void {
    this.#add(attemptId, 1)
    let done = false
    return () => {
      if (done) return
      done = true
      this.#add(attemptId, -1)
    }
  }

  onChange(listener: (attemptId: string, watched: boolean) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  #add(attemptId: string, by: 1 | -1): void {
    const before = this.#counts.get(attemptId) ?? 0
    const after = before + by
    if (after === 0) this.#counts.delete(attemptId)
    else this.#counts.set(attemptId, after)
    if (before !== 0 && after !== 0) return
    for (const listener of this.#listeners) listener(attemptId, after > 0)
  }
}
