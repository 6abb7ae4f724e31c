// Makes files and folders private to our user, regardless of the umask and the release that created them.
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  type Stats,
  statSync,
} from 'node:fs'
import { dirname } from 'node:path'

const OTHERS = 0o077

/** A volume that a container gets through its group (fsGroup) is not; what we create in it is private by itself. */
export function isOursToChange({ uid }: Stats): boolean {
  const me = process.geteuid?.()
  return me === 0 || uid === me
}

/** Removes all permissions of group and others; skips a missing path, and one of another user. */
function restrict(path: string, mode: number): void {
  const found = statSync(path, { throwIfNoEntry: false })
  if (!found || (found.mode & OTHERS) === 0) return
  if (isOursToChange(found)) chmodSync(path, mode)
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
