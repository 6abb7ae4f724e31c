// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of compose, not of JavaScript
import { describe, expect, it } from 'vitest'
import { durationOf, interpolate, quoteWords, serviceName, sizeOf, splitWords } from './values.ts'

describe('values of compose', () => {
  it.each([
    ['a${X:-b}c', 'abc', []],
    ['${X-b}', 'b', []],
    ['${X:-${Y:-z}}', 'z', []],
    ['${X:-${Y}}', '${Y}', ['Y']],
    ['${X}', '${X}', ['X']],
    ['$X-$Y', '${X}-${Y}', ['X', 'Y']],
    ['${X:?needed}', '${X}', ['X']],
    ['a${X:+b}', 'a', []],
    ['5$$ $$X', '5$ $X', []],
  ])('interpolates %s', (text, filled, missing) =>
    expect(interpolate(text)).toEqual({ text: filled, missing }),
  )

  it.each([
    ['a b  c', ['a', 'b', 'c']],
    [`sh -c 'a "b" c'`, ['sh', '-c', 'a "b" c']],
    [`a "b \\"c\\" d" e\\ f ""`, ['a', 'b "c" d', 'e f', '']],
    ['', []],
  ])('splits %s', (line, words) => expect(splitWords(line)).toEqual(words))

  it('quotes words so that a shell gives them back', () => {
    expect(quoteWords(['npm', 'run', "it's", 'a b'])).toBe(`npm run 'it'\\''s' 'a b'`)
  })

  it.each([
    ['10s', '10s'],
    ['1m30s', '90s'],
    ['120s', '2m'],
    ['2h', '2h'],
    ['500ms', '1s'],
    ['0s', null],
    [5, '5s'],
    ['soon', null],
  ])('duration %s', (written, duration) => expect(durationOf(written)).toBe(duration))

  it.each([
    ['512m', '512m'],
    ['1gb', '1g'],
    ['1.5g', '1536m'],
    ['64MiB', '64m'],
    [1_048_576, '1m'],
    ['100', '1k'],
    ['much', null],
    [undefined, null],
  ])('size %s', (written, size) => expect(sizeOf(written)).toBe(size))

  it.each([
    ['web', 'web'],
    ['My_App.2', 'my-app-2'],
    ['2nd', 'nd'],
    ['___', null],
    ['a'.repeat(60), 'a'.repeat(39)],
  ])('name %s', (written, name) => expect(serviceName(written)).toBe(name))
})
