// The claim decides who runs an attempt: one winner among many, and never half a file for anybody who looks.
import { execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { attemptPaths, readClaim, replaceFile, takeClaim } from './attempt-files.ts'

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'berth-claim-'))
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

test('the first one wins, the second one learns it, and nothing else is left behind', () => {
  expect(readClaim(dir)).toBeUndefined()
  expect(takeClaim(dir, 'runner', 'boot')).toBe(true)
  expect(takeClaim(dir, 'daemon', 'boot')).toBe(false)
  expect(readClaim(dir)).toMatchObject({ by: 'runner', pid: process.pid, bootId: 'boot' })
  expect(readdirSync(dir)).toEqual(['claim.json'])
})

test('whoever looks while it is taken sees nothing or all of it', async () => {
  // another process takes claims in fresh folders; this one reads as fast as it can
  const script = `
    import { mkdirSync } from 'node:fs'
    import { takeClaim } from ${JSON.stringify(join(import.meta.dirname, 'attempt-files.ts'))}
    process.on('message', (dir) => {
      mkdirSync(dir)
      process.send(takeClaim(dir, 'runner', 'boot'))
    })
    process.send('ready')`
  const child = fork('-', [], {
    execArgv: ['--input-type=module', '-e', script],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  try {
    await new Promise((resolve) => child.once('message', resolve))
    for (let i = 0; i < 100; i++) {
      const folder = join(dir, String(i))
      const taken = Promise.withResolvers<unknown>()
      child.once('message', taken.resolve)
      child.send(folder)
      let text: string | undefined
      for (const end = Date.now() + 10_000; text === undefined && Date.now() < end; ) {
        try {
          text = readFileSync(attemptPaths(folder).claim, 'utf8')
        } catch {
          // not there yet
        }
      }
      expect(JSON.parse(text ?? 'null')).toMatchObject({ by: 'runner', bootId: 'boot' })
      expect(await taken.promise).toBe(true)
    }
  } finally {
    child.kill('SIGKILL')
  }
})

test('a file that finds room for a part of it only stays what it was', ({ skip }) => {
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
    import { replaceFile } from ${JSON.stringify(join(import.meta.dirname, 'attempt-files.ts'))}
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
