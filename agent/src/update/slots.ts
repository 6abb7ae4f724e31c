// The folders of an installed agent: one for each version, and the link `current` to the one that runs. An update puts a
// new version beside the old one and moves the link; `previous` is the way back. Everything that runs was started from
// the folder of its own version, so a folder stays as long as a process uses it.
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import {
  isReleaseFacts,
  RELEASE_FACTS,
  RELEASE_KEY,
  type ReleaseFacts,
} from '@berth/shared/release'
import { isSlot, readSlot } from '@berth/shared/slots'
import { removeTree } from '../machine/files.ts'

export interface Slots {
  /** /opt/berth */
  root: string
  /** The folder of this process, below root. */
  own: string
}

/** `main`: the file of this program. Undefined: it does not run from an installation, e.g. in a checkout. */
export function findSlots(main: string): Slots | undefined {
  const folder = dirname(dirname(main))
  const root = dirname(folder)
  if (!isSlot(basename(folder)) || !existsSync(join(folder, 'bin/berth-agent'))) return undefined
  return readSlot(root, 'current') === undefined ? undefined : { root, own: basename(folder) }
}

/** What this installation trusts and how new it is; undefined for one that was not made from a release with a key. */
export function readRelease({
  root,
  own,
}: Slots): { key: string; facts: ReleaseFacts } | undefined {
  try {
    const folder = join(root, own)
    const facts = JSON.parse(readFileSync(join(folder, RELEASE_FACTS), 'utf8')) as ReleaseFacts
    if (!isReleaseFacts(facts)) return undefined
    return { key: readFileSync(join(folder, RELEASE_KEY), 'utf8'), facts }
  } catch {
    return undefined
  }
}

/** A free name for a version; the same version may be there already, from another build or an update that was undone. */
export function chooseSlot({ root }: Slots, { version, counter }: ReleaseFacts): string {
  let name = version
  for (let n = 1; existsSync(join(root, name)); n++) name = `${version}-${counter}.${n}`
  return name
}

/** While it exists, the launcher adds a line with its pid to it at each start of the daemon. */
export const startsFile = (root: string): string => join(root, 'updating')

export function readStarts(root: string): number[] {
  try {
    return readFileSync(startsFile(root), 'utf8').split('\n').filter(Boolean).map(Number)
  } catch {
    return []
  }
}

/** Undefined: it ended, or belongs to another account. */
export function readProgram(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/exe`).replace(/ \(deleted\)$/, '')
  } catch {
    return undefined
  }
}

function isUsed(folder: string): boolean {
  const inside = `${folder}/`
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .some((pid) => readProgram(Number(pid))?.startsWith(inside))
}

/** Removes versions that are neither current nor previous, once nothing runs from them. Returns their names. */
export async function dropUnusedSlots({ root, own }: Slots): Promise<string[]> {
  const kept = new Set([own, readSlot(root, 'current'), readSlot(root, 'previous')])
  const unused = readdirSync(root).filter(
    (name) => isSlot(name) && !kept.has(name) && !isUsed(join(root, name)),
  )
  for (const name of unused) await removeTree(join(root, name))
  return unused
}
