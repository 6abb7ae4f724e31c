import { expect, test } from 'vitest'
import { comparePhases, imageChanges, readImages } from './comparison.ts'

const image = (name: string, tag: string, digest = '') => ({ name, image: tag, digest })
const sha = (digit: string) => `sha256:${digit.repeat(64)}`

test('images that differ by digest or by name, new ones and removed ones', () => {
  const before = [
    image('web', 'shop/web:1', sha('a')),
    image('db', 'postgres:17'),
    image('old', 'x'),
  ]
  const after = [
    image('web', 'shop/web:1', sha('b')),
    image('db', 'postgres:18'),
    image('api', 'shop/api:2', sha('c')),
  ]
  expect(imageChanges(before, after)).toEqual([
    { service: 'web', before: 'shop/web:1@aaaaaaaaaaaa', after: 'shop/web:1@bbbbbbbbbbbb' },
    { service: 'db', before: 'postgres:17', after: 'postgres:18' },
    { service: 'api', before: null, after: 'shop/api:2@cccccccccccc' },
    { service: 'old', before: 'x', after: null },
  ])
})

test('equal digests are one image, whatever it is called; unknown images are no difference', () => {
  const same = sha('a')
  expect(imageChanges([image('web', 'shop:1', same)], [image('web', 'shop:2', same)])).toEqual([])
  expect(imageChanges(null, [image('web', 'shop:2')])).toBeNull()
  expect(imageChanges(readImages(null), readImages('[]'))).toBeNull()
})

test('durations by phase, in the order of the later deployment', () => {
  const step = (phase: string, durationMs: number | null) => ({
    phase,
    phaseTitle: phase,
    durationMs,
  })
  const before = [step('build', 900), step('build', 100), step('release', 50)]
  const after = [step('checkout', 10), step('build', 2_000), step('start', null)]
  expect(comparePhases(before, after)).toEqual([
    { name: 'checkout', title: 'checkout', beforeMs: null, afterMs: 10 },
    { name: 'build', title: 'build', beforeMs: 1_000, afterMs: 2_000 },
    { name: 'start', title: 'start', beforeMs: null, afterMs: null },
    { name: 'release', title: 'release', beforeMs: 50, afterMs: null },
  ])
})
