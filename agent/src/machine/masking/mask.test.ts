import { describe, expect, test } from 'vitest'
import { Masker } from './mask.ts'
import { type MaskedValue, makeSecretPatterns } from './secret-patterns.ts'

/** In one piece, byte by byte and in threes; the result must be the same. */
function mask(values: MaskedValue[], input: string): string {
  const masker = new Masker(values)
  const bytes = Buffer.from(input)
  const results = [bytes.length, 1, 3].map((step) => {
    const stream = masker.source()
    const parts: Buffer[] = []
    for (let at = 0; at < bytes.length; at += step) {
      parts.push(Buffer.from(stream.push(bytes.subarray(at, at + step))))
    }
    return Buffer.concat([...parts, stream.end()]).toString()
  })
  expect(results[1]).toBe(results[0])
  expect(results[2]).toBe(results[0])
  return results[0] ?? ''
}

const noise = (seed: number, bytes: number): string =>
  Buffer.from(
    Array.from({ length: bytes }, (_, i) => 33 + ((i * i * (seed + 3) + (i >> 5) * 7) % 90)),
  ).toString('latin1')

const SECRET = 'hunter2-hunter2'

describe('hard cases', () => {
  test.each<[string, MaskedValue[], string, string]>([
    ['a plain value', [SECRET], `x ${SECRET} y`, 'x *** y'],
    ['at both ends', [SECRET], SECRET, '***'],
    ['two in a row', [SECRET], SECRET + SECRET, '******'],
    ['a value shorter than six bytes stays', ['short'], 'short', 'short'],
    ['a value of six bytes goes', ['shorty'], 'a shorty b', 'a *** b'],
    ['overlapping values go together', ['abcdefgh', 'fghijklm'], '<abcdefghijklm>', '<***>'],
    ['a value that begins another', ['secret1', 'secret1234'], 'secret1234 secret12.', '*** ***2.'],
    ['a value inside another', ['xxabcdefyy', 'abcdef'], 'xxabcdefzz xxabcdefyy', 'xx***zz ***'],
    [
      'two inside a broken longer one',
      ['abcdef', '1abcdef2abcdef3'],
      '1abcdef2abcdef4',
      '1***2***4',
    ],
    ['a value that overlaps itself', ['aaaaaa'], `${'a'.repeat(20)}b`, '***b'],
    ['a false beginning in front', ['ababac-d'], 'abababac-d', 'ab***'],
    ['the end of one begins the next', ['abcabcabd'], 'abcabcabcabd', 'abc***'],
    ['split by a colour', [SECRET], 'hunter2\u001b[1;31m-hun\u001b[mter2!', '***!'],
    [
      'a colour before and behind stays',
      [SECRET],
      `\u001b[31m${SECRET}\u001b[0m`,
      '\u001b[31m***\u001b[0m',
    ],
    [
      'another escape does not join',
      [SECRET],
      'hunter2\u001b[2K-hunter2',
      'hunter2\u001b[2K-hunter2',
    ],
    [
      'a colour after a cut escape',
      [SECRET],
      'hun\u001b\u001b[1mter2-hunter2',
      'hun\u001b\u001b[1mter2-hunter2',
    ],
    ['every byte coloured', ['secret'], [...'secret'].join('\u001b[3m'), '***'],
    ['a value made of a colour code', ['31mabcdef'], '\u001b[31mabcdef', '\u001b[***'],
    ['a value with an escape', ['ab\u001b[1mcdef'], 'ab\u001b[1mcdef!', '***!'],
    ['line feed as the terminal writes it', ['first\nsecond!'], 'first\r\nsecond!', '***'],
    ['a value with returns, as it is', ['first\r\nsecond!'], 'first\r\nsecond!', '***'],
    ['a value with returns, through a terminal', ['first\r\nsecond!'], 'first\r\r\nsecond!', '***'],
    ['a value with returns, made plain', ['first\r\nsecond!'], 'first\nsecond!', '***'],
    ['a line feed among the first bytes', ['ab\ncdef'], 'xyzxyzxyz ab\r\ncdef', 'xyzxyzxyz ***'],
    ['colour and return before the line feed', ['ab\ncdef'], 'ab\u001b[0m\r\ncdef', '***'],
    ['a return that is none of an ending', ['ab\ncdef'], 'ab\rcdef', 'ab\rcdef'],
    [
      'lines of a longer value',
      ['line-one\nshort\nline-two'],
      'x line-two short\n',
      'x *** short\n',
    ],
    ['the ending that an editor added', ['secret\n'], 'secret;', '***;'],
    ['a dangling piece over half', [SECRET], `a ${SECRET.slice(0, 8)}`, 'a ***'],
    ['a dangling piece up to half', [SECRET], `a ${SECRET.slice(0, 7)}`, 'a hunter2'],
    ['a dangling end of a longer piece', ['abcdefghijklmnop', 'defghi'], 'abcdef', 'abcdef'],
    ['a dangling end over half', ['abcdefghijklmnop', 'defghi'], 'abcdefg', 'abc***'],
    ['a dangling coloured piece', [SECRET], 'hunt\u001b[1mer2-\u001b[0m', '***\u001b[0m'],
    ['no text at all', [SECRET], '', ''],
    ['bytes that are no text', [Buffer.from([0xff, 0, 0xfe, 1, 2, 3])], 'ÿ', 'ÿ'],
  ])('%s', (_name, values, input, expected) => {
    expect(mask(values, input)).toBe(expected)
  })

  test('only the present partial match is held back', () => {
    const stream = new Masker([SECRET]).source()
    expect(stream.push(Buffer.from('password: hun')).toString()).toBe('password: ')
    expect(stream.push(Buffer.from('gry ')).toString()).toBe('hungry ')
    expect(stream.push(Buffer.from('hunter2-hunter')).toString()).toBe('')
    expect(stream.push(Buffer.from('3')).toString()).toBe('hunter2-hunter3')
    expect(stream.end().length).toBe(0)
  })

  test('a value that never ends to repeat holds nothing back and shows one mask', () => {
    const stream = new Masker(['aaaaaa']).source()
    const shown = [1, 2, 3].map(() => stream.push(Buffer.alloc(5_000, 'a')).toString())
    expect(shown).toEqual(['***', '', ''])
    expect(stream.push(Buffer.from('b')).toString()).toBe('b')
  })
})

describe('forms', () => {
  const value = 'p"ss/wörd\'+1&2 <3>?~\\x'
  const urlForm = encodeURIComponent(value)
  test.each([
    ['base64', Buffer.from(value).toString('base64')],
    ['base64 after one byte', Buffer.from(`a${value}`).toString('base64')],
    ['base64 after two bytes', Buffer.from(`ab${value}`).toString('base64')],
    ['base64 for addresses', Buffer.from(value).toString('base64url')],
    ['hexadecimal', Buffer.from(value).toString('hex')],
    ['hexadecimal, capitals', Buffer.from(value).toString('hex').toUpperCase()],
    ['address', urlForm],
    ['address, small letters', urlForm.replace(/%../g, (s) => s.toLowerCase())],
    ['form', new URLSearchParams({ k: value }).toString().slice(2)],
    ['JSON', JSON.stringify(value).slice(1, -1)],
    ['JSON in ASCII', JSON.stringify(value).slice(1, -1).replace('ö', '\\u00f6')],
    ['shell', value.replaceAll("'", "'\\''")],
  ])('%s', (_name, form) => {
    const masked = mask([value], `before ${form} after`)
    expect(masked).toContain('***')
    expect(masked.replace(/[^*]/g, '')).toBe('***')
    expect(masked.length).toBeLessThanOrEqual('before *** after'.length + 6)
  })

  test('a value is found wherever it stands in an encoded text', () => {
    for (let before = 0; before < 6; before++) {
      for (let behind = 0; behind < 6; behind++) {
        const text = 'x'.repeat(before) + SECRET + 'y'.repeat(behind)
        const masked = mask([SECRET], Buffer.from(text).toString('base64'))
        expect(masked).toContain('***')
      }
    }
  })

  test('what the bounds leave out is counted, and the values themselves never are', () => {
    const values = Array.from({ length: 8 }, (_, n) => noise(n, 64 * 1_024))
    const { patterns, leftOut } = makeSecretPatterns(values)
    expect(leftOut).toBeGreaterThan(0)
    for (const value of values)
      expect(patterns.some((n) => n.equals(Buffer.from(value)))).toBe(true)
    expect(new Masker(values).leftOut).toBe(leftOut)
    expect(new Masker([SECRET]).leftOut).toBe(0)
  })
})

describe('nothing to mask', () => {
  test('the chunk itself is handed on', () => {
    const chunk = Buffer.from('text')
    expect(new Masker([]).source().push(chunk)).toBe(chunk)
    expect(new Masker([SECRET]).source().push(chunk)).toBe(chunk)
  })

  test('texts', () => {
    const masker = new Masker([SECRET])
    expect(masker.maskText('nothing here')).toBe('nothing here')
    expect(masker.maskText(`cannot log in with ${SECRET}.`)).toBe('cannot log in with ***.')
    expect(masker.maskText('ends with hunter2-hun')).toBe('ends with ***')
  })
})

test('a return at the end: a value that cannot go on behind it is no dangling match', () => {
  const cut = (value: string, text: string): string => {
    const stream = new Masker([value]).source()
    const parts = [...Buffer.from(text)].map((byte) =>
      Buffer.from(stream.push(Buffer.from([byte]))),
    )
    return Buffer.concat([...parts, stream.end()]).toString()
  }
  const whole = (value: string, text: string): string => new Masker([value]).maskText(text)
  for (const mask of [cut, whole]) {
    expect(mask('a[[ba1', 'a[[ba\r')).toBe('a[[ba\r')
    expect(mask('a[[ba1', 'a[[ba')).toBe('***')
    expect(mask('abcdefgh\nij', 'abcdefgh\r')).toBe('***\r')
  }
})
