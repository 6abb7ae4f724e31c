// Reads files out of a container: the engine's archive of a path, as a stream. No path of the container is ever opened
// on the host; each entry has a kind, so callers can take regular files only.
import { posix } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { extract } from 'tar-stream'
import { type Engine, getContainer } from './engine.ts'
import { orMissing, toEngineError } from './engine-error.ts'

export interface ArchivedFile {
  /** Below the requested folder. */
  path: string[]
  kind: 'file' | 'link' | 'other'
  size: number
  modifiedAt: number
  /** Must be consumed or skipped before the next entry is requested. */
  bytes: AsyncIterable<Buffer>
}

/** The working directory of a container's commands; `wanted` is below it. */
export async function containerFolder(
  engine: Engine,
  id: string,
  wanted: string | null,
): Promise<string> {
  const { Config } = await (await getContainer(engine, id)).inspect()
  return posix.resolve('/', Config.WorkingDir || '/', wanted ?? '.')
}

/** Everything at `root` below `folder`, in the order of the engine; empty when the path does not exist. */
export async function* readArchive(
  engine: Engine,
  id: string,
  folder: string,
  root: readonly string[],
  signal: AbortSignal,
): AsyncGenerator<ArchivedFile> {
  const asked =
    root.length === 0 ? `${folder === '/' ? '' : folder}/.` : posix.join(folder, ...root)
  const container = await getContainer(engine, id, { signal })
  const stream = (await orMissing(container.getArchive({ path: asked }))) as Readable | undefined
  if (!stream) return
  const entries = extract()
  const flow = pipeline(stream, entries)
  flow.catch(() => undefined) // the loop over the entries reports it
  try {
    for await (const entry of entries) {
      const path = placeOf(entry.header.name, root)
      const { type, size = 0, mtime } = entry.header
      const kind = type === 'file' || type === 'contiguous-file' ? 'file' : linkOrOther(type)
      if (path && type !== 'directory') {
        const modifiedAt = mtime?.getTime() ?? 0
        yield { path, kind, size, modifiedAt, bytes: entry as AsyncIterable<Buffer> }
      }
      entry.resume()
    }
    await flow
  } catch (error) {
    throw toEngineError(error, signal)
  } finally {
    stream.destroy()
  }
}

const linkOrOther = (type: string | null | undefined): 'link' | 'other' =>
  type === 'symlink' || type === 'link' ? 'link' : 'other'

/** The engine names entries after the last element of the requested path. */
function placeOf(name: string, root: readonly string[]): string[] | undefined {
  const segments = name.split('/').filter((segment) => segment !== '' && segment !== '.')
  if (segments.includes('..')) return undefined
  return root.length === 0 ? segments : [...root, ...segments.slice(1)]
}
