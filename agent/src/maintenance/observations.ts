// What is known of the environments that run here, for the control plane: the newest view of each, and whether the
// first check is complete. Each session sends everything once and then what changed.

/** Like ObservedService on the wire. */
interface ObservedService {
  name: string
  state: string
  health: string
  restarts: number
  outOfMemory: boolean
  /** Containers that it should have, and those of them that serve; zeros: not counted. */
  replicas: number
  replicasUp: number
}

/** Like ObservedEnvironment on the wire. */
export interface ObservedEnvironment {
  environmentId: number
  commitSha: string
  fence: bigint
  services: ObservedService[]
  /** One sentence; empty: it runs as it was deployed. */
  degradedReason: string
}

const isSame = (a: ObservedEnvironment, b: ObservedEnvironment): boolean => {
  const text = (view: ObservedEnvironment): string =>
    JSON.stringify({ ...view, fence: String(view.fence) })
  return text(a) === text(b)
}

export class Observations {
  readonly #views = new Map<number, { view: ObservedEnvironment; version: number }>()
  readonly #listeners = new Set<() => void>()
  readonly #ready = Promise.withResolvers<void>()
  #version = 0

  /** Every environment was checked once, or cannot be. */
  get ready(): Promise<void> {
    return this.#ready.promise
  }

  setReady(): void {
    this.#ready.resolve()
  }

  get version(): number {
    return this.#version
  }

  set(view: ObservedEnvironment): void {
    const known = this.#views.get(view.environmentId)
    if (known && isSame(known.view, view)) return
    this.#version += 1
    this.#views.set(view.environmentId, { view, version: this.#version })
    for (const listener of this.#listeners) listener()
  }

  /** No version of it runs; reported as an environment without services until the daemon restarts. */
  clear(environmentId: number): void {
    if (!this.#views.has(environmentId)) return
    this.set({ environmentId, commitSha: '', fence: 0n, services: [], degradedReason: '' })
  }

  find(environmentId: number): ObservedEnvironment | undefined {
    return this.#views.get(environmentId)?.view
  }

  /** By environment: the services that were seen running. */
  listRunning(): Map<number, string[]> {
    const running = [...this.#views.values()].map(({ view }): [number, string[]] => [
      view.environmentId,
      view.services.filter(({ state }) => state === 'running').map(({ name }) => name),
    ])
    return new Map(running.filter(([, names]) => names.length > 0))
  }

  /** Those that changed after this version; 0: all. */
  since(version: number): ObservedEnvironment[] {
    return [...this.#views.values()].filter((v) => v.version > version).map(({ view }) => view)
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }
}
