import { expect, test } from 'vitest'
import { shownLine, shownText } from './escapes.ts'

test.each([
  ['\u001b[31merror\u001b[0m: no', 'error: no'],
  ['\u001b]0;title\u0007said', 'said'],
  ['\u001b]8;;https://example.com\u001b\\link\u001b]8;;\u001b\\', 'link'],
  ['\u001bPdevice string\u001b\\after', 'after'],
  ['\u009b31mred', '31mred'],
  ['10 %\r20 %', '10 %20 %'],
  ['a\u0000b\u0007c\u007fd', 'abcd'],
  ['safe\u202etxt.exe\u2066', 'safetxt.exe'],
  ['two\nlines\tkept', 'two\nlines\tkept'],
])('%j is shown as %j', (text, shown) => expect(shownText(text)).toBe(shown))

test('one line of bounded length', () => {
  expect(shownLine('  two\n\u001b[1mlines\u001b[0m ', 20)).toBe('two lines')
  expect(shownLine('x'.repeat(30), 10)).toBe(`${'x'.repeat(9)}…`)
})
