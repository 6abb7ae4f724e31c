// The tokens of the dashboard keep their promises: contrast in both themes, and three weights in every style sheet.
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { contrast } from '../dashboard/src/log/colour.ts'

const folder = fileURLToPath(new URL('../dashboard/src', import.meta.url))
const tokens = readFileSync(join(folder, 'styles/tokens.css'), 'utf8')

type Rgb = [number, number, number]
const rgb = (hex: string): Rgb =>
  [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)) as Rgb
const colours = new Map(
  [...tokens.matchAll(/--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)/g)].map(
    ([, name = '', light = '', dark = '']) => [name, [rgb(light), rgb(dark)] as const],
  ),
)

/** The smaller contrast of both themes. */
function least(text: string, ground: string): number {
  const [a, b] = [colours.get(text), colours.get(ground)]
  if (!a || !b) throw new Error(`no token ${a ? ground : text}`)
  return Math.min(contrast(a[0], b[0]), contrast(a[1], b[1]))
}

const SURFACES = ['bg', 'surface', 'raised', 'sunken']
const SOFT = ['accent-soft', 'ok-soft', 'warn-soft', 'bad-soft']

describe('contrast', () => {
  test.each(['text', 'muted'])('%s is read on every ground', (name) => {
    for (const ground of [...SURFACES, ...SOFT]) {
      expect(least(name, ground), ground).toBeGreaterThanOrEqual(4.5)
    }
  })

  test.each(['accent', 'accent-hover', 'ok', 'warn', 'bad'])('%s is read on surfaces', (name) => {
    const own = SOFT.filter((soft) => soft === `${name}-soft`)
    for (const ground of [...SURFACES, ...own]) {
      expect(least(name, ground), ground).toBeGreaterThanOrEqual(4.5)
    }
  })

  test.each([
    ['on-primary', 'primary'],
    ['on-primary', 'primary-hover'],
    ['on-accent', 'accent'],
    ['on-bad', 'bad'],
    ['on-bad', 'bad-hover'],
  ])('%s is read on %s', (text, ground) => {
    expect(least(text, ground)).toBeGreaterThanOrEqual(4.5)
  })

  test.each(['border-strong', 'series-1', 'series-2', 'series-3', 'series-4'])(
    '%s is seen on surfaces',
    (name) => {
      for (const ground of SURFACES) expect(least(name, ground), ground).toBeGreaterThanOrEqual(3)
    },
  )
})

test('every weight is 400, 500 or 600', () => {
  const sheets = globSync('**/*.css', { cwd: folder })
  expect(sheets.length).toBeGreaterThan(20)
  const weights = sheets.flatMap((sheet) =>
    [...readFileSync(join(folder, sheet), 'utf8').matchAll(/font-weight:\s*([^;]+);/g)].map(
      ([, weight]) => `${sheet}: ${weight}`,
    ),
  )
  const allowed = /: (?:400|500|600|400 600|inherit|normal|var\(--(?:regular|medium|strong)\))$/
  expect(weights.filter((weight) => !allowed.test(weight))).toEqual([])
})
