import { describe, expect, it } from 'vitest'
import { explainStatus, type HealthCheck, isExpectedStatus, judgeHealth } from './health.ts'

const check: HealthCheck = {
  kind: 'http',
  path: '/up',
  status: null,
  intervalMs: 1_000,
  timeoutMs: 5_000,
  startPeriodMs: 60_000,
  retries: 3,
}
const bad = { isHealthy: false, said: 'GET /up answered 500', detail: 'first line: oops' }

describe('judgeHealth', () => {
  it('is content with the first success', () => {
    const good = { isHealthy: true, said: '', detail: '' }
    expect(judgeHealth(check, good, 0, 0)).toEqual({ kind: 'healthy' })
  })

  it('does not count failures of the start period', () => {
    expect(judgeHealth(check, bad, 59_999, 2)).toEqual({
      kind: 'again',
      waitMs: 1_000,
      failures: 0,
    })
  })

  it('gives up after the retries in a row, with what was answered', () => {
    expect(judgeHealth(check, bad, 60_000, 0)).toMatchObject({ kind: 'again', failures: 1 })
    expect(judgeHealth(check, bad, 60_000, 1)).toMatchObject({ kind: 'again', failures: 2 })
    expect(judgeHealth(check, bad, 60_000, 2)).toEqual({
      kind: 'unhealthy',
      message: 'GET /up answered 500 three times in a row (first line: oops).',
    })
  })

  it('looks often in the first two seconds', () => {
    expect(judgeHealth(check, bad, 1_999, 0)).toMatchObject({ waitMs: 25 })
    expect(judgeHealth(check, bad, 2_000, 0)).toMatchObject({ waitMs: 1_000 })
  })

  it('takes no retries as one', () => {
    const once = { ...check, startPeriodMs: 0, retries: 0 }
    expect(judgeHealth(once, bad, 0, 0)).toMatchObject({ kind: 'unhealthy' })
  })
})

it('expects 200 to 399, or exactly the status that was asked for', () => {
  const of = (expected: number | null) =>
    [199, 200, 399, 400, 204].map((s) => isExpectedStatus(expected, s))
  expect(of(null)).toEqual([false, true, true, false, true])
  expect(of(204)).toEqual([false, false, false, false, true])
})

it('explains the statuses that people meet, and no others', () => {
  const of = (status: number) => explainStatus('/up', status, 'pr-1.example.com')
  expect(of(404)).toBe(
    'Nothing answers GET /up: name a path that exists in health.path of the service.',
  )
  expect(of(401)).toContain('/up needs a login')
  expect(of(400)).toContain('refuse the host name pr-1.example.com')
  expect(of(302)).toContain('/up redirects')
  expect(of(503)).toContain('not ready')
  expect(of(500)).toBe('The application itself failed: its log says why.')
  expect([of(200), of(418), of(429)]).toEqual([undefined, undefined, undefined])
})
