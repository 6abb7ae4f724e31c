// Files and folders that are nobody else's, whatever the umask was when they were made, and whichever release made them.
import { chmodSync, closeSync, mkdirSync, openSync, statSync } from 'node:fs'

const OTHERS = 0o077

/** Takes every right of others away; what is not there is left alone. */
function restrict(path: string, mode: number): void {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found && (found.mode & OTHERS) !== 0) chmodSync(path, mode)
}

export function makePrivateFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  restrict(folder, 0o700)
}

/** SQLite gives the files beside the database the rights of the database itself. */
export function makePrivateDatabase(file: string): void {
  if (file === ':memory:') return
  closeSync(openSync(file, 'a', 0o600))
  for (const each of [file, `${file}-wal`, `${file}-shm`, `${file}-journal`]) restrict(each, 0o600)
}
