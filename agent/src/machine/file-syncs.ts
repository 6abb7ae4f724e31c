// Runs fdatasync of open files off the main thread, and closes them without a race. A descriptor that is closed while
// its sync waits for a thread may belong to another file when the sync runs, so closing waits for pending syncs.
import { closeSync, fdatasync, fsync } from 'node:fs'
import { promisify } from 'node:util'

const syncData = promisify(fdatasync)
const syncNames = promisify(fsync)

export class FileSyncs {
  #underWay = 0
  #toClose: number[] = []

  data(fd: number): Promise<void> {
    return this.#run(() => syncData(fd))
  }

  /** Syncs the names in a folder. */
  names(folderFd: number): Promise<void> {
    return this.#run(() => syncNames(folderFd))
  }

  close(fd: number): void {
    if (this.#underWay === 0) closeSync(fd)
    else this.#toClose.push(fd)
  }

  async #run(sync: () => Promise<void>): Promise<void> {
    this.#underWay++
    try {
      await sync()
    } finally {
      this.#underWay--
      if (this.#underWay === 0) for (const fd of this.#toClose.splice(0)) closeSync(fd)
    }
  }
}
