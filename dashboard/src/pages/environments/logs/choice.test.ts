import { expect, it } from 'vitest'
import { readChoice, writeChoice } from './choice.ts'

it('reads what it wrote, and drops what makes no sense', () => {
  const all = {
    log: 'services' as const,
    service: 'web',
    levels: ['error' as const, 'other' as const],
    statuses: [],
    q: 'a,b & 7',
    until: '2026-11-17T09:12:30.000Z',
  }
  expect(readChoice(writeChoice(all))).toEqual(all)
  expect(writeChoice(readChoice({}))).toEqual({})
  expect(writeChoice(readChoice({ log: 'requests', status: '5xx,9xx', level: 'error' }))).toEqual({
    log: 'requests',
    status: '5xx',
  })
  const odd = readChoice({
    log: 'x',
    level: 'loud',
    until: 'yesterday',
    q: 7,
    service: 'y'.repeat(99),
  })
  expect([odd.log, odd.levels, odd.until, odd.q, odd.service.length]).toEqual([
    'services',
    [],
    '',
    '7',
    64,
  ])
})
