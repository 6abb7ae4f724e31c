import { describe, expect, it } from 'vitest'
import { CliError } from './exit.ts'
import {
  formatAgo,
  formatBytes,
  formatDuration,
  formatStepDuration,
  formatUntil,
  parseCount,
  parseDuration,
} from './format.ts'

const NOW = Date.parse('2026-11-15T10:00:00Z')

it.each([
  [0, '0s'],
  [32_000, '32s'],
  [78_000, '1m18s'],
  [62_000, '1m02s'],
  [7_500_000, '2h05m'],
])('a task of %d ms took %s', (ms, text) => expect(formatDuration(ms)).toBe(text))

it.each([
  [1_800, '1.8s'],
  [41_249, '41.2s'],
  [59_960, '1m00s'],
  [62_000, '1m02s'],
])('a step of %d ms took %s', (ms, text) => expect(formatStepDuration(ms)).toBe(text))

it.each([
  ['2026-11-15T09:59:57Z', 'just now'],
  ['2026-11-15T10:05:00Z', 'just now'], // a server whose clock is ahead
  ['2026-11-15T09:56:00Z', '4 min ago'],
  ['2026-11-15T08:00:00Z', '2 h ago'],
  // rounded to the nearest, also into the next unit
  ['2026-11-15T08:29:00Z', '2 h ago'],
  ['2026-11-15T08:31:00Z', '1 h ago'],
  ['2026-11-15T09:57:29Z', '3 min ago'],
  ['2026-11-15T09:00:20Z', '1 h ago'],
  ['2026-11-13T09:40:00Z', '2 days ago'],
  ['2026-11-01T10:00:00Z', '14 days ago'],
  [null, '-'],
])('%s is %s', (time, text) => expect(formatAgo(time, NOW)).toBe(text))

it('says how long a token lives', () => {
  expect(formatUntil('2026-12-15T10:00:00Z', NOW)).toBe('expires in 30 days')
  expect(formatUntil('2026-11-15T09:00:00Z', NOW)).toBe('has expired')
  expect(formatUntil(null, NOW)).toBe('never expires')
})

it('says bytes', () => {
  expect([3, 1_200_000, 60_000_000_000].map(formatBytes)).toEqual(['3 B', '1.2 MB', '60 GB'])
})

describe('flags', () => {
  it('take times with units', () => {
    const parse = (text: string) => parseDuration('--timeout', text, 86_400_000)
    expect([parse('90s'), parse('60m'), parse('1h30m'), parse('200ms'), parse('1d')]).toEqual([
      90_000, 3_600_000, 5_400_000, 200, 86_400_000,
    ])
    for (const wrong of ['', '5', '0s', '-1s', '25h', '2d', 's', '1m x']) {
      expect(() => parse(wrong), wrong).toThrow(CliError)
    }
  })

  it('take counts within bounds', () => {
    expect(parseCount('-n', '20', 1_000)).toBe(20)
    for (const wrong of ['', '0', '-1', '1.5', '1e3', '1001', 'x']) {
      expect(() => parseCount('-n', wrong, 1_000), wrong).toThrow(CliError)
    }
  })
})
