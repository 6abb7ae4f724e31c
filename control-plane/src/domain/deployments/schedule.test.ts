import { describe, expect, it } from 'vitest'
import { decideRun, pauseReason } from './schedule.ts'

const at = (text: string): number => Date.parse(`2026-${text}Z`)
const DAILY = { cron: '0 3 * * *', timezone: 'UTC' }
const MINUTELY = { cron: '* * * * *', timezone: 'UTC' }
const SERVER = { name: 'fra-1', isJoined: true, isPaused: false, offlineSince: null }
const facts = (over: Partial<Parameters<typeof decideRun>[0]> = {}) => ({
  schedule: DAILY,
  dueAt: at('11-17T03:00:00'),
  now: at('11-17T03:00:01'),
  identifier: 'main',
  pause: null,
  server: SERVER,
  openTaskId: null,
  queued: 0,
  ...over,
})

describe('a due schedule', () => {
  it('starts its action and is due again the next day', () => {
    expect(decideRun(facts())).toEqual({
      unstarted: [],
      startsFor: at('11-17T03:00:00'),
      nextRunAt: at('11-18T03:00:00'),
    })
  })

  it('may start late, but not too late', () => {
    expect(decideRun(facts({ now: at('11-17T03:04:59') })).startsFor).toBe(at('11-17T03:00:00'))
    const late = decideRun(facts({ now: at('11-17T03:05:01') }))
    expect(late.startsFor).toBeNull()
    expect(late.unstarted).toEqual([
      {
        outcome: 'missed',
        reason: 'The control plane did not run at that time.',
        dueAt: at('11-17T03:00:00'),
        lastDueAt: at('11-17T03:00:00'),
        runs: 1,
      },
    ])
  })

  it('after an outage reports the missed ones and starts only the newest', () => {
    const due = { schedule: MINUTELY, dueAt: at('11-17T03:00:00') }
    const decision = decideRun(facts({ ...due, now: at('11-17T03:30:10') }))
    expect(decision.startsFor).toBe(at('11-17T03:30:00'))
    expect(decision.nextRunAt).toBe(at('11-17T03:31:00'))
    expect(decision.unstarted).toMatchObject([
      { outcome: 'missed', runs: 30, lastDueAt: at('11-17T03:29:00') },
    ])
    const days = decideRun(facts({ ...due, now: at('11-20T03:30:10') }))
    expect([days.startsFor, days.unstarted[0]?.runs]).toEqual([at('11-20T03:30:00'), 100])
  })

  it.each([
    ['missed', 'main is stopped.', { pause: 'main is stopped.' }],
    ['missed', 'fra-1 has no agent.', { server: { ...SERVER, isJoined: false } }],
    [
      'missed',
      'fra-1 is paused and takes no new tasks.',
      { server: { ...SERVER, isPaused: true } },
    ],
    ['missed', 'fra-1 is offline.', { server: { ...SERVER, offlineSince: at('11-17T02:55:00') } }],
    ['skipped', 'Task 812 of this action had not ended.', { openTaskId: 812 }],
    ['skipped', '5 tasks of main waited already.', { queued: 5 }],
  ])('is %s: %s', (outcome, reason, over) => {
    const { startsFor, unstarted, nextRunAt } = decideRun(facts(over))
    expect([startsFor, nextRunAt]).toEqual([null, at('11-18T03:00:00')])
    expect(unstarted).toMatchObject([{ outcome, reason, runs: 1 }])
  })

  it('waits for a server that left a moment ago', () => {
    const server = { ...SERVER, offlineSince: at('11-17T02:59:50') }
    expect(decideRun(facts({ server })).startsFor).toBe(at('11-17T03:00:00'))
  })

  it('runs once on the days on which daylight saving begins and ends', () => {
    const schedule = { cron: '30 2 * * *', timezone: 'Europe/Berlin' }
    for (const [day, next] of [
      ['03-29T01:00:00', '03-30T00:30:00'],
      ['10-25T00:30:00', '10-26T01:30:00'],
    ] as const) {
      const decision = decideRun(facts({ schedule, dueAt: at(day), now: at(day) + 500 }))
      expect(decision).toEqual({ unstarted: [], startsFor: at(day), nextRunAt: at(next) })
    }
  })
})

describe('a pause', () => {
  const none = {
    identifier: 'main',
    isRemoving: false,
    isStopped: false,
    stoppedServices: [],
    service: 'web',
    disabledReason: '',
    problem: null,
  }
  it.each([
    [null, {}],
    ['main is being removed.', { isRemoving: true }],
    ['main is stopped.', { isStopped: true, stoppedServices: ['web', 'worker'] }],
    ['web is stopped.', { stoppedServices: ['web'] }],
    [null, { stoppedServices: ['worker'] }],
    ["It uses 'result: file'.", { disabledReason: "It uses 'result: file'." }],
    ['No such zone.', { problem: 'No such zone.' }],
  ])('%s', (reason, over) => expect(pauseReason({ ...none, ...over })).toBe(reason))
})
