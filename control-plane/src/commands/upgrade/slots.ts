// The folders of an installed control plane: one for each version, and the link `current`.
import { existsSync, readdirSync, readlinkSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'

export interface Installation {
  /** /opt/berth-server */
  root: string
  /** The folder of the version that `current` means. */
  current: string
}

const SLOT = /^\d+\.\d+\.\d+[0-9A-Za-z.+-]*$/
/** dpkg knows this file if the installation came from a package. */
const DPKG = '/var/lib/dpkg/info/berth-server.list'

/** `main`: the file of this program. Throws a sentence. */
export function findInstallation(main: string): Installation {
  const folder = dirname(dirname(main))
  const root = dirname(folder)
  const current = readLink(root, 'current')
  if (!SLOT.test(basename(folder)) || current === undefined) {
    throw new Error(
      'This control plane does not run from an installed release, so it cannot upgrade itself. In a checkout: git pull. In a container: use the new image.',
    )
  }
  return { root, current }
}

/** Files of a package belong to dpkg; a second owner would leave them half replaced. */
export function refusePackage(root: string): void {
  if (root !== '/opt/berth-server' || !existsSync(DPKG)) return
  throw new Error(
    'It was installed as a Debian package. Make a backup (berth-server backup), then upgrade it: apt install ./berth-server_VERSION_ARCH.deb',
  )
}

export function readLink(root: string, name: string): string | undefined {
  try {
    return basename(readlinkSync(join(root, name)))
  } catch {
    return undefined
  }
}

export function pointTo(root: string, name: 'current' | 'previous', slot: string): void {
  const made = join(root, `.${name}`)
  rmSync(made, { force: true })
  symlinkSync(slot, made)
  renameSync(made, join(root, name))
}

/** The version before stays for a way back by hand; older ones go. */
export function dropOldSlots(root: string): void {
  const kept = new Set([readLink(root, 'current'), readLink(root, 'previous')])
  for (const name of readdirSync(root)) {
    if (SLOT.test(name) && !kept.has(name)) rmSync(join(root, name), { recursive: true })
  }
}
