// Writes Debian packages: an `ar` archive of two tar archives. Our own 40 lines, because dpkg-deb is missing on many build
// machines, and because the same content must give the same bytes.
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { constants, zstdCompressSync } from 'node:zlib'
import { tarFolder } from '../packaging.ts'

export interface Deb {
  fields: Record<string, string>
  /** `postinst`, `prerm`, `postrm`. */
  scripts?: Record<string, string>
  /** Settings that belong to the administrator: an update keeps them. */
  conffiles?: string[]
}

/** One member of an `ar` archive: 60 bytes of header, content, and a byte to make it even. */
function member(name: string, content: Buffer): Buffer[] {
  const columns: [string, number][] = [
    [name, 16],
    ['0', 12],
    ['0', 6],
    ['0', 6],
    ['100644', 8],
    [String(content.length), 10],
  ]
  const header = columns.map(([text, width]) => text.padEnd(width)).join('')
  return [Buffer.from(`${header}\`\n`), content, Buffer.alloc(content.length % 2, '\n')]
}

/** zstd: dpkg of Debian 12 and of Ubuntu reads it, and a package is made in a second. */
const compress = (file: string): Buffer =>
  zstdCompressSync(readFileSync(file), {
    params: { [constants.ZSTD_c_compressionLevel]: 6, [constants.ZSTD_c_checksumFlag]: 1 },
  })

/** `content` is laid out like the root folder. */
export async function makeDeb(file: string, content: string, deb: Deb): Promise<void> {
  const scratch = await mkdtemp(join(dirname(file), '.packaging-'))
  try {
    const data = join(scratch, 'data.tar')
    tarFolder(content, data)
    const control = join(scratch, 'control')
    await mkdir(control)
    const size = Math.ceil(readFileSync(data).length / 1024)
    const fields = { ...deb.fields, 'Installed-Size': String(size) }
    const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\n`)
    await writeFile(join(control, 'control'), lines.join(''))
    for (const [name, text] of Object.entries(deb.scripts ?? {})) {
      await writeFile(join(control, name), `#!/bin/sh\nset -e\n${text}`, { mode: 0o755 })
    }
    if (deb.conffiles) await writeFile(join(control, 'conffiles'), `${deb.conffiles.join('\n')}\n`)
    const about = join(scratch, 'control.tar')
    tarFolder(control, about)
    const parts = [
      Buffer.from('!<arch>\n'),
      ...member('debian-binary', Buffer.from('2.0\n')),
      ...member('control.tar.zst', compress(about)),
      ...member('data.tar.zst', compress(data)),
    ]
    const made = join(scratch, 'made')
    await writeFile(made, Buffer.concat(parts))
    await rename(made, file)
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}
