import { expect, test } from 'vitest'
import { ALERTS } from '../../limits/installation.ts'
import {
  diskFloor,
  judgeCertificate,
  judgeDeliveries,
  judgeDisk,
  judgeOffline,
  type WatchedServer,
} from './alerts.ts'

const GiB = 1_024 ** 3
const DAY = 86_400_000
const now = 1_000 * DAY
const server = (over: Partial<WatchedServer> = {}): WatchedServer => ({
  connected: true,
  paused: false,
  awaySince: now - DAY,
  diskBytes: 100 * GiB,
  diskFreeBytes: 50 * GiB,
  certificate: { issuedAt: now - DAY, notAfter: now + 29 * DAY },
  ...over,
})

test.each<[string, boolean, Partial<WatchedServer>, ReturnType<typeof judgeOffline>]>([
  ['connected', false, {}, undefined],
  ['away for long', false, { connected: false }, 'begin'],
  ['away for long, told already', true, { connected: false }, undefined],
  ['back', true, {}, 'end'],
  ['just left', false, { connected: false, awaySince: now - 60_000 }, undefined],
  [
    'exactly at the bound',
    false,
    { connected: false, awaySince: now - ALERTS.serverOfflineMs },
    'begin',
  ],
  ['paused and away', false, { connected: false, paused: true }, undefined],
  ['told, then paused', true, { connected: false, paused: true }, undefined],
])('offline: %s', (_what, isOpen, over, expected) => {
  expect(judgeOffline(isOpen, server(over), now)).toBe(expected)
})

test('a tenth, but a large disk is not nearly full with 10 GiB, and a small one is below 1 GiB', () => {
  expect(diskFloor(50 * GiB)).toBe(5 * GiB)
  expect(diskFloor(4_000 * GiB)).toBe(10 * GiB)
  expect(diskFloor(2 * GiB)).toBe(GiB)
})

test.each<[string, boolean, Partial<WatchedServer>, ReturnType<typeof judgeDisk>]>([
  ['plenty', false, {}, undefined],
  ['nearly full', false, { diskFreeBytes: 9 * GiB }, 'begin'],
  ['full to the last byte', false, { diskFreeBytes: 0 }, 'begin'],
  ['a little more again is not enough', true, { diskFreeBytes: 12 * GiB }, undefined],
  ['and no second alert', true, { diskFreeBytes: 1 }, undefined],
  ['half as much more is', true, { diskFreeBytes: 15 * GiB }, 'end'],
  ['away: what it said last', false, { connected: false, diskFreeBytes: 1 }, undefined],
  ['said nothing', false, { diskFreeBytes: null }, undefined],
  ['unknown size', false, { diskBytes: null, diskFreeBytes: 1 }, undefined],
])('disk: %s', (_what, isOpen, over, expected) => {
  expect(judgeDisk(isOpen, server(over))).toBe(expected)
})

const aged = (part: number) => ({
  issuedAt: now - 30 * DAY * part,
  notAfter: now + 30 * DAY * (1 - part),
})
test.each<[string, boolean, Partial<WatchedServer>, ReturnType<typeof judgeCertificate>]>([
  ['fresh', false, {}, undefined],
  ['at 80 % of its life, the last moment to renew', false, { certificate: aged(0.8) }, undefined],
  ['at 86 %', false, { certificate: aged(0.86) }, 'begin'],
  ['ended', false, { certificate: aged(1.1) }, 'begin'],
  [
    'away: it cannot renew, and that is told',
    false,
    { connected: false, certificate: aged(0.9) },
    undefined,
  ],
  ['told already', true, { certificate: aged(0.9) }, undefined],
  ['renewed', true, {}, 'end'],
  ['none', false, { certificate: undefined }, undefined],
])('certificate: %s', (_what, isOpen, over, expected) => {
  expect(judgeCertificate(isOpen, server(over), now)).toBe(expected)
})

test('deliveries: from the first that failed to the next that did not', () => {
  expect(judgeDeliveries(false, { outcome: 'error' })).toBe('begin')
  expect(judgeDeliveries(true, { outcome: 'error' })).toBeUndefined()
  expect(judgeDeliveries(true, { outcome: 'applied' })).toBe('end')
  expect(judgeDeliveries(false, { outcome: 'applied' })).toBeUndefined()
  expect(judgeDeliveries(false, undefined)).toBeUndefined()
})
