import { describe, expect, it } from 'vitest'
import { cleanLogLine, cleanText, cutText, padText, textWidth, toJson } from './text.ts'

const ESC = '\u001b'
/** Everything that a terminal could obey, except colours. */
const OBEYED = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u
const withoutColours = (text: string) => text.replace(new RegExp(`${ESC}\\[[0-9;:]*m`, 'g'), '')

describe('cleanLogLine', () => {
  it.each([
    ['clipboard', `a${ESC}]52;c;ZXZpbA==\u0007b`, 'ab'],
    ['clipboard ended by ST', `a${ESC}]52;c;ZXZpbA==${ESC}\\b`, 'ab'],
    ['8-bit clipboard', 'a\u009d52;c;ZXZpbA==\u009cb', 'ab'],
    ['title', `a${ESC}]0;title\u0007b`, 'ab'],
    ['link', `${ESC}]8;;https://evil.example${ESC}\\text${ESC}]8;;${ESC}\\`, 'text'],
    ['cursor up', `a${ESC}[3Ab`, 'ab'],
    ['8-bit cursor up', 'a\u009b3Ab', 'ab'],
    ['erase', `a${ESC}[2J${ESC}[Hb`, 'ab'],
    ['private mode', `a${ESC}[?25lb`, 'ab'],
    ['device control string', `a${ESC}P1$r0m${ESC}\\b`, 'ab'],
    ['reset', `a${ESC}cb`, 'ab'],
    ['character set', `a${ESC}(0b`, 'ab'],
    ['a sequence that never ends', `a${ESC}[31`, 'a'],
    ['a control string that never ends keeps its text', `a${ESC}]52;c;abc`, 'a52;c;abc'],
    ['bell, backspace, delete', 'a\u0007\b\u007fb', 'ab'],
    ['a progress bar leaves its last state', '10%\r50%\r100%\r', '100%'],
    ['text that turns around', 'a\u202eb', 'ab'],
    ['tab stays', 'a\tb', 'a\tb'],
    ['a colour with a question mark is none', `${ESC}[?31mx`, 'x'],
    ['a modifier is no colour', `${ESC}[>4;1mx`, 'x'],
  ])('%s', (_, line, expected) => {
    expect(cleanLogLine(line, true)).toBe(expected)
    expect(cleanLogLine(line, false)).toBe(expected)
  })

  it('keeps colours where they are wanted, and ends them with the line', () => {
    expect(cleanLogLine(`${ESC}[1;31mred`, true)).toBe(`${ESC}[1;31mred${ESC}[0m`)
    expect(cleanLogLine('\u009b31mred', true)).toBe(`${ESC}[31mred${ESC}[0m`)
    expect(cleanLogLine(`${ESC}[38:2::1:2:3mx`, true)).toBe(`${ESC}[38:2::1:2:3mx${ESC}[0m`)
    expect(cleanLogLine(`${ESC}[1;31mred`, false)).toBe('red')
  })

  it('lets nothing but colours through, whatever comes', () => {
    const pieces = [
      ESC,
      '[',
      ']',
      'm',
      '31',
      ';',
      '\u009b',
      '\u009d',
      '\u0007',
      '\\',
      'P',
      '?',
      'x',
    ]
    let seed = 42
    const next = (below: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
      return seed % below
    }
    for (let round = 0; round < 20_000; round++) {
      const line = Array.from({ length: next(14) }, () => pieces[next(pieces.length)]).join('')
      expect(withoutColours(cleanLogLine(line, true))).not.toMatch(OBEYED)
      expect(cleanLogLine(line, false)).not.toMatch(OBEYED)
    }
  })

  it('an endless control string hides nothing: its payload is shown as text', () => {
    const payload = 'A'.repeat(5_000)
    expect(cleanLogLine(`a${ESC}]52;c;${payload}\u0007b`, true)).toBe(`a52;c;${payload}b`)
  })

  it.each([`${ESC}]`, '\u009d', `${ESC}P`, `${ESC}[`])(
    'a megabyte of %j is read in one go', // quadratic time would exceed the test's timeout
    (piece) => {
      expect(cleanLogLine(piece.repeat(1_000_000 / piece.length), true)).toBe('')
    },
  )
})

it('names and titles become one line without any sequence', () => {
  expect(cleanText(`a\nb\tc${ESC}[31md\r`)).toBe('a b cd')
})

describe('width', () => {
  it.each([
    ['abc', 3],
    ['日本', 4],
    ['é', 1],
    ['e\u0301', 1],
    ['👍', 2],
    ['✓ ok', 4],
    ['한', 2],
  ])('%s', (text, width) => {
    expect(textWidth(text)).toBe(width)
  })

  it('cuts by columns, not by characters', () => {
    expect(cutText('abcdef', 6)).toBe('abcdef')
    expect(cutText('abcdef', 4)).toBe('abc…')
    expect(cutText('日本語', 4)).toBe('日…')
    expect(cutText('abc', 0)).toBe('')
    expect(padText('日', 4)).toBe('日  ')
  })
})

it('JSON holds no byte that a terminal obeys and stays the same document', () => {
  const value = { text: 'a\u009b31m\u007f\u202e\u001b[31m' }
  const json = toJson(value)
  expect(json).not.toMatch(OBEYED)
  expect(JSON.parse(json)).toEqual(value)
})
