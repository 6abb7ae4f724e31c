// The interface of a session's command: it takes input, writes masked output, and ends by itself or is ended.
import type { Ending, TerminalSize } from '../sessions/frames.ts'

export interface Work {
  /** False when the caller must wait for `whenReady` before it sends more. */
  input(chunk: Buffer): boolean
  whenReady(go: () => void): void
  /** False when a session of this verb ends with its input. */
  endInput(): boolean
  resize(size: TerminalSize): void
  done: Promise<Ending>
  /** Resolves when all its processes have ended. */
  end(): Promise<void>
}

/** For verbs without input. */
export const withoutInput = (done: Promise<Ending>, stop: AbortController): Work => ({
  input: () => true,
  whenReady: (go) => go(),
  endInput: () => false,
  resize: () => undefined,
  done,
  async end() {
    stop.abort()
    await done.catch(() => undefined)
  },
})
