// The claim decides which process runs an attempt: one winner among many, and no reader ever sees half a file.
import { fork } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { attemptPaths, readClaim, takeClaim } from './attempt-files.ts'

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
