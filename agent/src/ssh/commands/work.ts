// What a command of a session does, as one shape: input goes in, output comes out masked, it ends by itself or is ended.
import type { Ending, TerminalSize } from '../sessions/frames.ts'

export interface Work {
  /** False: wait until `whenReady` before more. */
  input(chunk: Buffer): boolean
  whenReady(go: () => void): void
  /** False: a session of this verb ends with its input. */
  endInput(): boolean
  resize(size: TerminalSize): void
  done: Promise<Ending>
  /** Resolves when nothing of it is left. */
  end(): Promise<void>
}

/** For verbs that take nothing. */
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
