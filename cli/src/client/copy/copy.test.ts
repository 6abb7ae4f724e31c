// Archives of a hostile service, and what is packed for one: files and folders only, inside one new folder.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Readable, Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { CLIENT } from '../../limits/client.ts'
import { packInto } from './pack.ts'
import { type Copied, partsOf, unpack } from './unpack.ts'

/** One entry as any program may write it; `type` is the tar's own letter. */
function entry(name: string, content: string, type = '0', link = '', mode = 0o644): Buffer {
  const head = Buffer.alloc(512)
  const body = Buffer.from(content)
  head.write(name, 0, 100)
  head.write(`${mode.toString(8).padStart(7, '0')}\0`, 100)
  head.write('0000000\x000000000\0', 108)
  head.write(`${body.length.toString(8).padStart(11, '0')}\0`, 124)
  head.write('00000000000\0', 136)
  head.write('        ', 148)
  head.write(type, 156)
  head.write(link, 157, 100)
  head.write('ustar\x0000', 257)
  const sum = head.reduce((all, byte) => all + byte, 0)
  head.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return Buffer.concat([head, body, Buffer.alloc((512 - (body.length % 512)) % 512)])
}
const archive = (...entries: Buffer[]): Buffer => Buffer.concat([...entries, Buffer.alloc(1_024)])
const folder = (name: string): Buffer => entry(name, '', '5', '', 0o755)

let dir: string
let copied: Copied
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'berth-copy-'))
  copied = { files: 0, bytes: 0, skipped: 0 }
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

const take = (bytes: Buffer) => unpack(Readable.from([bytes]), join(dir, 'new'), 'linux', copied)
const read = (name: string): string => readFileSync(join(dir, 'new', name), 'utf8')

describe('unpack', () => {
  it('a folder with what is in it, and a single file', async () => {
    const kind = await take(archive(folder('./'), folder('./a'), entry('./a/b.txt', 'hello\n')))
    expect([kind, read('a/b.txt'), copied]).toEqual([
      'folder',
      'hello\n',
      { files: 1, bytes: 6, skipped: 0 },
    ])
    rmSync(join(dir, 'new'), { recursive: true })
    expect(await take(archive(entry('./anything', 'x', '0', '', 0o4755)))).toBe('file')
    expect(read('file')).toBe('x')
    expect(statSync(join(dir, 'new/file')).mode & 0o7777).toBe(0o755)
  })

  it('no name leads elsewhere', async () => {
    for (const name of ['../out', './a/../../out', '/etc/out', 'a/../../out']) {
      const bytes = archive(folder('./'), entry(name, 'planted'))
      await expect(take(bytes), name).rejects.toThrow(/cannot be used/)
      expect(existsSync(join(dir, 'out'))).toBe(false)
    }
    expect(partsOf('./a//b/.', 'linux')).toEqual(['a', 'b'])
    expect(() => partsOf('C:x', 'win32')).toThrow()
    expect(() => partsOf('a\\..\\b', 'win32')).toThrow()
    expect(partsOf('C:x', 'linux')).toEqual(['C:x'])
    const deep = Array.from({ length: CLIENT.copyDepth + 1 }, () => 'd').join('/')
    expect(() => partsOf(deep, 'linux')).toThrow(/too deep/)
  })

  it('no link is made or followed, no device, no second file of a name', async () => {
    const target = join(dir, 'victim')
    mkdirSync(target)
    const links = archive(
      folder('./'),
      entry('./out', '', '2', target),
      entry('./hard', '', '1', '/etc/passwd'),
      entry('./null', '', '3'),
      entry('./pipe', '', '6'),
      entry('./out/planted', 'x'),
    )
    expect(await take(links)).toBe('folder')
    expect(readdirSync(target)).toEqual([])
    expect([copied.skipped, copied.files]).toEqual([4, 1])
    expect(statSync(join(dir, 'new/out')).isDirectory()).toBe(true)
    rmSync(join(dir, 'new'), { recursive: true })
    const twice = archive(folder('./'), entry('./a', 'one'), entry('./a', 'two'))
    await expect(take(twice)).rejects.toThrow(/a is in it twice/)
  })

  it('an archive that ends too early is an error', async () => {
    const bytes = archive(folder('./'), entry('./a', 'x'.repeat(5_000)))
    await expect(take(bytes.subarray(0, 2_000))).rejects.toThrow()
  })
})

describe('pack', () => {
  const packed = async (path: string): Promise<Readable> => {
    const through = new PassThrough({ highWaterMark: 1_024 ** 2 * 32 })
    await packInto(through, path, copied)
    return through
  }

  it('a folder arrives as it was, without links', async () => {
    mkdirSync(join(dir, 'from/a/empty'), { recursive: true })
    const large = 'y'.repeat(1_500_000)
    writeFileSync(join(dir, 'from/a/large'), large)
    writeFileSync(join(dir, 'from/run.sh'), '#!/bin/sh\n')
    chmodSync(join(dir, 'from/run.sh'), 0o755)
    writeFileSync(join(dir, 'from/none'), '')
    symlinkSync('/etc/passwd', join(dir, 'from/link'))
    const stream = await packed(join(dir, 'from'))
    expect(copied).toEqual({ files: 3, bytes: 1_500_010, skipped: 1 })
    copied = { files: 0, bytes: 0, skipped: 0 }
    expect(await unpack(stream, join(dir, 'new'), 'linux', copied)).toBe('folder')
    expect(copied).toEqual({ files: 3, bytes: 1_500_010, skipped: 0 })
    expect(read('a/large') === large).toBe(true)
    expect(readdirSync(join(dir, 'new')).toSorted()).toEqual(['a', 'none', 'run.sh'])
    expect(statSync(join(dir, 'new/run.sh')).mode & 0o111).toBe(0o111)
    expect(readdirSync(join(dir, 'new/a/empty'))).toEqual([])
  })

  it('a file is called file, also behind a link that the user named', async () => {
    writeFileSync(join(dir, 'seed.sql'), 'select 1')
    symlinkSync(join(dir, 'seed.sql'), join(dir, 'current.sql'))
    expect(
      await unpack(await packed(join(dir, 'current.sql')), join(dir, 'new'), 'linux', copied),
    ).toBe('file')
    expect(read('file')).toBe('select 1')
    await expect(packed(join(dir, 'absent'))).rejects.toThrow()
  })

  it.each([
    ['inside a file', 'large', 0],
    ['at the first folder', '.', 0],
    ['between two files', '.', 3],
  ])('a connection that breaks %s is one failure, and nothing else', async (_, path, after) => {
    writeFileSync(join(dir, 'large'), 'y'.repeat(1_500_000))
    for (let n = 0; n < 50; n++) writeFileSync(join(dir, `small-${n}`), 'x')
    let written = 0
    const broken = new Writable({
      write(_chunk, _encoding, done) {
        written += 1
        done(written > after ? new Error('write EPIPE') : null)
      },
    })
    await expect(packInto(broken, join(dir, path), copied)).rejects.toThrow()
    // the entry and the archive end in later turns; an error without a listener would fail the run
    await finished(broken, { error: false }).catch(() => {})
    await new Promise((resolve) => setImmediate(resolve))
  })

  it('a connection that is gone before the first byte is one failure, too', async () => {
    writeFileSync(join(dir, 'seed.sql'), 'select 1')
    const gone = new Writable()
    gone.on('error', () => {})
    gone.destroy(new Error('write EPIPE'))
    await expect(packInto(gone, join(dir, 'seed.sql'), copied)).rejects.toThrow()
    await new Promise((resolve) => setImmediate(resolve))
  })
})
