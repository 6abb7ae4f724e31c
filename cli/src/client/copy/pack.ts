// Packs a file or a folder of this machine for a service. Links inside a folder are left out, because they could lead to
// files that the user did not mean.
import { open, opendir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { type Pack, pack } from 'tar-stream'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT } from '../../terminal/exit.ts'
import type { Copied } from './unpack.ts'

interface Found {
  path: string
  /** In the archive. */
  name: string
  isFolder: boolean
}

/** Folders come before what is in them. */
async function* walk(folder: string, name: string, copied: Copied): AsyncGenerator<Found> {
  yield { path: folder, name: `${name}/`, isFolder: true }
  for await (const one of await opendir(folder)) {
    const inner = { path: join(folder, one.name), name: `${name}/${one.name}` }
    if (one.isDirectory()) yield* walk(inner.path, inner.name, copied)
    else if (one.isFile()) yield { ...inner, isFolder: false }
    else copied.skipped += 1
  }
}

/** Throws if the connection is gone already. `done` reports every later failure. */
function addEntry(
  archive: Pack,
  header: Parameters<Pack['entry']>[0],
): { sink: ReturnType<Pack['entry']>; done: Promise<void> } {
  let end!: (error?: Error | null) => void
  const done = new Promise<void>((resolve, reject) => {
    end = (error) => (error ? reject(error) : resolve())
  })
  const gone = (): void => end(new Error('the connection is gone'))
  archive.once('close', gone)
  done.catch(() => {}).finally(() => archive.off('close', gone))
  const sink = archive.entry(header, end)
  sink.on('error', () => {}) // without a listener it would end the process
  return { sink, done }
}

/** Reads exactly the size that its head says; a file that shrinks meanwhile is a failure. */
async function addFile(archive: Pack, { path, name }: Found, copied: Copied): Promise<void> {
  const file = await open(path, 'r')
  try {
    const { size, mode, mtime } = await file.stat()
    if (copied.bytes + size > CLIENT.copyBytes) {
      const most = `${CLIENT.copyBytes / 1_024 ** 3} GiB`
      throw new CliError(EXIT.error, `a copy has at most ${most}`, 'copy it in parts')
    }
    const entry = addEntry(archive, { name, size, mode: mode & 0o777, mtime })
    const chunk = Buffer.allocUnsafe(256 * 1_024)
    for (let at = 0; at < size; ) {
      const { bytesRead } = await file.read(chunk, 0, Math.min(chunk.length, size - at), at)
      if (bytesRead === 0) throw new CliError(EXIT.error, `${path} became shorter meanwhile`)
      at += bytesRead
      copied.bytes += bytesRead
      if (!entry.sink.write(Buffer.from(chunk.subarray(0, bytesRead)))) {
        await Promise.race([
          new Promise<void>((resolve) => entry.sink.once('drain', () => resolve())),
          entry.done,
        ])
      }
    }
    entry.sink.end(undefined)
    await entry.done
    copied.files += 1
  } finally {
    await file.close()
  }
}

/** Writes the archive and ends it. A file is called `file` in it; the entries of a folder begin with `./`. */
export async function packInto(to: Writable, path: string, copied: Copied): Promise<void> {
  const archive = pack()
  const written = new Promise<void>((resolve, reject) => {
    archive.on('error', reject)
    to.on('error', reject)
    to.once('close', resolve)
    to.once('finish', resolve)
  })
  written.catch(() => {})
  archive.pipe(to)
  const isFolder = (await stat(path)).isDirectory()
  const found = isFolder ? walk(path, '.', copied) : [{ path, name: 'file', isFolder }]
  let count = 0
  try {
    for await (const one of found) {
      count += 1
      if (count > CLIENT.copyEntries) {
        const message = `a copy has at most ${CLIENT.copyEntries} files and folders`
        throw new CliError(EXIT.error, message, 'copy it in parts, or as one archive')
      }
      if (one.isFolder) {
        const { mode, mtime } = await stat(one.path)
        const header = { name: one.name, type: 'directory', mode: mode & 0o777, mtime } as const
        await addEntry(archive, header).done
      } else await addFile(archive, one, copied)
    }
  } catch (error) {
    archive.destroy()
    to.destroy()
    throw error
  }
  archive.finalize()
  await written
}
