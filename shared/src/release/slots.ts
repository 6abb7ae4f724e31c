// Versions of an installed program, agent or control plane: a folder for each, and the links `current` and `previous`
// beside them.
import {
  closeSync,
  fsyncSync,
  openSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { basename, join } from 'node:path'

/** The name of a folder that holds a version. */
export const isSlot = (name: string): boolean => /^\d+\.\d+\.\d+[0-9A-Za-z.+-]*$/.test(name)

/** The name of the folder that a link means. */
export function readSlot(root: string, name: 'current' | 'previous'): string | undefined {
  try {
    return basename(readlinkSync(join(root, name)))
  } catch {
    return undefined
  }
}

/** Atomic, and durable. */
export function pointTo(root: string, name: 'current' | 'previous', slot: string): void {
  const made = join(root, `.${name}`)
  rmSync(made, { force: true })
  symlinkSync(slot, made)
  renameSync(made, join(root, name))
  const folder = openSync(root, 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}
