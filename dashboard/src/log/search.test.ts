import { describe, expect, test } from 'vitest'
import { searchTexts } from './matching.ts'
import { createSearch } from './search.ts'
import { RANGE } from './store.ts'

const found = (query: string, isRegex: boolean, ...texts: string[]) =>
  searchTexts({ id: 1, query, isRegex, first: 10, texts }).found

test('texts and expressions, as people see the line', () => {
  expect(found('FAILED', false, 'ok', 'it \u001b[31mfai\u001b[0mled')).toEqual([[11, 3, 9]])
  expect(found('a.c', false, 'abc', 'a.c')).toEqual([[11, 0, 3]])
  expect(found('e\\d+', true, 'x', 'E42!')).toEqual([[11, 0, 3]])
  expect(found('x*', true, 'aaa')).toEqual([])
})

/** A log of `total` lines with some ranges loaded; every tenth line contains the word. */
function setUp(total: number, at: number[]) {
  const asked: number[] = []
  const fetched: number[] = []
  const later: (() => void)[] = []
  const listeners = new Set<() => void>()
  const text = (n: number) => (n % 10 === 0 ? 'word' : 'other')
  const store = {
    total,
    has: (n: number) => at.includes(Math.floor((n - 1) / RANGE)),
    get isWhole() {
      return at.length > (store.total - 1) / RANGE
    },
    async fetch(id: number) {
      fetched.push(id)
      return Array.from({ length: RANGE }, (_, i) => {
        const n = id * RANGE + i + 1
        return { n, t: 0, s: 'out', step: null, text: text(n) }
      })
    },
    subscribe(listener: () => void) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
  const search = createSearch({
    store,
    async ask(_query, from) {
      asked.push(from)
      const all = Array.from({ length: store.total - from + 1 }, (_, i) => from + i)
      const page = all.filter((n) => text(n) === 'word').slice(0, 150)
      const isLast = page.length < 150
      const next = isLast ? null : (page.at(-1) ?? 0) + 1
      return { found: page, texts: page.map(text), next_line: next, log_lines: store.total }
    },
    work: async (request) => searchTexts({ id: 0, ...request }).found,
    later: (work) => void later.push(work),
  })
  const done = () =>
    new Promise<void>((resolve) => {
      for (const work of later.splice(0)) work() // typing has stopped
      const look = () => (search.get().isBusy ? undefined : resolve())
      search.subscribe(look)
      look()
    })
  const grow = (to: number) => {
    store.total = to
    for (const listener of [...listeners]) listener()
    for (const work of later.splice(0)) work()
  }
  return { search, asked, fetched, done, grow }
}

describe('a search', () => {
  test('asks the server for what is not at hand', async () => {
    const { search, asked, fetched, done } = setUp(3_500, [0])
    search.start('word', false)
    await done()
    expect(search.get().matches).toHaveLength(350)
    expect(search.get().matches.at(-1)).toBe(3_500)
    expect(fetched).toEqual([0])
    expect(asked[0]).toBe(1_001)
    // both sources bring the text, so a match can be shown before its range is loaded
    expect(search.get().lines.get(10)?.text).toBe('word')
    expect(search.get().lines.get(3_500)?.text).toBe('word')
    expect(search.get().lines.has(11)).toBe(false)
  })

  test('of an expression fetches every range; with all at hand nobody is asked', async () => {
    const some = setUp(2_500, [])
    some.search.start('w.rd', true)
    await some.done()
    expect(some.fetched).toEqual([0, 1, 2])
    expect(some.asked).toEqual([])
    expect(some.search.get().matches).toHaveLength(250)
    const all = setUp(2_500, [0, 1, 2])
    all.search.start('word', false)
    await all.done()
    expect(all.asked).toEqual([])
    expect(all.search.get().matches).toHaveLength(250)
  })

  test('goes on with what arrives, and each line counts once', async () => {
    const { search, done, grow } = setUp(20, [0])
    search.start('word', false)
    await done()
    expect(search.get().matches).toEqual([10, 20])
    grow(45)
    await expect.poll(() => search.get().matches).toEqual([10, 20, 30, 40])
  })

  test('a new one ends the one before; a bad expression is said', async () => {
    const { search, done } = setUp(5_000, [])
    search.start('word', false)
    search.start('(', true)
    await done()
    expect(search.get().problem).toBe('This is not a regular expression.')
    expect(search.get().matches).toEqual([])
    search.start('', false)
    expect(search.get().isBusy).toBe(false)
  })
})
