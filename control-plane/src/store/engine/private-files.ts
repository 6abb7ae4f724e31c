// Makes files and folders private to our user, regardless of the umask and the release that created them.
import { chmodSync, closeSync, existsSync, mkdirSync, openSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

const OTHERS = 0o077

/**
 * Removes all permissions of group and others; skips a missing path, and one of another user: a volume that a container
 * gets through its group (fsGroup) is not ours to change, and what we create in it is private by itself.
 */
function restrict(path: string, mode: number): void {
  const found = statSync(path, { throwIfNoEntry: false })
  if (!found || (found.mode & OTHERS) === 0) return
  const me = process.geteuid?.()
  if (me === 0 || found.uid === me) chmodSync(path, mode)
}

export function makePrivateFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  restrict(folder, 0o700)
}

/** SQLite copies the permissions of the database to the files beside it. */
export function makePrivateDatabase(file: string): void {
  if (file === ':memory:') return
  closeSync(openSync(file, 'a', 0o600))
  for (const each of [file, `${file}-wal`, `${file}-shm`, `${file}-journal`]) restrict(each, 0o600)
}

/** The nearest folder that exists: a missing one is created when it is used. */
export function nearestFolder(folder: string): string {
  let at = folder
  while (!existsSync(at) && dirname(at) !== at) at = dirname(at)
  return at
}
