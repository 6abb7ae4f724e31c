import { FailureCode } from '@berth/shared/wire'
import { describe, expect, test } from 'vitest'
import {
  ATTEMPT_EVENTS,
  ATTEMPT_MATRIX,
  ATTEMPT_STATES,
  type AttemptStateValue,
  isAttemptState,
  mayRepeat,
  moveAttempt,
  taskStatusFor,
} from './attempt.ts'
import { sourcesOf } from './task.ts'

/** A small random generator, seeded, so that it is the same on every machine. */
function seeded(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

describe('attempt matrix', () => {
  test('every cell moves forward, stays, or is noted beside a lost attempt', () => {
    let cells = 0
    for (const state of ATTEMPT_STATES) {
      for (const event of ATTEMPT_EVENTS) {
        cells += 1
        const step = moveAttempt(state, event)
        if (step.kind === 'moved') expect(step.state).toBeGreaterThan(state)
        if (state >= 100) expect(step.kind).not.toBe('moved')
        if (step.kind === 'late') expect(ATTEMPT_MATRIX[state].lost).toBe('stay')
      }
    }
    expect(cells).toBe(ATTEMPT_STATES.length * ATTEMPT_EVENTS.length)
  })

  test('a refusal is impossible once the first step ran', () => {
    expect(moveAttempt(30, 'refused')).toEqual({ kind: 'moved', state: 140 })
    expect(moveAttempt(40, 'refused')).toEqual({ kind: 'nothing' })
    expect(moveAttempt(50, 'refused')).toEqual({ kind: 'nothing' })
  })

  test('the real end of a lost attempt is late news, not a change', () => {
    expect(moveAttempt(150, 'succeeded')).toEqual({ kind: 'late', outcome: 'succeeded' })
    expect(moveAttempt(150, 'refused')).toEqual({ kind: 'nothing' })
  })

  test('only draining and not_started are repeated, and not for ever', () => {
    const repeated = Object.values(FailureCode).filter((code) => mayRepeat(code, 1, 5))
    expect(repeated).toEqual([FailureCode.DRAINING, FailureCode.NOT_STARTED])
    expect(mayRepeat(FailureCode.DRAINING, 5, 5)).toBe(false)
  })

  test('random walks: numbers never decrease, what is final stays, the task follows', () => {
    for (let seed = 1; seed <= 500; seed++) {
      const random = seeded(seed)
      let state: AttemptStateValue = 10
      let task: 'queued' | 'running' | 'succeeded' | 'failed' | 'canceled' = 'queued'
      for (let i = 0; i < 30; i++) {
        const event = ATTEMPT_EVENTS[Math.floor(random() * ATTEMPT_EVENTS.length)] ?? 'lost'
        const step = moveAttempt(state, event)
        if (step.kind !== 'moved') continue
        expect(step.state, `seed ${seed}`).toBeGreaterThan(state)
        expect(state, `seed ${seed}`).toBeLessThan(100)
        state = step.state
        const wanted = taskStatusFor(state, random() < 0.5)
        if (wanted && wanted !== task) {
          expect(sourcesOf(wanted), `seed ${seed}: ${task} to ${wanted}`).toContain(task)
          task = wanted
        }
      }
      expect(isAttemptState(state)).toBe(true)
    }
  })
})
