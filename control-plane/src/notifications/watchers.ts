// Tracks which logs are watched now, by people here or at another control plane. A watched log is sent and committed at
// short intervals; nothing else depends on it.
type Listener = (attemptId: string, watched: boolean) => void

export class Watchers {
  readonly #all = new Counts()
  readonly #here = new Counts()

  isWatched(attemptId: string): boolean {
    return this.#all.has(attemptId)
  }

  /** For a person here. Returns the function that ends the watching. */
  watch(attemptId: string): () => void {
    const stop = [this.#all.add(attemptId), this.#here.add(attemptId)]
    return () => {
      for (const one of stop) one()
    }
  }

  /** For the people of another control plane. */
  watchForPeer(attemptId: string): () => void {
    return this.#all.add(attemptId)
  }

  onChange(listener: Listener): () => void {
    return this.#all.onChange(listener)
  }

  /** Only of people here. */
  onHere(listener: Listener): () => void {
    return this.#here.onChange(listener)
  }
}

class Counts {
  readonly #counts = new Map<string, number>()
  readonly #listeners = new Set<Listener>()

  has(id: string): boolean {
    return this.#counts.has(id)
  }

  /** Returns the function that takes it back, once. */
  add(id: string): () => void {
    this.#change(id, 1)
    let done = false
    return () => {
      if (done) return
      done = true
      this.#change(id, -1)
    }
  }

  onChange(listener: Listener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  #change(id: string, by: 1 | -1): void {
    const before = this.#counts.get(id) ?? 0
    const after = before + by
    if (after === 0) this.#counts.delete(id)
    else this.#counts.set(id, after)
    if (before !== 0 && after !== 0) return
    for (const listener of this.#listeners) listener(id, after > 0)
  }
}
