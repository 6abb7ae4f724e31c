// Empty files for those that come next, made in the moments in which the server is waited for: making one can take longer
// than its bytes do. Only a help: what could not be made is made in its turn, and then says why not. Not by other threads:
// they would wait for each other at the folder, on processors that the connection needs. Invariants: never more at once
// than the bound; in one folder, that was entered before; what nobody took is removed.
import { closeSync } from 'node:fs'
import { CLIENT } from '@berth/shared/client-limits'
import { makePart, type Part, removePart } from './parts.ts'

export class PartsAhead {
  #folder = ''
  #wanted = 0
  #ready: Part[] = []
  #next: NodeJS.Immediate | undefined
  #isOver = false

  /** One for this folder, if there is one; from now on so many more are made there. */
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

  /** For a moment: whoever has something to say is heard in between. */
  #make(): void {
    const endsAt = performance.now() + CLIENT.filesAheadMs
    try {
      while (this.#ready.length < this.#wanted && performance.now() < endsAt) {
        this.#ready.push(makePart(this.#folder))
      }
    } catch {
      this.close() // there may be too many open files: others need theirs
    }
  }

  #removeReady(): void {
    for (const { fd, path } of this.#ready.splice(0)) {
      closeSync(fd)
      removePart(path)
    }
  }

  /** Nothing is left of those that nobody took. */
  close(): void {
    this.#isOver = true
    this.#wanted = 0
    clearImmediate(this.#next)
    this.#next = undefined
    this.#removeReady()
  }
}
