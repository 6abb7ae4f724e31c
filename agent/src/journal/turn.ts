// A mutex across the processes of this agent: a SQLite write lock on a separate file, which the kernel releases when a
// process dies. A waiting process polls the lock and never blocks.
import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { FIREWALL } from '../limits/machine.ts'

/** Throws when others hold it for unreasonably long. */
export async function inTurn<T>(file: string, act: () => Promise<T>): Promise<T> {
  mkdirSync(dirname(file), { recursive: true, mode: 0o711 })
  const db = new Database(file, { timeout: 0 })
  try {
    const end = performance.now() + FIREWALL.turnMs
    while (!tryBegin(db)) {
      if (performance.now() > end) throw new Error(`${file} is held by another process`)
      await delay(FIREWALL.turnPollMs)
    }
    return await act()
  } finally {
    db.close() // ends the transaction, which wrote nothing
  }
}

function tryBegin(db: Database.Database): boolean {
  try {
    db.prepare('BEGIN EXCLUSIVE').run()
    return true
  } catch (error) {
    if ((error as { code?: string }).code?.startsWith('SQLITE_BUSY')) return false
    throw error
  }
}
