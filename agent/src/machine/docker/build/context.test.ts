// The build context: which files are listed for which .dockerignore (expectations recorded from the docker CLI) and for
// which paths of COPY, in which order, and with which entries. Nothing outside the folder may be listed.
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  type ContextEntry,
  listContext,
  listRecipe,
  resolveInside,
  type Wanted,
} from './context.ts'
import { openTimes } from './context-times.ts'
import { toGoMode } from './file-packets.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'berth-context-'))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

function write(path: string, text = 'x'): void {
  mkdirSync(dirname(join(root, path)), { recursive: true })
  writeFileSync(join(root, path), text)
}

function list(wanted: Partial<Wanted> = {}, times?: string): ContextEntry[] {
  const all = { excludes: [], includes: [], follow: [], ...wanted }
  const entries = [...listContext(root, all, openTimes(times))]
  return entries.filter((entry) => entry !== undefined)
}

const paths = (wanted: Partial<Wanted> = {}): string[] => list(wanted).map(({ stat }) => stat.path)
const FOLDER = 2 ** 31
const files = (wanted: Partial<Wanted>): string[] =>
  list(wanted)
    .filter(({ stat }) => stat.mode < FOLDER)
    .map(({ stat }) => stat.path)
    .toSorted()
/** A .dockerignore as the engine parses it for its request. */
const readLines = (text: string): string[] =>
  text
    .replace(/^\uFEFF/, '')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))

describe('.dockerignore', () => {
  const cases = JSON.parse(
    readFileSync(new URL('./context-cases.testing.json', import.meta.url), 'utf8'),
  ) as { files: string[]; cases: { rules: string; sent: string[] }[] }

  beforeEach(() => {
    for (const file of cases.files) write(file)
  })

  test.each(cases.cases)('$rules', ({ rules, sent }) => {
    // the CLI in the recording always sent these two
    const reported = files({ excludes: readLines(rules) }).filter((f) => f !== 'Dockerfile')
    expect(reported).toEqual(sent)
  })

  test.each([
    ['c++', 'c++/x', 'c/x'],
    ['**/+page.ts', 'routes/+page.ts', 'routes/page.ts'],
    ['app/(auth)', 'app/(auth)/x', 'app/auth/x'],
    ['*.{log}', 'a.{log}', 'a.log'],
    ['a|b', 'a|b', 'a'],
    ['x^2', 'x^2', 'x2'],
    ['[^a]b\\(', 'cb(', 'ab('],
  ])('%s means these characters', (rule, ignored, sent) => {
    write(ignored)
    write(sent)
    const reported = files({ excludes: [rule] })
    expect(reported).not.toContain(ignored)
    expect(reported).toContain(sent)
  })

  test('a list that does not know negations fails these cases', () => {
    let wrong = 0
    for (const { rules, sent } of cases.cases.filter((c) => c.rules.includes('!'))) {
      const reported = files({ excludes: readLines(rules.replaceAll(/^!.*$/gm, '')) })
      if (reported.filter((f) => f !== 'Dockerfile').join() !== sent.join()) wrong += 1
    }
    expect(wrong).toBeGreaterThan(10)
  })
})

describe('the recipe', () => {
  const recipe = (dockerfile: string) =>
    [...listRecipe(root, dockerfile)].flatMap((entry) => (entry ? [entry] : []))

  test('is the Dockerfile, wherever it lies, and the list beside it', () => {
    write('docker/Production')
    write('docker/Production.dockerignore')
    write('docker/other')
    expect(recipe('docker/Production').map(({ stat }) => stat.path)).toEqual([
      'Production',
      'Production.dockerignore',
    ])
    symlinkSync('docker/Production', join(root, 'Dockerfile'))
    const [linked] = recipe('Dockerfile')
    expect(linked).toMatchObject({
      isFile: true,
      file: join(root, 'docker/Production'),
      stat: { path: 'Dockerfile', link: Buffer.alloc(0) },
    })
  })

  test('is nothing when it is not there, is no file, or leads out', () => {
    mkdirSync(join(root, 'Folder'))
    symlinkSync('/etc/passwd', join(root, 'Out'))
    for (const name of ['Dockerfile', 'Folder', 'Out']) expect(recipe(name)).toEqual([])
  })
})

describe('order', () => {
  test('is that of bytes, a folder before what is in it and before what comes after it', () => {
    for (const name of ['a/b', 'a-b', 'a.b', 'a0', 'ab/c', 'z', '\u{ff5e}', '\u{1f600}', 'ä'])
      write(name)
    expect(paths()).toEqual([
      ...['a', 'a/b', 'a-b', 'a.b', 'a0', 'ab', 'ab/c', 'z', 'ä', '\u{ff5e}', '\u{1f600}'],
    ])
  })

  test('has the folders above what is taken although they are not, and no other', () => {
    for (const name of ['a/b/kept', 'a/b/left', 'a/c/left', 'd/left', 'e']) write(name)
    expect(paths({ excludes: ['*', '!a/b/kept'] })).toEqual(['a', 'a/b', 'a/b/kept'])
    expect(paths({ includes: ['a/b/k*', 'e'] })).toEqual(['a', 'a/b', 'a/b/kept', 'e'])
  })
})

describe('paths of COPY', () => {
  beforeEach(() => {
    for (const name of [
      'package.json',
      'package-lock.json',
      'src/a.js',
      'src/b/c.js',
      'big',
      'lib/d',
    ])
      write(name)
  })

  test('are all that is told', () => {
    expect(paths({ follow: ['src/b', 'nowhere', 'big'] })).toEqual([
      ...['big', 'src', 'src/b', 'src/b/c.js'],
    ])
    expect(paths({ follow: ['./src/../lib/'] })).toEqual(['lib', 'lib/d'])
    expect(paths({ follow: ['src', 'big'], excludes: ['**/*.js'] })).toEqual([
      'big',
      'src',
      'src/b',
    ])
  })

  test('with wildcards bring what begins like them', () => {
    expect(paths({ follow: ['package*.json'] })).toEqual(['package-lock.json', 'package.json'])
    expect(paths({ follow: ['src/?.js'] })).toContain('src/a.js')
    expect(paths({ follow: ['*'] })).toEqual(paths())
    expect(paths({ follow: ['src', '/'] })).toEqual(paths())
  })

  test('bring what their links lead to, which is never outside', () => {
    symlinkSync('src/b', join(root, 'link'))
    symlinkSync('../../../lib', join(root, 'src', 'up'))
    symlinkSync('round', join(root, 'round'))
    expect(paths({ follow: ['link/c.js'] })).toEqual(['link', 'src', 'src/b', 'src/b/c.js'])
    expect(paths({ follow: ['src/up'] })).toEqual(['lib', 'lib/d', 'src', 'src/up'])
    expect(paths({ follow: ['round'] })).toEqual(paths())
    expect(paths({ follow: ['lin*'] })).toEqual(paths())
  })
})

describe('entries', () => {
  const byPath = () => new Map(list().map((entry) => [entry.stat.path, entry]))

  test('keep mode and second, and links stay links', () => {
    write('run.sh', '#!/bin/sh\n')
    chmodSync(join(root, 'run.sh'), 0o4755)
    utimesSync(join(root, 'run.sh'), 1_000_000, 1_000_000)
    mkdirSync(join(root, 'empty'), { mode: 0o750 })
    write('none', '')
    symlinkSync('/etc/passwd', join(root, 'link'))
    symlinkSync('empty', join(root, 'folder-link'))
    const entries = byPath()
    expect([...entries.keys()]).toEqual(['empty', 'folder-link', 'link', 'none', 'run.sh'])
    const run = entries.get('run.sh')?.stat
    expect(run).toMatchObject({ mode: 2 ** 23 + 0o755, size: 10, link: Buffer.alloc(0) })
    expect((run?.mtimeNs ?? 0n) / 1_000_000_000n).toBe(1_000_000n)
    expect(entries.get('empty')?.stat).toMatchObject({ mode: FOLDER + 0o750, size: 0 })
    const link = Buffer.from('/etc/passwd')
    expect(entries.get('link')?.stat).toMatchObject({ mode: 2 ** 27 + 0o777, link })
    expect(entries.get('none')).toMatchObject({ isFile: true, stat: { size: 0 } })
    expect(toGoMode(0o101666)).toBe(2 ** 20 + 0o666)
  })

  test('have names and links as they are, be they UTF-8 or not', () => {
    const folder = Buffer.from('caf\xe9', 'latin1')
    const inside = Buffer.from('caf\xe9/na\xefve', 'latin1')
    const at = (name: Buffer): Buffer => Buffer.concat([Buffer.from(`${root}/`), name])
    mkdirSync(at(folder))
    writeFileSync(at(inside), 'x')
    symlinkSync(inside, join(root, 'link'))
    expect(list().map(({ stat }) => stat.name)).toEqual([folder, inside, Buffer.from('link')])
    expect(list().at(-1)?.stat.link).toEqual(inside)
  })

  test('of sockets and FIFOs are left out', () => {
    write('a')
    execFileSync('mkfifo', [join(root, 'fifo')])
    const server = createServer().listen(join(root, 'socket'))
    try {
      expect(paths()).toEqual(['a'])
    } finally {
      server.close()
    }
  })

  test('of a folder that cannot be read fail the list', () => {
    rmSync(root, { recursive: true })
    expect(() => list()).toThrow('ENOENT')
  })
})

describe('the time of a file', () => {
  const timesFile = () => `${root}-times`
  afterEach(() => rmSync(timesFile(), { force: true }))
  const timeOf = (text: string, second: number): bigint => {
    write('a', text)
    utimesSync(join(root, 'a'), second, second)
    const times = openTimes(timesFile())
    const all = { excludes: [], includes: [], follow: [] }
    const entry = [...listContext(root, all, times)].find((one) => one !== undefined)
    times.save(true)
    return entry?.stat.mtimeNs ?? 0n
  }

  test('stays while its content does, and is another with another content of the same size and second', () => {
    const first = timeOf('one', 1_000)
    expect(timeOf('one', 2_000)).toBe(first)
    expect(timeOf('two', 1_000)).not.toBe(first)
    expect(timeOf('two', 1_000) / 1_000_000_000n).toBe(1_000n)
    expect(timeOf('one', 3_000) / 1_000_000_000n).toBe(3_000n)
  })

  test('does not need what is remembered', () => {
    const first = timeOf('one', 1_000)
    for (const broken of ['', '{"a":1}', '[["a"]]', '[null]', '[["a","x","y"]]']) {
      writeFileSync(timesFile(), broken)
      expect(timeOf('one', 1_000)).toBe(first)
    }
    writeFileSync(timesFile(), JSON.stringify([['a', 'other content', 7]]))
    expect(timeOf('one', 1_000)).toBe(first)
  })

  test('of a large file comes from all of its bytes', () => {
    const large = 'y'.repeat(3_000_000)
    expect(timeOf(`${large}1`, 1_000)).not.toBe(timeOf(`${large}2`, 1_000))
  })

  test('of files that a failed build did not see is kept', () => {
    const first = timeOf('one', 1_000)
    openTimes(timesFile()).save(false)
    expect(timeOf('one', 2_000)).toBe(first)
    openTimes(timesFile()).save(true)
    expect(timeOf('one', 2_000)).not.toBe(first)
  })
})

describe('resolveInside', () => {
  test('gives the real path of what lies in the checkout', () => {
    write('app/Dockerfile')
    symlinkSync('app', join(root, 'link'))
    expect(resolveInside(root, 'link/Dockerfile')).toBe(join(root, 'app/Dockerfile'))
    expect(resolveInside(root, '.')).toBe(root)
  })

  test('refuses what leads out of it, and what is not there', () => {
    symlinkSync('/etc', join(root, 'out'))
    mkdirSync(`${root}-beside`)
    symlinkSync(`${root}-beside`, join(root, 'beside'))
    for (const path of ['out', 'out/passwd', '..', 'beside']) {
      expect(() => resolveInside(root, path)).toThrow(`${path} leads out of the checkout.`)
    }
    expect(() => resolveInside(root, 'nope')).toThrow('nope is not in the checkout.')
    rmSync(`${root}-beside`, { recursive: true })
  })
})
