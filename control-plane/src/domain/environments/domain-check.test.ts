import { expect, test } from 'vitest'
import { type DomainLook, judgeDomain } from './domain-check.ts'

const DAY = 86_400_000
const asked = { host: 'shop.example.com', server: 'fra-1', now: 1_000 * DAY }
const certificate = (days: number, refusal: string | null = null): DomainLook['tls'] => ({
  kind: 'certificate',
  certificate: { issuer: 'Some CA', validTo: asked.now + days * DAY, refusal },
})
const judge = (look: Partial<DomainLook>) =>
  judgeDomain(
    { addresses: ['192.0.2.1'], wanted: ['192.0.2.1'], tls: certificate(60), ...look },
    asked,
  )

test('a good name needs nothing', () => {
  expect(judge({})).toEqual({
    dns: 'ok',
    tls: 'ok',
    advice: null,
    issuer: 'Some CA',
    validTo: asked.now + 60 * DAY,
  })
})

test('a name without a record names the record', () => {
  const { dns, advice } = judge({ addresses: [], tls: undefined })
  expect([dns, advice]).toEqual([
    'missing',
    'Add a DNS record for shop.example.com that points to 192.0.2.1.',
  ])
})

test('a name that leads elsewhere is told with both addresses', () => {
  const { dns, advice } = judge({ addresses: ['192.0.2.9'] })
  expect(dns).toBe('elsewhere')
  expect(advice).toMatch(/leads to 192\.0\.2\.9\. Point it to 192\.0\.2\.1/)
})

test('an unknown address of the server is not called wrong', () => {
  expect(judge({ wanted: [] }).dns).toBe('unknown')
})

test.each([
  [undefined, 'not_checked'],
  [{ kind: 'not_allowed', reason: 'private' } as const, 'not_checked'],
  [{ kind: 'no_answer', reason: 'closed' } as const, 'none'],
  [certificate(60, 'self-signed'), 'refused'],
  [certificate(-1), 'refused'],
  [certificate(3), 'expiring'],
])('TLS %j is %s', (tls, state) => {
  expect(judge({ tls }).tls).toBe(state)
})
