// fdatasync of open files off the main thread, and closing them without a race: a descriptor that
// is closed while a sync of it waits for a thread may be another file's by the time it runs. So
// closing waits until no sync is under way.
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

  /** The names in a folder. */
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
