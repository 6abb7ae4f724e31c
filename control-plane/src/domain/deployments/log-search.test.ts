import { describe, expect, test } from 'vitest'
import { holdsText, isErrorLine, LineSearch } from './log-search.ts'

const bounds = { fromLine: 1, matches: 100, lineBytes: 1_000, lineChars: 20, chars: 1_000 }

/** Fed in pieces of every size, because the borders of pieces must not matter. */
function search(text: string, query: string, size: number, over: Partial<typeof bounds> = {}) {
  const bytes = new TextEncoder().encode(text)
  const found = new LineSearch(holdsText(query, false), { ...bounds, ...over })
  for (let at = 0; at < bytes.length; at += size) found.add(bytes.subarray(at, at + size))
  found.finish()
  return found
}

describe('lines that hold a text', () => {
  const text = 'one\n\u001b[31mTwo\u001b[0m ü\n\nthree two\nlast two'

  test.each([1, 2, 3, 7, 100])('are numbered as the log numbers them, in pieces of %i', (size) => {
    expect(search(text, 'two', size).found).toEqual([2, 4, 5])
    expect(search(text, 'TWO Ü', size).found).toEqual([2]) // as users see it
    expect(search(text, '31m', size).found).toEqual([])
  })

  test('from a line on, and no more than asked for', () => {
    expect(search(text, 'two', 3, { fromLine: 3 }).found).toEqual([4, 5])
    const some = search(text, 'two', 3, { matches: 2 })
    expect([some.found, some.isFull, some.line]).toEqual([[2, 4], true, 5])
  })

  test('come with their beginnings, colours included, as far as they fit', () => {
    const some = search(text, 'two', 3)
    expect(some.texts).toEqual(['\u001b[31mTwo\u001b[0m ü', 'three two', 'last two'])
    expect(search(text, 'two', 3, { lineChars: 5 }).texts[1]).toBe('three')
    const few = search(text, 'two', 3, { chars: 25 })
    expect([few.found, few.texts.length]).toEqual([[2, 4, 5], 2])
  })

  test('of a line that is too long only the beginning counts', () => {
    const long = `${'x'.repeat(2_000)}needle\nneedle\n`
    expect(search(long, 'needle', 64).found).toEqual([2])
  })

  test('case matters when asked', () => {
    expect(holdsText('Two', true)('two')).toBe(false)
    expect(holdsText('Two', true)('a Two b')).toBe(true)
  })
})

test.each([
  ['src/cart.ts(14,7): error TS2322: Type', true],
  ['ERROR: process "/bin/sh -c npm run build" did not complete', true],
  ['npm ERR! code ELIFECYCLE', true],
  ['error[E0308]: mismatched types', true],
  ['Traceback (most recent call last):', true],
  ['fatal: not a git repository', true],
  ['Tests: 3 failed, 2 passed', true],
  ['Found 0 errors. Watching for file changes.', false],
  ['copying error-pages.html', false],
  ['no errors', false],
  ['all fine', false],
])('%s', (line, isError) => {
  expect(isErrorLine(line)).toBe(isError)
})
