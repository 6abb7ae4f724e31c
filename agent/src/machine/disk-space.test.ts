// Need, reserve and messages, from given numbers; the watch and the meter, on the disk of this machine.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { expect, test } from 'vitest'
import {
  type DiskSpace,
  findDanger,
  findShortage,
  measureDiskSpace,
  needOf,
  openMeter,
  reserveOf,
  watchDiskSpace,
} from './disk-space.ts'

const MB = 1_024 ** 2
const GB = 1_024 ** 3
const disk = (freeBytes: number, more: Partial<DiskSpace> = {}): DiskSpace => ({
  folder: '/data',
  freeBytes,
  sizeBytes: 40 * GB,
  freeInodes: 1_000_000,
  ...more,
})
const demand = { needOn: () => 2 * GB, development: false, largest: [], server: 'fra-1' }

test('the reserve is a twentieth between 2 and 10 GiB; a developer keeps none', () => {
  const sizes = [10 * GB, 100 * GB, 1_000 * GB]
  expect(sizes.map((size) => reserveOf(size, false))).toEqual([2 * GB, 5 * GB, 10 * GB])
  expect(reserveOf(1_000 * GB, true)).toBe(0)
})

test('the need follows the largest of the last five', () => {
  expect(needOf([], false)).toBe(2 * GB)
  expect(needOf([10 * MB], false)).toBe(512 * MB)
  expect(needOf([10 * MB, 4 * GB, GB], false)).toBe(6 * GB)
  expect(needOf([MB, MB, MB, MB, MB, 9 * GB], false)).toBe(512 * MB)
  expect(needOf([], true)).toBe(512 * MB)
})

test('a shortage is a sentence with its figures and the largest environments', () => {
  expect(findShortage({ ...demand, disks: [disk(4 * GB)] })).toBeUndefined()
  const largest = [
    { name: 'pr-12', bytes: 2.7 * GB },
    { name: 'pr-31', bytes: 4.1 * GB },
    { name: 'tiny', bytes: MB },
  ]
  expect(findShortage({ ...demand, largest, disks: [disk(1.2 * GB)] })).toBe(
    `Server fra-1 has 1.2 GB free; this deployment needs about 2.0 GB and 2.0 GB stay reserved. Largest: pr-31 4.1 GB, pr-12 2.7 GB. Nothing was changed.`,
  )
  const two = [disk(9 * GB), disk(GB, { folder: '/engine' })]
  expect(findShortage({ ...demand, disks: two })).toContain('1.0 GB free below /engine;')
  expect(findShortage({ ...demand, disks: [disk(9 * GB, { freeInodes: 1_234 })] })).toContain(
    'room for only 1,234 more files; 50,000 stay reserved.',
  )
})

test('a step goes on until half the reserve is left', () => {
  expect(findDanger({ ...demand, disks: [disk(1.1 * GB)] })).toBeUndefined()
  expect(findDanger({ ...demand, disks: [disk(0.9 * GB)] })).toContain('had only 0.9 GB left')
  expect(findDanger({ ...demand, development: true, disks: [disk(0.9 * GB)] })).toBeUndefined()
  expect(findDanger({ ...demand, disks: [disk(9 * GB, { freeInodes: 9 })] })).toContain('9 more')
})

test('one file system is measured once, and the watch follows the signal of its caller', () => {
  const dir = mkdtempSync(`${tmpdir()}/berth-disk-`)
  try {
    const disks = measureDiskSpace([dir, tmpdir(), `${dir}/missing`])
    expect(disks.map(({ folder }) => folder)).toEqual([dir])
    const meter = openMeter([dir])
    expect(meter.grown()[0]?.bytes).toBeGreaterThanOrEqual(0)
    const caller = new AbortController()
    const watch = watchDiskSpace({
      meter,
      development: true,
      largest: [],
      server: 'fra-1',
      signal: caller.signal,
    })
    expect(watch.problem).toBeUndefined()
    caller.abort()
    expect(watch.signal.aborted).toBe(true)
    expect(watch.problem).toBeUndefined()
    watch.close()
  } finally {
    rmSync(dir, { recursive: true })
  }
})
