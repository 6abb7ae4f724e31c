import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { parseAnsi, plainText, type Style } from './ansi.ts'
import { contrast, DARK, inlineColours, LIGHT } from './colour.ts'

const styles = (text: string): [string, Style][] => parseAnsi(text).map((p) => [p.text, p.style])

describe('looks', () => {
  test.each<[string, [string, Style][]]>([
    ['plain', [['plain', {}]]],
    [
      '\u001b[31mred\u001b[0m off',
      [
        ['red', { fg: 1 }],
        [' off', {}],
      ],
    ],
    ['\u001b[1;92;44mall\u001b[22;39;49m', [['all', { bold: true, fg: 10, bg: 4 }]]],
    [
      '\u001b[2;3;4;7mx\u001b[23my',
      [
        ['x', { dim: true, italic: true, underline: true, inverse: true }],
        ['y', { dim: true, underline: true, inverse: true }],
      ],
    ],
    [
      '\u001b[38;5;9ma\u001b[38;5;16mb\u001b[38;5;255mc',
      [
        ['a', { fg: 9 }],
        ['b', { fg: [0, 0, 0] }],
        ['c', { fg: [238, 238, 238] }],
      ],
    ],
    ['\u001b[38;2;1;2;3;1ma', [['a', { fg: [1, 2, 3], bold: true }]]],
    ['\u001b[48:2:9:8:7ma', [['a', { bg: [9, 8, 7] }]]],
    ['\u001b[mreset', [['reset', {}]]],
    ['\u001b[38;5;999;38;2;1ma', [['a', { fg: [1, 0, 0] }]]],
  ])('%j', (text, expected) => {
    expect(styles(text)).toEqual(expected)
  })
})

describe('everything else is dropped', () => {
  test.each([
    ['\u001b]52;c;cm0gLXJm\u0007copied', 'copied'],
    ['\u001b]0;title\u001b\\text', 'text'],
    ['\u001b[2J\u001b[10;20Hat\u001b[K', 'at'],
    ['\u001bP1$r\u001b\\dcs', 'dcs'],
    ['cut \u001b[3', 'cut '],
    ['cut \u001b]8;;https://a', 'cut '],
    ['cut \u001b', 'cut '],
    ['a\u0000b\u0007c\u009b31md\te', 'abcd\te'],
    ['<script>alert(1)</script>', '<script>alert(1)</script>'],
  ])('%j', (text, expected) => {
    expect(plainText(text)).toBe(expected)
    expect(
      parseAnsi(text)
        .map((p) => p.text)
        .join(''),
    ).toBe(expected)
  })
})

describe('links', () => {
  const link = (address: string) =>
    parseAnsi(`\u001b]8;id=1;${address}\u0007text\u001b]8;;\u0007 after`)
  test('to the web only', () => {
    expect(link('https://example.com/a')[0]?.style.href).toBe('https://example.com/a')
    expect(link('https://example.com/a')[1]?.style.href).toBeUndefined()
    for (const bad of [
      'javascript:alert(1)',
      'data:text/html,x',
      'file:///etc/passwd',
      '//x',
      'https://',
      ' https://x',
      'java\tscript:x',
    ]) {
      expect(link(bad).every((p) => p.style.href === undefined)).toBe(true)
    }
  })
  test('keep the colour, and a reset keeps the link', () => {
    const pieces = parseAnsi('\u001b[31m\u001b]8;;http://a.b/\u001b\\x\u001b[0my')
    expect(pieces.map((p) => p.style)).toEqual([
      { fg: 1, href: 'http://a.b/' },
      { href: 'http://a.b/' },
    ])
  })
})

describe('contrast', () => {
  const read = (file: string) => readFileSync(new URL(file, import.meta.url), 'utf8')
  const rgb = (hex: string) =>
    [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)) as [number, number, number]

  test('the grounds are those of the theme', () => {
    const tokens = read('../styles/tokens.css')
    const [, light = '', dark = ''] = /--surface: light-dark\((#\w+), (#\w+)\)/.exec(tokens) ?? []
    expect([rgb(light), rgb(dark)]).toEqual([LIGHT, DARK])
  })

  test('each of the sixteen is read in both themes', () => {
    const found = [...read('log.module.css').matchAll(/--a\d+: light-dark\((#\w+), (#\w+)\)/g)]
    expect(found).toHaveLength(16)
    for (const [all, light = '', dark = ''] of found) {
      expect(contrast(rgb(light), LIGHT), all).toBeGreaterThanOrEqual(4.5)
      expect(contrast(rgb(dark), DARK), all).toBeGreaterThanOrEqual(4.5)
    }
  })

  test('colours that programs choose are moved until they are', () => {
    for (const colour of [
      [255, 255, 0],
      [10, 10, 10],
      [0, 0, 255],
      [128, 128, 128],
    ] as const) {
      const { color = '' } = inlineColours(colour, undefined)
      const [light = [], dark = []] = [...color.matchAll(/rgb\((\d+) (\d+) (\d+)\)/g)].map((m) =>
        m.slice(1).map(Number),
      )
      expect(contrast(light as unknown as typeof LIGHT, LIGHT)).toBeGreaterThanOrEqual(4.5)
      expect(contrast(dark as unknown as typeof DARK, DARK)).toBeGreaterThanOrEqual(4.5)
    }
    expect(inlineColours(undefined, [250, 250, 250]).color).toBe('rgb(0 0 0)')
  })
})
