import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { memoryCause, readAvailableMemory, readMemoryCounters } from './memory.ts'

const folder = mkdtempSync(join(tmpdir(), 'berth-memory-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function group(name: string, files: Record<string, string>): string {
  const at = join(folder, name)
  mkdirSync(at)
  for (const [file, text] of Object.entries(files)) writeFileSync(join(at, file), text)
  return at
}

test('counters of both versions', () => {
  const events = 'low 0\nhigh 0\nmax 812\noom 3\noom_kill 2\noom_group_kill 0\n'
  expect(readMemoryCounters(group('two', { 'memory.events': events }))).toEqual({
    hits: 3,
    kills: 2,
    isFull: false,
  })
  const one = group('one', {
    'memory.failcnt': '0\n',
    'memory.memsw.failcnt': '41\n',
    'memory.limit_in_bytes': '67108864\n',
    'memory.max_usage_in_bytes': '67108864\n',
    'memory.oom_control': 'oom_kill_disable 0\nunder_oom 0\noom_kill 1\n',
  })
  expect(readMemoryCounters(one)).toEqual({ hits: 41, kills: 1, isFull: true })
  expect(readMemoryCounters(join(folder, 'gone'))).toEqual({
    hits: 0,
    kills: 0,
    isFull: false,
  })
})

test('a process that was ended at the limit, below it, or not at all', () => {
  const before = { hits: 5, kills: 1, isFull: false }
  expect(memoryCause(before, { ...before, hits: 6, kills: 2 })).toBe('limit')
  expect(memoryCause(before, { ...before, isFull: true, kills: 2 })).toBe('limit')
  expect(memoryCause(before, { ...before, kills: 2 })).toBe('server')
  expect(memoryCause(before, { ...before, hits: 9, isFull: true })).toBeUndefined()
})

test('the memory that is left', () => {
  expect(readAvailableMemory('MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  250 kB\n')).toBe(
    0.25,
  )
  expect(readAvailableMemory('')).toBe(1)
  expect(readAvailableMemory()).toBeGreaterThan(0)
})
