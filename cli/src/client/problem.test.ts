import { ERRORS, type ErrorCode } from '@berth/shared'
import { expect, it } from 'vitest'
import { problem } from '../testing/peer.ts'
import { exitCodeOf, parseRetryAfter, refusal } from './problem.ts'

const answer = (status: number, text: string, headers: Record<string, string> = {}) =>
  refusal({
    baseUrl: 'https://deploy.example.com',
    method: 'POST',
    path: '/api/x',
    status,
    headers: new Headers(headers),
    text,
    now: 0,
  })

const OWN: Partial<Record<ErrorCode, number>> = {
  insufficient_scope: 4,
  server_not_ready: 6,
  project_not_ready: 6,
  organization_required: 6,
}

it.each(Object.keys(ERRORS) as ErrorCode[])('%s has its exit code', (code) => {
  const [status] = ERRORS[code]
  const byStatus: Record<number, number> = { 401: 4, 403: 6, 404: 5, 409: 6 }
  expect(exitCodeOf(status, code)).toBe(OWN[code] ?? byStatus[status] ?? 1)
})

it('names every wrong field', () => {
  const errors = [
    { field: 'identifier', code: 'invalid', message: 'must be lower case.' },
    { field: '', code: 'x', message: 'And so on.' },
    null,
  ]
  const { json } = problem('validation_failed', '2 fields are not valid.', { errors })
  expect(answer(422, JSON.stringify(json)).message).toBe(
    'identifier: must be lower case.; And so on.',
  )
})

it('a server fault carries its request id', () => {
  const { json } = problem('internal_error', 'Internal error')
  expect(answer(500, JSON.stringify(json)).message).toContain('request req_TEST01')
})

it('a missing scope is named', () => {
  const { json } = problem('insufficient_scope', 'No.', { required_scope: 'admin' })
  expect(answer(403, JSON.stringify(json)).hint).toContain('scope admin')
})

it.each(['<html>502</html>', '{}', ''])(
  '%j is no problem document and is not taken for one',
  (text) => {
    const failure = answer(502, text, { 'x-request-id': 'req_9' })
    expect(failure.exitCode).toBe(1)
    expect(failure.message).toContain('status 502 (request req_9)')
  },
)

it('reads Retry-After in both forms', () => {
  expect(parseRetryAfter('7', 0)).toBe(7_000)
  expect(parseRetryAfter('Thu, 01 Jan 1970 00:00:10 GMT', 4_000)).toBe(6_000)
  expect(parseRetryAfter('soon', 0)).toBeNull()
  expect(parseRetryAfter(null, 0)).toBeNull()
})
