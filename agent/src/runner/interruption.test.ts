// The timeout of an attempt counts only its own time; everything else still ends it while the clock is stopped.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Interruption } from './interruption.ts'

let dir: string
let interruption: Interruption
beforeEach(() => {
  vi.useFakeTimers()
  dir = mkdtempSync(join(tmpdir(), 'berth-interruption-'))
  interruption = new Interruption(dir, 1_000, () => undefined)
})
afterEach(() => {
  interruption.close()
  vi.useRealTimers()
  rmSync(dir, { recursive: true, force: true })
})

test('a wait that others cause does not count', () => {
  vi.advanceTimersByTime(600)
  const goOn = interruption.pause()
  vi.advanceTimersByTime(60_000)
  expect(interruption.reason).toBeUndefined()
  goOn()
  goOn()
  vi.advanceTimersByTime(399)
  expect(interruption.reason).toBeUndefined()
  vi.advanceTimersByTime(1)
  expect(interruption.reason).toEqual({ kind: 'timeout' })
})

test('a stop ends the wait', () => {
  const goOn = interruption.pause()
  writeFileSync(join(dir, 'stop'), 'Canceled.\n')
  interruption.look()
  expect(interruption.reason).toEqual({ kind: 'stop', why: 'Canceled.' })
  expect(interruption.signal.aborted).toBe(true)
  goOn()
})

test('a clock that was stopped does not start again after the end', () => {
  const goOn = interruption.pause()
  interruption.close()
  goOn()
  expect(vi.getTimerCount()).toBe(0)
})
