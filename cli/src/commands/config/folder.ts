// Reads what detection needs from a folder: names a few levels deep, and a few files of a bounded size. Links are not
// followed, so nothing outside the folder is read.
import { randomBytes } from 'node:crypto'
import { lstat, readdir, readFile, rename, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isWanted, type Look } from '../../detect/look.ts'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT } from '../../terminal/exit.ts'

/** Made by tools, large, and never what a program is. */
const SKIPPED = new Set(['.git', 'node_modules', 'vendor', '.venv', 'venv', 'target', '.next'])

/** A regular file of a reasonable size; null: none. */
export async function readSmall(path: string): Promise<string | null> {
  try {
    const found = await lstat(path)
    if (!found.isFile() || found.size > CLIENT.lookBytes) return null
    return await readFile(path, 'utf8')
  } catch {
    return null
  }
}

export async function readLook(folder: string): Promise<Look> {
  const paths = new Set<string>()
  const walk = async (below: string, level: number): Promise<void> => {
    const entries = await readdir(join(folder, below), { withFileTypes: true }).catch(() => [])
    for (const entry of entries) {
      if (paths.size >= CLIENT.lookEntries) return
      const path = below === '' ? entry.name : `${below}/${entry.name}`
      if (entry.isFile()) paths.add(path)
      const isOpen = entry.isDirectory() && !SKIPPED.has(entry.name)
      if (isOpen && level < CLIENT.lookFolders) await walk(path, level + 1)
    }
  }
  await walk('', 1)
  const texts = new Map<string, string>()
  // files of the root first: a large tree must not push them out
  const depth = (path: string): number => path.split('/').length
  const wanted = [...paths].filter(isWanted).toSorted((a, b) => depth(a) - depth(b))
  for (const path of wanted.slice(0, CLIENT.lookFiles)) {
    const text = await readSmall(join(folder, path))
    if (text !== null) texts.set(path, text)
  }
  return { paths, texts }
}

/** Atomic; without `force` an existing file stays. False: it was there. */
export async function writeWhole(path: string, text: string, force: boolean): Promise<boolean> {
  const part = `${path}.${randomBytes(6).toString('hex')}`
  try {
    if (!force) {
      await writeFile(path, text, { flag: 'wx' })
      return true
    }
    // replaces a link itself, not its target
    await writeFile(part, text, { flag: 'wx' })
    await rename(part, path)
    return true
  } catch (error) {
    if (force) await unlink(part).catch(() => {})
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') return false
    const name = path.slice(path.lastIndexOf('/') + 1)
    throw new CliError(EXIT.error, `${name} cannot be written (${code})`, undefined, error)
  }
}
