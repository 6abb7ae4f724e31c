// A few texts as one compressed tar, in memory.
import { buffer } from 'node:stream/consumers'
import { createGzip } from 'node:zlib'
import { pack } from 'tar-stream'

export function packTexts(
  texts: readonly (readonly [name: string, text: string])[],
): Promise<Buffer> {
  const tar = pack()
  for (const [name, text] of texts) tar.entry({ name, mode: 0o600 }, text)
  tar.finalize()
  return buffer(tar.pipe(createGzip()))
}
