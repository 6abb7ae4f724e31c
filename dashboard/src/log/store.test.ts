import { describe, expect, test } from 'vitest'
import { createAssembler, type Line, type LogRecord } from './lines.ts'
import { pick, readLines, writeLines } from './links.ts'
import { createLogStore, type LoadedPart, RANGE } from './store.ts'

const record = (n: number, text: string, over: Partial<LogRecord> = {}): LogRecord => ({
  n,
  t: '2026-11-15T10:00:00.000Z',
  s: 'out',
  phase: 'build',
  step: '1',
  text,
  ...over,
})

function assembled(records: LogRecord[]): string[] {
  const lines: string[] = []
  const add = createAssembler((line: Line) => {
    lines[line.n - 1] = line.text
  })
  for (const r of records) add(r)
  return lines
}

describe('lines', () => {
  test.each<[string, LogRecord[], string[]]>([
    ['one a record', [record(1, 'a\n'), record(2, 'b\n')], ['a', 'b']],
    ['several in a record', [record(1, 'a\nb\nc'), record(3, 'd\n')], ['a', 'b', 'cd']],
    ['in pieces', [record(1, 'a'), record(1, 'b'), record(1, 'c\n')], ['abc']],
    ['empty ones', [record(1, '\n'), record(2, '\n'), record(3, 'x\n')], ['', '', 'x']],
    [
      'rewritten in place',
      [
        record(1, '10 %'),
        record(1, '50 %', { replaces: true }),
        record(1, '100 %\n', { replaces: true }),
      ],
      ['100 %'],
    ],
    [
      'rewritten while another source writes',
      [record(1, '10 %'), record(1, '!', { s: 'err' }), record(1, '90 %', { replaces: true })],
      ['90 %!'],
    ],
    ['carriage returns inside', [record(1, '\r10 %\r20 %\r\n')], ['20 %']],
    ['nothing', [record(1, '')], []],
  ])('%s', (_name, records, expected) => {
    expect(assembled(records)).toEqual(expected)
  })
})

function setUp(lines: number, kept?: number) {
  const loads: [number, number][] = []
  const frames: (() => void)[] = []
  let isBroken = false
  const later: (() => void)[] = []
  const store = createLogStore(
    {
      async load(from, to): Promise<LoadedPart> {
        loads.push([from, to])
        if (isBroken) throw new Error('unreachable')
        const last = Math.min(to, from + 599) // two answers per range
        const rows = Array.from({ length: last - from + 1 }, (_, i) =>
          record(from + i, `${from + i}\n`),
        )
        return { attempt: 1, lines: rows, next_line: last < to ? last + 1 : null }
      },
      schedule: (work) => void frames.push(work),
      later: (work) => void later.push(work),
      now: () => 0,
    },
    kept,
  )
  const from = store.begin(lines)
  const live = (a: number, b: number) =>
    store.add(
      Array.from({ length: b - a + 1 }, (_, i) => record(a + i, `${a + i}\n`)),
      1,
    )
  return {
    store,
    from,
    loads,
    frames,
    live,
    later,
    breakIt: (is: boolean) => {
      isBroken = is
    },
  }
}

describe('ranges', () => {
  test('the newest is the socket’s, the others are fetched when they are looked at', async () => {
    const { store, from, loads, live } = setUp(2_500)
    expect(from).toBe(2_001)
    live(2_001, 2_500)
    store.need([990, 1_010])
    await store.fetch(0)
    await store.fetch(1)
    expect(loads.map(([a]) => a).toSorted((a, b) => a - b)).toEqual([1, 601, 1_001, 1_601])
    expect([1, 1_000, 1_001, 2_000, 2_001, 2_500].map((n) => store.line(n)?.text)).toEqual([
      '1',
      '1000',
      '1001',
      '2000',
      '2001',
      '2500',
    ])
    expect(store.isWhole).toBe(true)
  })

  test('lines far apart ask for their own ranges, not for those between them', async () => {
    const { store, loads } = setUp(9_500)
    store.need([5, 6, 7_500])
    await store.fetch(0)
    await store.fetch(7)
    expect(new Set(loads.map(([a]) => Math.floor((a - 1) / RANGE)))).toEqual(new Set([0, 7]))
  })

  test('a live line is replaced, not doubled; a range it left behind can be had again', async () => {
    const { store, live, loads } = setUp(0, 2)
    live(1, 1)
    store.add([record(1, '1 more', { replaces: true })], 1)
    expect(store.total).toBe(1)
    live(2, 3 * RANGE + 5)
    expect(store.line(3)).toBeUndefined() // only two ranges are kept
    expect(store.line(3 * RANGE + 5)?.text).toBe(String(3 * RANGE + 5))
    expect((await store.fetch(0))[2]?.text).toBe('3')
    expect(loads).toHaveLength(2)
    expect(store.line(3 * RANGE + 5)).toBeDefined() // the newest range is never evicted
  })

  test('one bump a frame', () => {
    const { live, frames, store } = setUp(0)
    frames.splice(0).forEach((work) => {
      work()
    })
    const before = store.version
    live(1, 500)
    live(501, 900)
    expect(frames).toHaveLength(1)
    frames[0]?.()
    expect(store.version).toBe(before + 1)
  })

  test('what cannot be fetched is tried again, and nothing of an attempt that is over is kept', async () => {
    const { store, live, loads, later, breakIt } = setUp(2_500)
    live(2_001, 2_500)
    breakIt(true)
    store.need([1, 10])
    await expect(store.fetch(0)).rejects.toThrow('unreachable')
    await Promise.resolve()
    expect(later.length).toBeGreaterThan(0)
    breakIt(false)
    const half = store.fetch(1)
    store.reset()
    await half
    expect([store.total, store.line(1_001)]).toEqual([0, undefined])
    expect(loads.length).toBeGreaterThan(1)
  })

  test('a stream begun anew puts the lines of its range in place again', () => {
    const { store, live } = setUp(0)
    live(1, 1_500)
    expect(store.begin(store.total)).toBe(1_001)
    live(1_001, 1_600)
    expect([store.line(1_000)?.text, store.line(1_001)?.text, store.total]).toEqual([
      '1000',
      '1001',
      1_600,
    ])
  })

  test('what is fetched before the length is known never replaces what the socket told', async () => {
    const { store, live } = setUp(0)
    store.prime(1)
    store.begin(3)
    store.add([record(1, 'newer\n')], 1)
    await expect.poll(() => store.line(2)?.text).toBe('2')
    expect([store.line(1)?.text, store.total]).toEqual(['newer', 3])
    live(2, 4)
    expect(store.total).toBe(4)
  })
})

test('addresses of lines', () => {
  expect(readLines('#L120-L140')).toEqual({ from: 120, to: 140 })
  expect(readLines('L140-120')).toEqual({ from: 120, to: 140 })
  expect(readLines('L7')).toEqual({ from: 7, to: 7 })
  for (const bad of ['', '#L0', '#Lx', '#L1-', '#L12345678901'])
    expect(readLines(bad)).toBeUndefined()
  expect(writeLines({ from: 3, to: 3 })).toBe('L3')
  expect(pick({ from: 10, to: 12 }, 4, true)).toEqual({ from: 4, to: 10 })
  expect(pick({ from: 10, to: 12 }, 4, false)).toEqual({ from: 4, to: 4 })
})
