import { describe, expect, it } from 'vitest'
import {
  changeServerSettings,
  defaultServerSettings,
  deploymentTimeoutMs,
  findServerSettingsProblems,
  NO_SERVER_SETTINGS,
  readServerSettings,
} from './server-settings.ts'

const GiB = 1_024 ** 3
const MINUTE = 60_000

describe('defaults', () => {
  it('are half of the memory, all cores, and a build for two of them', () => {
    expect(defaultServerSettings({ cpus: 4, memoryBytes: 8 * GiB })).toEqual({
      build_memory_bytes: 4 * GiB,
      build_cpus: 4,
      build_timeout_ms: 30 * MINUTE,
      build_slots: 2,
      task_slots: 4,
    })
  })

  it('let a small server work too', () => {
    expect(defaultServerSettings({ cpus: 1, memoryBytes: GiB / 2 })).toMatchObject({
      build_memory_bytes: GiB / 2,
      build_slots: 1,
      task_slots: 2,
    })
  })
})

describe('stored settings', () => {
  it('change by what is given; null takes one back', () => {
    const first = changeServerSettings('{}', { build_cpus: 2, build_slots: 3 })
    expect(readServerSettings(first)).toEqual({
      ...NO_SERVER_SETTINGS,
      build_cpus: 2,
      build_slots: 3,
    })
    const second = changeServerSettings(first, { build_slots: null, task_slots: undefined })
    expect(readServerSettings(second)).toEqual({ ...NO_SERVER_SETTINGS, build_cpus: 2 })
  })

  it('of a later version lose only what is unknown here', () => {
    expect(readServerSettings('{"task_slots":5,"pull_slots":9}')).toEqual({
      ...NO_SERVER_SETTINGS,
      task_slots: 5,
    })
  })
})

describe('what the server has', () => {
  const size = { cpus: 2, memoryBytes: 4 * GiB }

  it('is the most that a build may get', () => {
    const asked = { build_memory_bytes: 8 * GiB, build_cpus: 3 }
    expect(findServerSettingsProblems(asked, size, 'fra-1').map(({ message }) => message)).toEqual([
      'A build cannot get 8 GiB of memory: fra-1 has 4 GiB.',
      'A build cannot get 3 processors: fra-1 has 2.',
    ])
    expect(findServerSettingsProblems(asked, null, 'fra-1')).toEqual([])
    const all = { build_memory_bytes: 4 * GiB, build_cpus: 2, task_slots: 100 }
    expect(findServerSettingsProblems(all, size, 'fra-1')).toEqual([])
    expect(findServerSettingsProblems({ build_memory_bytes: null }, size, 'fra-1')).toEqual([])
  })
})

it('a deployment has time for its build and for the rest', () => {
  expect(deploymentTimeoutMs(null, 60 * MINUTE)).toBe(60 * MINUTE)
  expect(deploymentTimeoutMs(10 * MINUTE, 60 * MINUTE)).toBe(60 * MINUTE)
  expect(deploymentTimeoutMs(120 * MINUTE, 60 * MINUTE)).toBe(150 * MINUTE)
})
