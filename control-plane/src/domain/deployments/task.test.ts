import { isFinished, TASK_STATUSES } from '@berth/shared'
import { describe, expect, test } from 'vitest'
import { decideCancel, sourcesOf } from './task.ts'

const ORDER = { queued: 0, running: 1, succeeded: 2, failed: 2, canceled: 2 }

describe('task matrix', () => {
  test('every cell: forward only, and what is final stays', () => {
    for (const from of TASK_STATUSES) {
      for (const to of TASK_STATUSES) {
        const may = sourcesOf(to).includes(from)
        expect(may, `${from} to ${to}`).toBe(ORDER[to] > ORDER[from] && !isFinished(from))
      }
    }
  })

  test('a cancel ends what was never sent, asks the agent otherwise, and is refused at the end', () => {
    expect(decideCancel('queued', false).kind).toBe('cancel_now')
    expect(decideCancel('queued', true).kind).toBe('ask_the_agent')
    expect(decideCancel('running', true).kind).toBe('ask_the_agent')
    for (const status of ['succeeded', 'failed', 'canceled'] as const) {
      expect(decideCancel(status, false).kind).toBe('refuse_finished')
    }
  })
})
