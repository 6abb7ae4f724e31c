// Failures around the runner that is started early: it cannot be started, the disk is full, its attempt is given up
// while it lives. Uses real processes and the real `runner`.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AssignmentSchema, AttemptState, TaskSecretsSchema } from '@berth/shared/wire'
import { create, toBinary } from '@bufbuild/protobuf'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { attemptPaths } from '../journal/attempt-files.ts'
import { EventFileReader } from '../journal/event-file.ts'
import { frameOrder } from '../journal/secrets-pipe.ts'
import { readSettings, settingsEnvironment } from '../settings.ts'
import { createExecutor } from './executor.ts'

const MAIN = join(import.meta.dirname, '..', 'main.ts')
let stateDir: string
let dir: string

beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), 'berth-warm-'))
  dir = join(stateDir, 'attempts', 'one')
  mkdirSync(dir, { recursive: true })
})
afterEach(() => rmSync(stateDir, { recursive: true, force: true }))

/** Starts the real runner early and gives it one order; resolves when it has ended. */
async function runOrder(): Promise<number | null> {
  const settings = readSettings({ BERTH_STATE_DIR: stateDir })
  const child = spawn(process.execPath, [MAIN, 'runner'], {
    env: { PATH: process.env.PATH, ...settingsEnvironment(settings) },
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  child.stdin?.end(frameOrder(dir, create(TaskSecretsSchema)))
  const [code] = await once(child, 'exit')
  return code as number | null
}

test('a runner.log that takes nothing does not cost the verdict', async () => {
  symlinkSync('/dev/full', attemptPaths(dir).runnerLog)
  // an assignment without a task causes an internal error, which is written to runner.log
  const assignment = create(AssignmentSchema, { attemptId: 'one', environmentId: 1, fence: 1n })
  writeFileSync(attemptPaths(dir).spec, toBinary(AssignmentSchema, assignment))
  expect(await runOrder()).toBe(0)
  const reader = EventFileReader.open(attemptPaths(dir).events)
  const [first] = reader.read()
  reader.close()
  expect(first?.event.body).toMatchObject({ value: { state: AttemptState.FAILED } })
})

test('why it ended before its claim stands in runner.log', async () => {
  expect(await runOrder()).toBe(1)
  expect(readFileSync(attemptPaths(dir).runnerLog, 'utf8')).toContain('spec.bin')
})

test('one that ends during its warm-up leaves nothing', async () => {
  // never answers, so the warm-up waits for it
  const engine = createServer()
  const socket = join(stateDir, 'engine')
  const asked = once(engine, 'connection')
  await new Promise<void>((resolve) => engine.listen(socket, resolve))
  const settings = readSettings({ BERTH_STATE_DIR: stateDir, DOCKER_HOST: `unix://${socket}` })
  mkdirSync(settings.runDir)
  const child = spawn(process.execPath, [MAIN, 'runner'], {
    env: { PATH: process.env.PATH, ...settingsEnvironment(settings) },
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  try {
    const ended = once(child, 'exit')
    const [connection] = await asked
    expect(readdirSync(settings.runDir)).toEqual([expect.stringMatching(/^warm-up-/)])
    child.stdin?.end()
    expect(await ended).toEqual([0, null])
    expect(readdirSync(settings.runDir)).toEqual([])
    connection.destroy()
  } finally {
    child.kill('SIGKILL')
    engine.close()
  }
})

test('a runner that cannot be started ahead harms nobody', () => {
  const settings = readSettings({ BERTH_STATE_DIR: stateDir })
  // a file is not a folder: one of the errors that spawn throws synchronously
  const executor = createExecutor(settings, ['/etc/passwd/node'])
  expect(() => executor.prepare?.()).not.toThrow()
  executor.close?.()
})
