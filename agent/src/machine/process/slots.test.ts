// Slots across real processes: how many enter, in which order, and what happens to the slot of a killed process.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { takeSlot } from './slots.ts'

let runDir: string
const children: ChildProcess[] = []
beforeEach(() => {
  runDir = mkdtempSync(join(tmpdir(), 'berth-slots-'))
})
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  rmSync(runDir, { recursive: true, force: true })
})

const PROGRAM = `
const { takeSlot } = await import(process.argv[1])
const release = await takeSlot({ runDir: process.argv[2] }, 'build', {
  slots: () => Number(process.argv[3]), signal: new AbortController().signal,
  onPlace: (place) => console.log('place', place),
})
console.log('in')
process.stdin.on('data', () => { release(); console.log('out'); process.exit(0) })
`

/** Another process that takes a slot; `next` returns its next line. */
function another(slots: number) {
  const child = spawn(
    process.execPath,
    [
      '--input-type=module',
      '-e',
      PROGRAM,
      join(import.meta.dirname, 'slots.ts'),
      runDir,
      `${slots}`,
    ],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  )
  children.push(child)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    child,
    next: async (): Promise<string> => (await lines.next()).value ?? 'ended',
    leave: () => child.stdin.write('x'),
  }
}

test('one after the other across processes, told their places, in the order they came', async () => {
  const first = another(1)
  expect(await first.next()).toBe('in')
  const second = another(1)
  expect(await second.next()).toBe('place 1')
  const third = another(1)
  expect(await third.next()).toBe('place 2')
  first.leave()
  expect(await first.next()).toBe('out')
  expect(await second.next()).toBe('in')
  expect(await third.next()).toBe('place 1')
  second.leave()
  expect(await third.next()).toBe('in')
  third.leave()
  expect(await third.next()).toBe('out')
  expect(readdirSync(join(runDir, 'slots'))).toEqual([])
})

test('a holder and a waiting one that were killed leave nothing behind', async () => {
  const holder = another(1)
  expect(await holder.next()).toBe('in')
  const gone = another(1)
  expect(await gone.next()).toBe('place 1')
  const paths: number[] = []
  const { signal } = new AbortController()
  const taken = takeSlot({ runDir }, 'build', {
    slots: () => 1,
    signal,
    onPlace: (place) => paths.push(place),
  })
  gone.child.kill('SIGKILL')
  holder.child.kill('SIGKILL')
  const release = await taken
  expect(paths[0]).toBe(2)
  release()
  release()
  expect(readdirSync(join(runDir, 'slots'))).toEqual([])
})

test('never more inside than there are slots, kinds do not count for each other, a cancel leaves the line', async () => {
  const { signal } = new AbortController()
  const options = { slots: () => 2, signal, onPlace: () => undefined }
  let [inside, most] = [0, 0]
  const visit = async (): Promise<void> => {
    const release = await takeSlot({ runDir }, 'build', options)
    inside += 1
    most = Math.max(most, inside)
    await new Promise((resolve) => setTimeout(resolve, 20))
    inside -= 1
    release()
  }
  await Promise.all(Array.from({ length: 8 }, visit))
  expect(most).toBe(2)
  const held = await takeSlot({ runDir }, 'build', { ...options, slots: () => 1 })
  const pull = await takeSlot({ runDir }, 'pull', { ...options, slots: () => 1 })
  const cancel = new AbortController()
  const onPlace = (): void => cancel.abort(new Error('canceled'))
  const waiting = takeSlot({ runDir }, 'build', { slots: () => 1, signal: cancel.signal, onPlace })
  await expect(waiting).rejects.toThrow('canceled')
  held()
  pull()
  expect(readdirSync(join(runDir, 'slots'))).toEqual([])
})
