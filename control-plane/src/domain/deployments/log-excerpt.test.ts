import { stripEscapes } from '@berth/shared'
import { expect, it } from 'vitest'
import { ExcerptBuilder } from './log-excerpt.ts'

const build = (pieces: [number, string | Buffer][], bounds = { lines: 200, bytes: 16_384 }) => {
  const builder = new ExcerptBuilder(bounds)
  for (const [line, text] of pieces) builder.add(line, Buffer.from(text as string))
  return builder.finish(true)
}

it('drops colours, cursor movements, titles and lone control characters', () => {
  expect(stripEscapes('\u001b[96mcart.ts\u001b[0m:\u001b[93m1\u001b[0m\u0007')).toBe('cart.ts:1')
  expect(stripEscapes('\u001b]0;title\u0007text\u001b[2K\u001b[1Gmore\t!')).toBe('textmore\t!')
})

it('joins the pieces of a line and decodes across them', () => {
  const euro = Buffer.from('3 €\r\n')
  const { lines, firstLine, lastLine, isTruncated } = build([
    [7, 'one\n'],
    [8, euro.subarray(0, 3)],
    [8, euro.subarray(3)],
  ])
  expect(lines).toEqual(['one', '3 €'])
  expect([firstLine, lastLine, isTruncated]).toEqual([7, 8, false])
})

it('counts the lines of a record that has several', () => {
  const { lines, lastLine } = build([
    [4, 'a\nb\nc'],
    [6, ' and more\n'],
  ])
  expect([lines, lastLine]).toEqual([['a', 'b', 'c and more'], 6])
})

it('shows the last version of a line that rewrote itself', () => {
  expect(build([[1, ' 10 %\r 50 %\r100 %\r\n']]).lines).toEqual(['100 %'])
})

it('keeps the last lines, and says that there were more', () => {
  const pieces = Array.from({ length: 10 }, (_, i): [number, string] => [i + 1, `line ${i + 1}\n`])
  const excerpt = build(pieces, { lines: 3, bytes: 1_000 })
  expect(excerpt).toEqual({
    lines: ['line 8', 'line 9', 'line 10'],
    firstLine: 8,
    lastLine: 10,
    isTruncated: true,
  })
  expect(build(pieces, { lines: 10, bytes: 1_000 }).isTruncated).toBe(false)
})

it('keeps no more bytes than it may, whatever comes', () => {
  const pieces = Array.from({ length: 5_000 }, (_, i): [number, string] => [
    i + 1,
    `${'x'.repeat(99)}\n`,
  ])
  const { lines, lastLine, isTruncated } = build(pieces, { lines: 2_000, bytes: 1_000 })
  expect([lines.length, lastLine, isTruncated]).toEqual([10, 5_000, true])
  const one = build([[1, `${'€'.repeat(50_000)}end`]], { lines: 200, bytes: 1_000 })
  expect(Buffer.byteLength(one.lines[0] ?? '')).toBeLessThanOrEqual(1_000)
  expect(one.lines[0]).toMatch(/^€+end$/)
  expect(one.isTruncated).toBe(true)
})

it('is empty for nothing, and does not end in empty lines', () => {
  expect(build([])).toEqual({ lines: [], firstLine: null, lastLine: null, isTruncated: false })
  expect(
    build([
      [1, 'a\n'],
      [2, '\n'],
      [3, '\r\n'],
    ]).lines,
  ).toEqual(['a'])
})
