// Empty files for those that come next, made while the server is still waited for: making one can take longer than its
// bytes do, and other threads do it. Only a help: what could not be made is made in its turn, and then says why not.
// Invariants: never more at once than the bound; in one folder, that was entered before; what nobody took is removed.
import { closeSync, open, rmSync } from 'node:fs'
import { CLIENT } from '@berth/shared/client-limits'
import { nameOfPart, PART_FLAGS, PART_MODE, type Part } from './artifact-file.ts'

const remove = ({ fd, path }: Part): void => {
  closeSync(fd)
  rmSync(path, { force: true })
}

export class PartsAhead {
  #folder = ''
  #wanted = 0
  #ready: Part[] = []
  #opening = 0
  #isOver = false
  #whenQuiet = () => {}

  /** One for this folder, if there is one; from now on so many more are made there. */
  take(folder: string, more: number): Part | undefined {
    if (folder !== this.#folder) this.#removeReady()
    this.#folder = folder
    this.#wanted = this.#isOver ? 0 : more
    const part = this.#ready.shift()
    this.#make()
    return part
  }

  #make(): void {
    if (this.#opening > CLIENT.filesMakingLeast) return
    const most = Math.min(this.#wanted, CLIENT.filesAhead) - this.#ready.length
    while (this.#opening < Math.min(most, CLIENT.filesMaking)) {
      const folder = this.#folder
      const path = nameOfPart(folder)
      this.#opening += 1
      open(path, PART_FLAGS, PART_MODE, (error, fd) => {
        this.#opening -= 1
        if (error) this.#giveUp()
        else if (folder !== this.#folder || this.#wanted === 0) remove({ fd, path })
        else this.#ready.push({ fd, path })
        this.#make()
        if (this.#opening === 0) this.#whenQuiet()
      })
    }
  }

  /** There may be too many open files: others need theirs. */
  #giveUp(): void {
    this.#isOver = true
    this.#wanted = 0
    this.#removeReady()
  }

  #removeReady(): void {
    for (const part of this.#ready.splice(0)) remove(part)
  }

  /** Nothing is left of those that nobody took. */
  async close(): Promise<void> {
    this.#giveUp()
    if (this.#opening === 0) return
    await new Promise<void>((resolve) => {
      this.#whenQuiet = resolve
    })
  }
}
