import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { afterEach, expect, it } from 'vitest'
import { findStopped } from './processes.ts'

const started: ChildProcess[] = []
afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL')
})

async function start(command: string): Promise<{ pid: number; inner: number }> {
  const child = spawn('/bin/sh', ['-c', command], {
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  })
  started.push(child)
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  const inner = Number(String(line).trim())
  // the shell names its child before the child has become the program
  await becomes(() => readFileSync(`/proc/${inner}/comm`, 'utf8').trim() === 'sleep')
  return { pid: child.pid ?? 0, inner }
}

/** The kernel delivers a signal soon, not at once. */
async function becomes(look: () => boolean): Promise<void> {
  while (!look()) await new Promise((resolve) => setImmediate(resolve))
}

it('finds the stopped program behind a shell that waits for it, and its return', async () => {
  const { pid, inner } = await start('sleep 60 & echo $!; wait')
  expect(findStopped(pid)).toBeUndefined()
  process.kill(inner, 'SIGSTOP')
  await becomes(() => findStopped(pid) !== undefined)
  expect(findStopped(pid)).toEqual({ pid: inner, name: 'sleep' })
  process.kill(inner, 'SIGCONT')
  await becomes(() => findStopped(pid) === undefined)
  process.kill(-pid, 'SIGKILL') // with everything it started
})

it('a program of which one process can run is not frozen', async () => {
  const { pid, inner } = await start('sleep 60 & a=$!; sleep 61 & echo $a; wait')
  process.kill(inner, 'SIGSTOP')
  await becomes(() => findStopped(inner) !== undefined)
  expect(findStopped(pid)).toBeUndefined()
  process.kill(-pid, 'SIGKILL') // with everything it started
})

it('a process that has ended is not frozen', () => {
  expect(findStopped(0)).toBeUndefined()
})
