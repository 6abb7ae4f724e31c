// Unpacks an archive that a service sent. The service decides every byte of it, so it gets only files and folders, below
// a new folder that nothing else uses: no links, no devices, no name that leads elsewhere, no special permissions, and
// bounds on everything.
import { mkdir, open } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { extract } from 'tar-stream'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT } from '../../terminal/exit.ts'

export interface Copied {
  files: number
  bytes: number
  /** Links and other entries that are neither file nor folder. */
  skipped: number
}

const refuse = (message: string): CliError =>
  new CliError(EXIT.error, `the archive of the service cannot be used: ${message}`)

/** The parts of a name; empty: the folder itself. PURE. */
export function partsOf(name: string, platform: NodeJS.Platform): string[] {
  if (name.startsWith('/') || name.includes('\0')) throw refuse(`a name is not relative`)
  const parts = name.split('/').filter((part) => part !== '' && part !== '.')
  const isForeign = (part: string): boolean =>
    part === '..' ||
    Buffer.byteLength(part) > 255 ||
    (platform === 'win32' && /[<>:"|?*\\\p{Cc}]|[. ]$/u.test(part))
  if (parts.some(isForeign)) throw refuse('a name leads elsewhere')
  if (parts.length > CLIENT.copyDepth) throw refuse('its folders are too deep')
  return parts
}

/** Into `folder`, which must be new. Returns the kind of what the path named. */
export async function unpack(
  archive: Readable,
  folder: string,
  platform: NodeJS.Platform,
  copied: Copied,
): Promise<'file' | 'folder'> {
  const entries = extract()
  archive.once('error', (error) => entries.destroy(error))
  archive.pipe(entries)
  const made = new Set<string>()
  const makeFolder = async (parts: readonly string[]): Promise<string> => {
    const path = join(folder, ...parts)
    if (made.has(path)) return path
    await mkdir(path, { recursive: true })
    made.add(path)
    return path
  }
  let kind: 'file' | 'folder' | undefined
  let count = 0
  for await (const entry of entries) {
    const { name, type, size = 0, mode = 0o644 } = entry.header
    count += 1
    if (count > CLIENT.copyEntries) throw refuse(`it has more than ${CLIENT.copyEntries} entries`)
    const parts = partsOf(name, platform)
    kind ??= type === 'directory' ? 'folder' : 'file'
    if (type === 'directory') {
      await makeFolder(parts)
      entry.resume()
      continue
    }
    if (type !== 'file' && type !== 'contiguous-file') {
      copied.skipped += 1
      entry.resume()
      continue
    }
    if (copied.bytes + size > CLIENT.copyBytes) throw refuse('it is too large')
    const last = parts.at(-1)
    if (last === undefined) throw refuse('a file has no name')
    const parent = await makeFolder(parts.slice(0, -1))
    const path = join(parent, kind === 'file' ? 'file' : last)
    // `wx`: a second entry of the same name is refused, and a link is never followed
    const file = await open(path, 'wx', 0o600 | (mode & 0o755)).catch(({ code }) => {
      throw refuse(`${last} is in it twice, or cannot be written (${code})`)
    })
    try {
      for await (const chunk of entry as AsyncIterable<Buffer>) {
        await file.write(chunk)
        copied.bytes += chunk.length
      }
    } finally {
      await file.close()
    }
    copied.files += 1
    if (kind === 'file') break
  }
  archive.resume()
  return kind ?? 'folder'
}
