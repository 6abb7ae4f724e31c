// Archives that the programs of an environment could have prepared: nothing leaves the folder, and no device appears.
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pack } from 'tar-stream'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ArchiveError, packFolder, unpackFolder } from './archive.ts'

const isRoot = process.getuid?.() === 0
let root: string
let folder: string
let outside: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'berth-archive-'))
  folder = join(root, 'folder')
  outside = join(root, 'outside')
  mkdirSync(folder)
  mkdirSync(outside)
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

const options = () => ({
  folder,
  account: undefined,
  cgroupFiles: [],
  signal: new AbortController().signal,
})
type Entry = Parameters<ReturnType<typeof pack>['entry']>[0]
async function unpack(...entries: [Entry, string?][]): Promise<void> {
  const tar = pack()
  for (const [header, text] of entries) tar.entry(header, text ?? '')
  tar.finalize()
  await unpackFolder(options(), Readable.from([await buffer(tar)]))
}

describe.skipIf(!isRoot)('a hostile archive', () => {
  it('writes no file through a link that it brings', async () => {
    const link: Entry = { name: 'way', type: 'symlink', linkname: outside }
    await unpack([link], [{ name: 'way/evil' }, 'x']).catch((error: unknown) =>
      expect(error).toBeInstanceOf(ArchiveError),
    )
    expect(readdirSync(outside)).toEqual([])
  })

  it('writes no file above the folder, or at an absolute name', async () => {
    await unpack([{ name: '../outside/evil' }, 'x']).catch(() => undefined)
    await unpack([{ name: join(outside, 'evil') }, 'x']).catch(() => undefined)
    expect(readdirSync(outside)).toEqual([])
  })

  it('links to no file outside', async () => {
    writeFileSync(join(outside, 'secret'), 'x')
    const hard: Entry = { name: 'copy', type: 'link', linkname: join(outside, 'secret') }
    await unpack([hard]).catch(() => undefined)
    expect(existsSync(join(folder, 'copy'))).toBe(false)
    expect(lstatSync(join(outside, 'secret')).nlink).toBe(1)
  })

  it('makes no device', async () => {
    const device: Entry = { name: 'disk', type: 'block-device', devmajor: 8, devminor: 0 }
    await expect(unpack([device])).rejects.toThrow(ArchiveError)
    expect(readdirSync(folder)).toEqual([])
  })

  it('that is cut ends with an error', async () => {
    const tar = pack()
    tar.entry({ name: 'file' }, 'x'.repeat(5_000))
    tar.finalize()
    const bytes = await buffer(tar)
    const cut = Readable.from([bytes.subarray(0, 2_000)])
    await expect(unpackFolder(options(), cut)).rejects.toThrow(/Unexpected EOF/)
  })
})

describe.skipIf(!isRoot)('a hostile folder', () => {
  it('gives its links, not what they lead to', async () => {
    writeFileSync(join(outside, 'secret'), 'a-secret-outside')
    symlinkSync(join(outside, 'secret'), join(folder, 'file'))
    symlinkSync(outside, join(folder, 'all'))
    let bytes = Buffer.alloc(0)
    await packFolder(options(), async (archive) => {
      bytes = await buffer(archive)
    })
    expect(bytes.includes('a-secret-outside')).toBe(false)
    expect(bytes.includes('all')).toBe(true)
  })

  it('fails as a whole when it cannot be read, or when nothing takes the archive', async () => {
    const none = { ...options(), folder: join(root, 'none') }
    const drain = async (archive: Readable): Promise<void> => void (await buffer(archive))
    await expect(packFolder(none, drain)).rejects.toThrow(ArchiveError)
    writeFileSync(join(folder, 'large'), Buffer.alloc(4_000_000, 'x'))
    const refuse = async (): Promise<void> => {
      throw new Error('the disk is full')
    }
    await expect(packFolder(options(), refuse)).rejects.toThrow('the disk is full')
  })
})
