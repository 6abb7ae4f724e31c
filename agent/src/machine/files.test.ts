import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readSettings } from '../settings.ts'
import {
  ensureEnvironmentFolders,
  ensureLogFolder,
  environmentPaths,
  insideFolder,
  moveLink,
  removeTree,
  writeSecretFile,
} from './files.ts'

const isRoot = process.getuid?.() === 0
const nobody = { name: 'nobody', uid: 65_534, gid: 65_534 }
let dir: string

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'berth-files-'))
})
afterEach(() => rmSync(dir, { recursive: true }))

const modeOf = (path: string): string => (statSync(path).mode & 0o7777).toString(8)

describe('insideFolder', () => {
  it('follows links and lets none lead out', () => {
    const base = join(dir, 'release')
    mkdirSync(join(base, 'app', 'deep'), { recursive: true })
    mkdirSync(join(dir, 'release-other'))
    writeFileSync(join(base, 'file'), '')
    symlinkSync('/', join(base, 'root'))
    symlinkSync('../release-other', join(base, 'beside'))
    symlinkSync('app', join(base, 'inner'))
    expect(insideFolder(base, '.')).toBe(base)
    expect(insideFolder(base, 'app/deep')).toBe(join(base, 'app', 'deep'))
    expect(insideFolder(base, 'inner/deep')).toBe(join(base, 'app', 'deep'))
    for (const out of [
      '..',
      '../..',
      'root',
      'root/etc',
      'beside',
      '/etc',
      'app/../..',
      'file',
      'no',
    ]) {
      expect(insideFolder(base, out), out).toBeUndefined()
    }
  })
})

describe('links and secret files', () => {
  it('moves a link in one step, over an old one and over a left-over', () => {
    const link = join(dir, 'current')
    symlinkSync('left-over', `${link}.tmp`)
    moveLink(link, 'releases/1')
    moveLink(link, 'releases/2')
    expect(readlinkSync(link)).toBe('releases/2')
    expect(existsSync(`${link}.tmp`)).toBe(false)
  })

  it('writes secrets that their account reads and cannot change, whole, over an old file', () => {
    const file = join(dir, '1.sh')
    writeSecretFile(file, 'old', undefined)
    writeSecretFile(file, "A='new'\n", isRoot ? nobody : undefined)
    expect(readFileSync(file, 'utf8')).toBe("A='new'\n")
    const { uid, gid } = statSync(file)
    const facts = isRoot ? ['440', 0, nobody.gid] : ['400', process.getuid?.(), gid]
    expect([modeOf(file), uid, gid]).toEqual(facts)
  })
})

it('removes a tree without following links out of it', async () => {
  const outside = join(dir, 'outside')
  mkdirSync(join(outside, 'kept'), { recursive: true })
  const tree = join(dir, 'tree')
  mkdirSync(tree)
  symlinkSync(outside, join(tree, 'link'))
  await removeTree(tree)
  expect(existsSync(tree)).toBe(false)
  expect(existsSync(join(outside, 'kept'))).toBe(true)
  await removeTree(tree) // a missing tree is no error
})

it('gives the account only what is its own', async (t) => {
  if (!isRoot) return t.skip('needs root')
  const settings = readSettings({
    BERTH_STATE_DIR: join(dir, 's'),
    BERTH_RUN_DIR: join(dir, 'r'),
    BERTH_DEV: '1',
  })
  const paths = environmentPaths(settings, 9)
  ensureEnvironmentFolders(paths, nobody, undefined)
  await ensureLogFolder(paths, nobody).catch(() => undefined) // the account cannot enter the temporary folder itself
  const facts = (path: string) => `${modeOf(path)} ${statSync(path).uid}:${statSync(path).gid}`
  expect(facts(paths.dir)).toBe('710 0:65534')
  expect(facts(paths.releases)).toBe('710 0:65534')
  expect(facts(paths.variables)).toBe('710 0:65534')
  expect(facts(paths.bin)).toBe('755 0:0')
  expect(facts(paths.shared)).toBe('750 65534:65534')
  expect(facts(paths.home)).toBe('700 65534:65534')
  expect(facts(paths.sockets)).toBe('750 65534:65534')
  ensureEnvironmentFolders(paths, nobody, 4_242)
  expect(facts(paths.sockets)).toBe('2750 65534:4242')
})
