// A minimal store: one value outside React, with hooks that follow it.
import { useSyncExternalStore } from 'react'

export interface Store<T> {
  get(): T
  set(value: T): void
  subscribe(listener: () => void): () => void
}

export function createStore<T>(first: T): Store<T> {
  let value = first
  const listeners = new Set<() => void>()
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return
      value = next
      for (const listener of listeners) listener()
    },
    subscribe(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}

export const useStore = <T>(store: Store<T>): T => useSyncExternalStore(store.subscribe, store.get)

/** The browser may forbid storage; then choices last as long as the page. */
export function remembered(key: string): { get(): string | null; set(value: string | null): void } {
  return {
    get() {
      try {
        return localStorage.getItem(key)
      } catch {
        return null
      }
    },
    set(value) {
      try {
        if (value === null) localStorage.removeItem(key)
        else localStorage.setItem(key, value)
      } catch {
        // the caller keeps it in memory
      }
    },
  }
}
