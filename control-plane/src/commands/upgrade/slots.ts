// The folders of an installed control plane: one for each version, and the link `current`.
import { readdirSync, rmSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { isSlot, readSlot } from '@berth/shared/slots'

export interface Installation {
  /** /opt/berth-server */
  root: string
  /** The folder of the version that `current` means. */
  current: string
}

/** `main`: the file of this program. Undefined: it does not run from an installed release. */
export function locateInstallation(main: string): Installation | undefined {
  const folder = dirname(dirname(main))
  const root = dirname(folder)
  const current = readSlot(root, 'current')
  return !isSlot(basename(folder)) || current === undefined ? undefined : { root, current }
}

/** Throws a sentence. */
export function findInstallation(main: string): Installation {
  const found = locateInstallation(main)
  if (found) return found
  throw new Error(
    'This control plane does not run from an installed release, so it cannot upgrade itself. In a checkout: git pull. In a container: use the new image.',
  )
}

/** The version before stays for a way back by hand; older ones go. */
export function dropOldSlots(root: string): void {
  const kept = new Set([readSlot(root, 'current'), readSlot(root, 'previous')])
  for (const name of readdirSync(root)) {
    if (isSlot(name) && !kept.has(name)) rmSync(join(root, name), { recursive: true })
  }
}
