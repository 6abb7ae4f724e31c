// One at a time across the processes of this agent: a write lock of SQLite on a file of its own, which the kernel takes back
// from a process that dies. A waiting process polls the lock and never blocks.
import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { FIREWALL } from '@berth/shared'
import Database from 'better-sqlite3'

/** Throws when others hold it longer than is reasonable. */
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
    db.close() // ends the transaction, in which nothing was written
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
