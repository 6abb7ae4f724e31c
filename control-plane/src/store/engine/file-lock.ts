// A lock that the kernel releases when its process dies, so a start after a crash does not wait.
import { closeSync, openSync } from 'node:fs'
import Database from 'better-sqlite3'

export interface Hold {
  release(): Promise<void>
}

/** A handle without a reference would be collected, and its lock with it. */
const held = new Set<Database.Database>()

/** Returns undefined if another process holds the lock. */
export function holdFile(file: string): Hold | undefined {
  closeSync(openSync(file, 'a', 0o600))
  const lock = new Database(file, { timeout: 0 })
  try {
    lock.exec('begin exclusive') // never ended, because nothing is written
    held.add(lock)
    return {
      async release() {
        held.delete(lock)
        lock.close()
      },
    }
  } catch (error) {
    lock.close()
    if ((error as { code?: string }).code === 'SQLITE_BUSY') return undefined
    throw error
  }
}
