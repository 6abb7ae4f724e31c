// Copies the key that encrypts all others, for a safe place. Backups never contain it.
import { closeSync, constants, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs'
import { KekError, loadKek } from './secret-store.ts'

/** Creates `to` with mode 0400; an existing file stays as it is. */
export function copyKek(from: string, to: string): { id: string } {
  const { id } = loadKek(from)
  const content = readFileSync(from)
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants
  let fd: number
  try {
    fd = openSync(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o400)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause
    throw new KekError(`${to} exists already; a key is never replaced.`, { cause })
  }
  try {
    for (let done = 0; done < content.length; ) done += writeSync(fd, content, done)
    fsyncSync(fd)
  } finally {
    content.fill(0)
    closeSync(fd)
  }
  return { id }
}
