import { execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { replaceFile } from './atomic-files.ts'

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'berth-atomic-'))
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

test('a file that finds space for a part of it only stays what it was', ({ skip }) => {
  const mount = join(dir, 'small')
  mkdirSync(mount)
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', mount], { stdio: 'ignore' })
  } catch {
    skip('mounting a small file system is not allowed here')
  }
  try {
    const file = join(mount, 'table.json')
    replaceFile(file, 'before')
    writeFileSync(join(mount, 'ballast'), Buffer.alloc(32_768))
    expect(() => replaceFile(file, 'x'.repeat(50_000))).toThrow('ENOSPC')
    expect(readFileSync(file, 'utf8')).toBe('before')
  } finally {
    execFileSync('umount', ['-l', mount])
  }
})

test('several processes may replace one file at once', async () => {
  const file = join(dir, 'shared')
  const script = `
    import { replaceFile } from ${JSON.stringify(join(import.meta.dirname, 'atomic-files.ts'))}
    for (let i = 0; i < 300; i++) replaceFile(${JSON.stringify(file)}, 'x'.repeat(1_000))`
  const children = Array.from({ length: 3 }, () =>
    fork('-', [], {
      execArgv: ['--input-type=module', '-e', script],
      stdio: ['ignore', 'inherit', 'ignore', 'ipc'],
    }),
  )
  const codes = await Promise.all(children.map(async (child) => (await once(child, 'exit'))[0]))
  expect(codes).toEqual([0, 0, 0])
  expect(readdirSync(dir)).toEqual(['shared'])
})
