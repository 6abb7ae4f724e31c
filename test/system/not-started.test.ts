// An attempt whose process cannot start, from the failing program to what users read: the message names what failed,
// the output is the task's log and its diagnostics, masked, and a remedy is offered.
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join as joinPath } from 'node:path'
import type { Diagnostics, Task } from '@berth/shared/api'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type RunningAgent, startAgent } from '../../agent/src/agent.ts'
import { join } from '../../agent/src/link/identity/join.ts'
import { locateProgram } from '../../agent/src/machine/process/programs.ts'
import { type AgentSettings, readSettings } from '../../agent/src/settings.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { removeAccounts, until } from '../fixtures/server/installation.ts'
import { AGENT_MAIN } from '../fixtures/server/programs.ts'

/** A test's own accounts, never those of a server. */
const PREFIX = `b${randomBytes(2).toString('hex')}-e`
const SECRET = 'canary-5e81c0ffee'
let cp: TestControlPlane
let folder: string
let settings: AgentSettings
let agent: RunningAgent | undefined
let environmentId: number

beforeEach(async () => {
  folder = mkdtempSync(joinPath(tmpdir(), 'berth-not-started-'))
  settings = readSettings({
    BERTH_STATE_DIR: folder,
    BERTH_DEV: '1',
    BERTH_ACCOUNT_PREFIX: PREFIX,
    DOCKER_HOST: 'unix:///nonexistent/docker.sock',
  })
  cp = await TestControlPlane.start('sqlite')
  await cp.setUp()
  const server = await cp.server()
  const project = await cp.project('shop', server.id)
  const made = await cp.environment(project.id, 'main', { variables: { API_KEY: SECRET } })
  environmentId = made.id
  await join(settings, { url: cp.url, token: await cp.joinToken(server.id), force: false })
})
afterEach(async () => {
  await agent?.close()
  agent = undefined
  await cp.close()
  removeAccounts(PREFIX.replace(/e$/, ''))
  rmSync(folder, { recursive: true, force: true })
})

const program = (name: string, text: string): string => {
  const file = joinPath(folder, name)
  writeFileSync(file, text, { mode: 0o644 })
  return file
}

/** The task once all of its output can be read. */
async function deployWith(argv: string[]): Promise<{ task: Task; log: string }> {
  agent = await startAgent(settings, { program: argv })
  await agent.reached('active')
  const asked = await cp.call<Task>('POST', `/api/environments/${environmentId}/tasks`)
  expect(asked.status).toBe(201)
  const path = `/api/tasks/${asked.body.id}`
  const task = await until('the end', async () => {
    const { body } = await cp.call<Task>('GET', path)
    return body.finished_at !== null && body.log_complete ? body : undefined
  })
  return { task, log: (await cp.call('GET', `${path}/log`)).text }
}

const NOTHING_CHANGED =
  /Nothing was changed \(load [\d.]+ on \d+ processors, \d+ MiB of \d+ MiB memory free\)\. Deploy again\.$/

describe('a runner that cannot begin', () => {
  test('throws at its import: the error, the exit code and its output', async () => {
    const file = program(
      'broken.mjs',
      `console.error('loading with ${SECRET}')\nthrow new Error('Cannot find package "left-pad"')\n`,
    )
    const { task, log } = await deployWith([process.execPath, file])
    expect(task).toMatchObject({ status: 'failed', failure: { code: 'not_started' } })
    expect(task.failure?.message).toContain('ended with exit code 1 before it began')
    expect(task.failure?.message).toContain('It said: Error: Cannot find package "left-pad"')
    expect(task.failure?.message).toMatch(NOTHING_CHANGED)
    expect(log).toContain('Error: Cannot find package "left-pad"')
    expect(log).toContain('loading with')
    expect(log).not.toContain(SECRET)
    const path = `/api/environments/${environmentId}/diagnostics`
    const { body } = await cp.call<Diagnostics>('GET', path)
    expect(body.output).toContain('Cannot find package "left-pad"')
    expect(JSON.stringify(body)).not.toContain(SECRET)
    expect(body.hints?.map((hint) => hint.code)).toContain('deploy_again')
  })

  test.each([
    [
      'is not there',
      () => '/nonexistent/node',
      /\/nonexistent\/node could not be started \(ENOENT\)/,
    ],
    [
      'may not be executed',
      () => program('plain', '#!/bin/sh\nexit 0\n'),
      /plain could not be started \(EACCES\)/,
    ],
  ])('%s', async (_, file, reason) => {
    const { task } = await deployWith([file()])
    expect(task.failure?.message).toMatch(reason)
    expect(task.failure?.message).toMatch(NOTHING_CHANGED)
  })

  test.skipIf(!locateProgram('prlimit'))('gets no memory', async () => {
    const file = program('idle.mjs', 'setTimeout(() => {}, 60_000)\n')
    const small = [locateProgram('prlimit') as string, '--as=67108864', '--']
    const { task } = await deployWith([...small, process.execPath, file])
    expect(task).toMatchObject({ status: 'failed', failure: { code: 'not_started' } })
    expect(task.failure?.message).toMatch(/its process (?:was ended by|was killed|ended with)/)
    expect(task.failure?.message).toMatch(NOTHING_CHANGED)
  })

  test('and then can: deploying again is all it takes', async () => {
    await deployWith([process.execPath, program('broken.mjs', 'throw new Error("x")\n')])
    await agent?.close()
    const { task } = await deployWith([process.execPath, AGENT_MAIN])
    expect(task.failure?.code).not.toBe('not_started')
  })
})
