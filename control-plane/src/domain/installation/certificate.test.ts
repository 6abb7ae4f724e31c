// When a certificate is renewed, and how often at most after failures.
import { describe, expect, test } from 'vitest'
import { HTTPS } from '../../limits/installation.ts'
import { begin, explain, fail, isDue, renewalTime, UNTRIED } from './certificate.ts'

const DAY = 86_400_000
const HOUR = 3_600_000
const quarter = { from: 0, until: 90 * DAY }
const problem = { at: 0, message: 'no', fix: 'wait' }

test('a certificate is renewed with a third of its life left, however short it is', () => {
  expect(renewalTime(quarter)).toBe(60 * DAY)
  expect(renewalTime({ from: 0, until: 6 * DAY })).toBe(4 * DAY)
  expect(isDue(quarter, UNTRIED, 60 * DAY - 1)).toBe(false)
  expect(isDue(quarter, UNTRIED, 60 * DAY)).toBe(true)
  expect(isDue(undefined, UNTRIED, 0)).toBe(true)
})

test('five tries in the first hour at most, and then fewer, also if the process dies each time', () => {
  for (const next of [
    begin,
    (...[status, now]: Parameters<typeof begin>) => fail(status, now, problem),
  ]) {
    let status = UNTRIED
    const tries: number[] = []
    for (let now = 0; now < 24 * HOUR; now += 60_000) {
      if (!isDue(undefined, status, now)) continue
      tries.push(now)
      status = next(status, now)
    }
    expect(tries.filter((at) => at < HOUR).length).toBe(5)
    expect(tries.length).toBeLessThan(12)
    expect(status.failures).toBe(tries.length)
  }
})

describe('what people read', () => {
  const asked = { domain: 'd.example.com', directory: 'https://ca.example.com/dir', httpPort: 80 }

  test('a limit of the authority is waited for', () => {
    const status = fail(UNTRIED, 0, problem, HTTPS.limitedMs)
    expect(isDue(undefined, status, HTTPS.limitedMs - 1)).toBe(false)
    const { fix } = explain({ type: 'rateLimited', detail: 'too many certificates' }, asked)
    expect(fix).toContain('Wait')
  })

  test.each([
    ['dns', 'A or AAAA record for d.example.com'],
    ['connection', 'Open port 80'],
    ['unauthorized', 'Something else answers at port 80'],
    ['caa', 'CAA record'],
    ['rejectedIdentifier', 'BERTH_DOMAIN'],
    ['invalidContact', 'BERTH_ACME_EMAIL'],
    [undefined, 'tries again by itself'],
  ])('%s', (type, advice) => {
    const said = explain({ type, detail: 'its own words' }, asked)
    expect(said.message).toBe('ca.example.com answered: its own words')
    expect(said.fix).toContain(advice)
  })
})
