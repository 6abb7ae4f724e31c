// The back-off as a table, and a large number of agents that stays spread.
import { GoodbyeReason } from '@berth/shared/wire'
import { expect, test } from 'vitest'
import { decideNext, type SessionEnd, waitBeforeTry, windowMs } from './backoff.ts'

const end = (over: Partial<SessionEnd> = {}): SessionEnd => ({ message: '', activeMs: 0, ...over })
const goodbye = (reason: GoodbyeReason, reconnectAfterMs = 0, activeMs = 0): SessionEnd =>
  end({ goodbye: { reason, reconnectAfterMs }, activeMs })

test('windows double from 1 s to 24 s', () => {
  expect([0, 1, 2, 3, 4, 5, 6, 7, 100].map(windowMs)).toEqual([
    1_000, 2_000, 4_000, 8_000, 16_000, 24_000, 24_000, 24_000, 24_000,
  ])
  expect([0, 0.25, 0.999].map((r) => waitBeforeTry(2, r))).toEqual([0, 1_000, 3_996])
})

test('in a large fleet no window is shorter than what the control plane asked for', () => {
  expect([0, 3, 5, 6].map((n) => windowMs(n, 17_000))).toEqual([17_000, 17_000, 24_000, 24_000])
  expect(windowMs(9, 60_000)).toBe(60_000)
  expect(waitBeforeTry(0, 0.5, 17_000)).toBe(8_500)
  // a failed try waits for the end of that window
  const next = decideNext(end(), 0, 5_000, 0.5, 17_000)
  expect(next).toEqual({ do: 'wait', waitMs: 12_000, n: 1, dial: 'in_window' })
})

test.each<[string, SessionEnd, number, number, ReturnType<typeof decideNext>]>([
  [
    'a failed try waits for its window',
    end(),
    2,
    1_500,
    { do: 'wait', waitMs: 2_500, n: 3, dial: 'in_window' },
  ],
  [
    'a try longer than its window',
    end(),
    0,
    10_000,
    { do: 'wait', waitMs: 0, n: 1, dial: 'in_window' },
  ],
  [
    'a short session does not reset',
    end({ activeMs: 59_999 }),
    4,
    70_000,
    { do: 'wait', waitMs: 0, n: 4, dial: 'in_window' },
  ],
  [
    'a session shorter than the next window counts as failed',
    end({ activeMs: 1_999 }),
    0,
    5_000,
    { do: 'wait', waitMs: 0, n: 1, dial: 'in_window' },
  ],
  [
    'a longer one does not',
    end({ activeMs: 2_000 }),
    0,
    5_000,
    { do: 'wait', waitMs: 0, n: 0, dial: 'in_window' },
  ],
  [
    'a minute of ACTIVE resets',
    end({ activeMs: 60_000 }),
    4,
    70_000,
    { do: 'wait', waitMs: 0, n: 0, dial: 'in_window' },
  ],
  [
    'reconnect_after overrides',
    goodbye(GoodbyeReason.SERVER_DRAINING, 7_000),
    5,
    0,
    { do: 'wait', waitMs: 7_000, n: 6, dial: 'at_once' },
  ],
  [
    'reconnect_after is bounded',
    goodbye(GoodbyeReason.OVERLOADED, 1e12),
    0,
    0,
    { do: 'wait', waitMs: 3_600_000, n: 1, dial: 'at_once' },
  ],
  [
    'draining without a time uses the back-off',
    goodbye(GoodbyeReason.SERVER_DRAINING, 0, 90_000),
    3,
    0,
    { do: 'wait', waitMs: 0, n: 0, dial: 'in_window' },
  ],
  [
    'superseded: a minute and jitter',
    goodbye(GoodbyeReason.SUPERSEDED),
    0,
    0,
    { do: 'wait', waitMs: 75_000, n: 1, dial: 'at_once' },
  ],
  [
    'superseded with a time',
    goodbye(GoodbyeReason.SUPERSEDED, 5_000),
    0,
    0,
    { do: 'wait', waitMs: 5_000, n: 1, dial: 'at_once' },
  ],
  [
    'version unsupported',
    goodbye(GoodbyeReason.VERSION_UNSUPPORTED),
    0,
    0,
    { do: 'wait', waitMs: 750_000, n: 1, dial: 'at_once' },
  ],
  [
    'certificate expired: at once',
    goodbye(GoodbyeReason.CERTIFICATE_EXPIRED, 0, 1e9),
    0,
    1e9,
    { do: 'wait', waitMs: 0, n: 0, dial: 'in_window' },
  ],
  ['revoked', goodbye(GoodbyeReason.REVOKED, 5_000), 0, 0, { do: 'stop', exitCode: 78 }],
  [
    'duplicate identity',
    goodbye(GoodbyeReason.DUPLICATE_IDENTITY),
    0,
    0,
    { do: 'stop', exitCode: 78 },
  ],
  [
    'back with a new certificate',
    end({ renewed: true, activeMs: 5 }),
    3,
    0,
    { do: 'wait', waitMs: 0, n: 3, dial: 'at_once' },
  ],
])('%s', (_name, ended, n, since, expected) => {
  expect(decideNext(ended, n, since, 0.5)).toEqual(expected)
})

test('a thousand agents cut at one moment spread evenly over each window', () => {
  let seed = 7
  const random = (): number => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed / 2_147_483_647
  }
  const tries: number[][] = [[], [], [], [], []]
  for (let agent = 0; agent < 1_000; agent++) {
    let at = 0
    let n = 0
    for (let round = 0; round < 5; round++) {
      const wait = waitBeforeTry(n, random())
      tries[round]?.push(at + wait)
      const next = decideNext(end(), n, wait, random())
      if (next.do !== 'wait') throw new Error('stopped')
      at += wait + next.waitMs
      n = next.n
    }
  }
  // rounds do not overlap: 0–1, 1–3, 3–7, 7–15, 15–31 s; each tenth of a window holds about a tenth
  for (const [round, times] of tries.entries()) {
    const from = 1_000 * (2 ** round - 1)
    const width = windowMs(round)
    const tenths = new Array(10).fill(0)
    for (const t of times) tenths[Math.floor(((t - from) / width) * 10)]++
    expect(Math.min(...tenths)).toBeGreaterThan(60)
    expect(Math.max(...tenths)).toBeLessThan(150)
  }
})
