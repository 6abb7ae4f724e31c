import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { STATIC } from '../limits/files.ts'
import { copyStaticRoot } from './static-copy.ts'
import { decodeHeader, encodeHeader, isStaticPath } from './static-frames.ts'

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'berth-static-'))
  chmodSync(dir, 0o755)
  mkdirSync(join(dir, 'release/site/deep'), { recursive: true })
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

const isRoot = process.getuid?.() === 0
const account = isRoot ? { uid: 65_534, gid: 65_534 } : null

const copy = (root: string, signal = new AbortController().signal) =>
  copyStaticRoot({
    account,
    base: join(dir, 'release'),
    root,
    target: join(dir, 'copy'),
    signal,
    program: [join(import.meta.dirname, '../main.ts')],
  })

describe('the copy of a static root', () => {
  it('holds its regular files, byte for byte, and nothing else', async () => {
    const bytes = Buffer.alloc(STATIC.chunkBytes * 2 + 7, 'x')
    const site = join(dir, 'release/site')
    writeFileSync(join(site, 'index.html'), 'page')
    writeFileSync(join(site, 'deep/large'), bytes)
    writeFileSync(join(site, 'deep/empty'), '')
    writeFileSync(join(site, '.env'), 'SECRET=1')
    writeFileSync(join(site, 'closed'), 'for somebody else', { mode: 0o600 })
    symlinkSync('/etc/passwd', join(site, 'link'))
    symlinkSync('/etc', join(site, 'etc'))
    execFileSync('mkfifo', [join(site, 'pipe')])
    const closed = isRoot ? 1 : 0
    expect(await copy('./site')).toEqual({
      files: isRoot ? 3 : 4,
      bytes: bytes.length + 4 + (isRoot ? 0 : 17),
      skipped: 4 + closed,
    })
    const found = readdirSync(join(dir, 'copy'), { recursive: true }).map(String).sort()
    expect(found.filter((name) => name !== 'closed')).toEqual(
      ['deep', 'deep/empty', 'deep/large', 'index.html'].sort(),
    )
    expect(readFileSync(join(dir, 'copy/deep/large')).equals(bytes)).toBe(true)
  })

  it.each([
    ['gone', 'is not in the checkout.'],
    ['../release/site', 'is not in the checkout.'],
    ['out', 'is not in the checkout.'],
    ['site/page', 'is not in the checkout.'],
  ])('refuses %s', async (root, message) => {
    symlinkSync('/etc', join(dir, 'release/out'))
    writeFileSync(join(dir, 'release/site/page'), 'a file')
    await expect(copy(root)).rejects.toThrow(message)
  })

  it('is refused before the first byte when it would be too large', async () => {
    writeFileSync(join(dir, 'release/site/large'), '')
    truncateSync(join(dir, 'release/site/large'), STATIC.bytes + 1)
    await expect(copy('site')).rejects.toThrow('holds more than 2 GiB.')
    expect(existsSync(join(dir, 'copy/large'))).toBe(false)
  })

  it('ends with the signal', async () => {
    await expect(copy('site', AbortSignal.abort(new Error('full')))).rejects.toThrow()
  })
})

describe('what the reader may say', () => {
  it('is understood in pieces', () => {
    const header = { kind: 'file', path: 'a/b', size: 3 } as const
    const bytes = Buffer.concat([encodeHeader(header), Buffer.from('xyz')])
    expect(decodeHeader(bytes.subarray(0, 3))).toBeUndefined()
    expect(decodeHeader(bytes.subarray(0, 10))).toBeUndefined()
    expect(decodeHeader(bytes)).toEqual({ header, bytes: bytes.length - 3 })
  })

  it.each(['', '/etc', '../x', 'a/../b', 'a//b', '.env', 'a/.git', 'a\0b', 'x'.repeat(5_000)])(
    'is no path: %j',
    (path) => expect(isStaticPath(path)).toBe(false),
  )
})
