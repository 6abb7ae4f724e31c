// Wrong signatures by address and project, and in total.

import { expect, test } from 'vitest'
import { RateLimit } from '../../../identity/rate-limit.ts'
import { LocalWindows } from '../../../identity/windows.ts'
import { WEBHOOKS } from '../../../limits/forges.ts'
import { WebhookFailures } from './webhook-failures.ts'

const addresses = (count: number) =>
  Array.from({ length: count }, (_, n) => `10.0.${n >> 8}.${n & 255}`)

function counter() {
  const clock = { now: 1_000_000 }
  const now = () => clock.now
  const limit = new RateLimit(WEBHOOKS.failuresPerMinute, new LocalWindows(now))
  const failures = new WebhookFailures(limit, now)
  const isHeard = (address: string, project = '1') => {
    try {
      failures.check(address, project)
      return true
    } catch (error) {
      expect(error).toMatchObject({
        code: 'rate_limited',
        details: { retry_after: expect.any(Number) },
      })
      return false
    }
  }
  return { clock, failures, isHeard }
}

test('one address has so many a minute at one project, and none less elsewhere', async () => {
  const { clock, failures, isHeard } = counter()
  for (let n = 0; n < WEBHOOKS.failuresPerMinute; n++) {
    expect(isHeard('9.9.9.9')).toBe(true)
    await failures.note('9.9.9.9', '1')
    clock.now += 100
  }
  expect([isHeard('9.9.9.9'), isHeard('9.9.9.9', '2'), isHeard('8.8.8.8')]).toEqual([
    false,
    true,
    true,
  ])
  clock.now += 60_000
  expect(isHeard('9.9.9.9')).toBe(true)
})

test('a flood from everywhere leaves those who signed rightly lately, and a second later everybody', async () => {
  const { clock, failures, isHeard } = counter()
  failures.noteGood('1.1.1.1')
  clock.now += WEBHOOKS.knownAddressMs
  failures.noteGood('2.2.2.2')
  const flood = async () => {
    for (const address of addresses(WEBHOOKS.failuresPerSecond)) await failures.note(address, '1')
  }
  await flood()
  expect([isHeard('1.1.1.1'), isHeard('2.2.2.2'), isHeard('3.3.3.3')]).toEqual([false, true, false])
  clock.now += 1_000
  expect(isHeard('3.3.3.3')).toBe(true)
  await flood()
  expect([isHeard('2.2.2.2'), isHeard('3.3.3.3')]).toEqual([true, false])
})

test('who is known and then floods is still bound by its own minute', async () => {
  const { failures, isHeard } = counter()
  failures.noteGood('2.2.2.2')
  for (let n = 0; n < WEBHOOKS.failuresPerMinute; n++) await failures.note('2.2.2.2', '1')
  expect(isHeard('2.2.2.2')).toBe(false)
})
