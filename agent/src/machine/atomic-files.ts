// Writes files atomically and durably.
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

/** An fsync of a folder makes the names in it durable. */
export function syncFolder(dir: string): void {
  const fd = openSync(dir, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

export function writeAndSync(
  file: string,
  flags: string,
  bytes: Uint8Array | string,
  mode: number,
): void {
  const fd = openSync(file, flags, mode)
  try {
    writeFileSync(fd, bytes) // writes everything; on a full disk, one write() may write only a part without an error
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  syncFolder(dirname(file))
}

/** Readers see the old or the new content. For files whose loss in a power cut does no harm, as nothing is synced. */
export function replaceUnsynced(file: string, bytes: Uint8Array | string, mode = 0o600): void {
  const temporary = `${file}.${process.pid}.tmp`
  writeFileSync(temporary, bytes, { mode })
  renameSync(temporary, file)
}

/** Atomic, also across a power loss and when another process replaces the same file concurrently. */
export function replaceFile(file: string, bytes: Uint8Array | string, mode = 0o600): void {
  const temporary = `${file}.${process.pid}.tmp`
  try {
    writeAndSync(temporary, 'w', bytes, mode)
    renameSync(temporary, file)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
  syncFolder(dirname(file))
}
