// Files that are written whole and durably, or not at all.
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

/** fsync of a folder makes the names in it durable. */
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
    writeFileSync(fd, bytes) // all of it: on a full disk one write may take a part and say nothing
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  syncFolder(dirname(file))
}

/** Whole or not at all, also after a power loss, and when another process does the same at this moment. */
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
