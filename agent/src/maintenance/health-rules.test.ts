import { describe, expect, it } from 'vitest'
import {
  describeHealth,
  firstMemory,
  type HealthLook,
  nextRestart,
  noteLook,
  noteRestart,
} from './health-rules.ts'

const rule = { retries: 3, startPeriodMs: 60_000 }
const HOUR = 3_600_000
const well: HealthLook = { isHealthy: true, said: '', detail: '', isFrozen: false }
const failed: HealthLook = { ...well, isHealthy: false, said: 'GET /up answered 500' }
const frozen: HealthLook = { ...failed, said: 'it is frozen', isFrozen: true }
const after = (looks: HealthLook[], memory = firstMemory('a'), more = rule, upMs = HOUR) =>
  looks.reduce((before, look) => noteLook(before, look, more, upMs), memory)

describe('a service that runs', () => {
  it('is unhealthy after three failures in a row, and no others', () => {
    expect(after([failed, failed]).state).toBe('healthy')
    expect(after([failed, failed, well, failed, failed]).state).toBe('healthy')
    expect(after([failed, failed, failed])).toMatchObject({
      state: 'unhealthy',
      reason: 'GET /up answered 500 three times in a row',
    })
  })

  it('keeps its sentence while nothing new happens, and one success ends it', () => {
    const sick = after([failed, failed, failed])
    expect(after([failed, failed], sick).reason).toBe(sick.reason)
    expect(after([{ ...failed, said: 'GET /up did not answer in 5000 ms' }], sick).reason).toBe(
      'GET /up did not answer in 5000 ms 4 times in a row',
    )
    expect(after([well], sick)).toEqual(firstMemory('a'))
  })

  it('that is frozen is reported after three looks, whatever patience its check has', () => {
    const patient = { ...rule, retries: 50 }
    expect(after([frozen, frozen], undefined, patient).state).toBe('healthy')
    expect(after([frozen, frozen, frozen], undefined, patient).reason).toBe('it is frozen')
  })

  it('that was started again must answer first, and has its start period for it', () => {
    const again = noteRestart(firstMemory('a'), 'b')
    expect(again.state).toBe('starting')
    expect(noteRestart(again, 'b')).toBe(again)
    expect(after([failed, failed, failed], again, rule, 10_000).state).toBe('starting')
    expect(after([failed, failed, failed], again, rule, 61_000).state).toBe('unhealthy')
    expect(after([well], again).state).toBe('healthy')
  })
})

it('restarts at once, then with doubled pauses up to a bound', () => {
  const bounds = { firstMs: 30, capMs: 100 }
  expect(nextRestart(undefined, bounds)).toBe(0)
  const waits = [1, 2, 3, 9].map((count) => nextRestart({ count, at: 1_000 }, bounds) - 1_000)
  expect(waits).toEqual([30, 60, 100, 100])
})

it('says what is wrong and what was done about it', () => {
  const sick = after([failed, failed, failed])
  const said = (memory = sick, count = 0) =>
    describeHealth('web (replica 2)', memory, count > 0 ? { count, at: 0 } : undefined)
  expect(said(firstMemory('a'))).toBe('')
  expect(said()).toBe('web (replica 2) is unhealthy: GET /up answered 500 three times in a row.')
  expect(said(sick, 2)).toContain('in a row. It was restarted for that twice.')
  expect(said(noteRestart(sick, 'b'), 1)).toBe(
    'web (replica 2) was restarted because it was unhealthy: GET /up answered 500 three times in a row. It is not healthy yet.',
  )
  expect(said(noteRestart(firstMemory('a'), 'b'))).toBe('')
})
