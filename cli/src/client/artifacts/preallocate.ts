// Creates empty files for upcoming downloads while the client waits for the server, because creating one can take
// longer than its bytes. Best effort: a file that could not be created is created in its turn, which reports the error.
// No threads: they would contend for the folder and for processors that the connection needs. Invariants: bounded, only
// in one folder that was already entered, and files that were not taken are removed.
import { closeSync } from 'node:fs'
import { CLIENT } from '../../limits/client.ts'
import { makePart, type Part, removePart } from './parts.ts'

export class PartsAhead {
  #folder = ''
  #wanted = 0
  #ready: Part[] = []
  #next: NodeJS.Immediate | undefined
  #isOver = false

  /** One for this folder, if available; from now on up to `more` are created there. */
  take(folder: string, more: number): Part | undefined {
    if (folder !== this.#folder) this.#removeReady()
    this.#folder = folder
    this.#wanted = this.#isOver ? 0 : Math.min(more, CLIENT.filesAhead)
    const part = this.#ready.shift()
    this.#go()
    return part
  }

  #go(): void {
    if (this.#next !== undefined || this.#ready.length >= this.#wanted) return
    this.#next = setImmediate(() => {
      this.#next = undefined
      this.#make()
      this.#go()
    })
  }

  /** Works in short slices, so that the event loop can run in between. */
  #make(): void {
    const endsAt = performance.now() + CLIENT.filesAheadMs
    try {
      while (this.#ready.length < this.#wanted && performance.now() < endsAt) {
        this.#ready.push(makePart(this.#folder))
      }
    } catch {
      this.close() // too many files may be open, and others need theirs
    }
  }

  #removeReady(): void {
    for (const { fd, path } of this.#ready.splice(0)) {
      closeSync(fd)
      removePart(path)
    }
  }

  /** Removes the files that were not taken. */
  close(): void {
    this.#isOver = true
    this.#wanted = 0
    clearImmediate(this.#next)
    this.#next = undefined
    this.#removeReady()
  }
}
