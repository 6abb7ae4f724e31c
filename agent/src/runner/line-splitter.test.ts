import { LOGS } from '@berth/shared'
import { describe, expect, test } from 'vitest'
import { LineSplitter } from './line-splitter.ts'

/** Records as text; `~` marks a record that replaces the previous one. */
function splitter(isTerminal = false) {
  const records: string[] = []
  const f = new LineSplitter(isTerminal, (data, start, end, replaces) => {
    records.push((replaces ? '~' : '') + data.toString('latin1', start, end))
  })
  let now = 0
  return {
    records,
    push: (text: string) => f.push(Buffer.from(text, 'latin1'), now),
    pass: (ms: number) => {
      now += ms
      f.tick(now)
    },
    end: () => f.end(),
  }
}

describe('lines', () => {
  test('keep their endings, over any cut', () => {
    const f = splitter()
    for (const text of ['one\ntw', 'o\n\nthree\r', '\nfour']) f.push(text)
    expect(f.records).toEqual(['one\n', 'two\n', '\n', 'three\r\n'])
    f.end()
    expect(f.records.at(-1)).toBe('four')
  })

  test('an unfinished one is shown after a silence, and goes on where it was', () => {
    const f = splitter()
    f.push('Password: ')
    f.pass(LOGS.unfinishedMs - 1)
    expect(f.records).toEqual([])
    f.pass(1)
    expect(f.records).toEqual(['Password: '])
    f.pass(10_000)
    f.push('ok\nnext\n')
    expect(f.records).toEqual(['Password: ', 'ok\n', 'next\n'])
  })

  test('a new byte begins the silence anew', () => {
    const f = splitter()
    f.push('a')
    f.pass(LOGS.unfinishedMs - 1)
    f.push('b')
    f.pass(LOGS.unfinishedMs - 1)
    expect(f.records).toEqual([])
    f.pass(1)
    expect(f.records).toEqual(['ab'])
  })

  test('a long one comes in pieces, whole or in small writes', () => {
    const long = `${'x'.repeat(LOGS.recordBytes * 2 + 5)}\n`
    const whole = splitter()
    whole.push(long)
    const small = splitter()
    for (let at = 0; at < long.length; at += 1_000) small.push(long.slice(at, at + 1_000))
    for (const f of [whole, small]) {
      expect(f.records.map((r) => r.length)).toEqual([LOGS.recordBytes, LOGS.recordBytes, 6])
      expect(f.records.join('')).toBe(long)
    }
  })

  test('returns before the line feed are kept', () => {
    const f = splitter()
    f.push('one\r\ntwo\r\r\n\r\n')
    expect(f.records).toEqual(['one\r\n', 'two\r\r\n', '\r\n'])
  })
})

describe('a terminal', () => {
  test('its return before each line feed is undone, once', () => {
    const f = splitter(true)
    for (const text of ['one\r\ntwo\r', '\nthree\r\r\nfour\n', '\r\n', 'five']) f.push(text)
    f.end()
    expect(f.records).toEqual(['one\n', 'two\n', 'three\r\n', 'four\n', '\n', 'five'])
  })

  test('a return at the end of a cut waits for what follows', () => {
    const f = splitter(true)
    f.push('prompt\r')
    f.pass(LOGS.unfinishedMs)
    f.push('\nnext\r\n')
    expect(f.records).toEqual(['prompt', '\n', 'next\n'])
  })

  test('the caller’s chunk is left as it was', () => {
    const chunk = Buffer.from('one\r\ntwo\r\n')
    new LineSplitter(true, () => undefined).push(chunk, 0)
    expect(chunk.toString()).toBe('one\r\ntwo\r\n')
  })
})

describe('rewritten lines', () => {
  test('a fast bar costs two records: its first version and its last', () => {
    const f = splitter()
    for (let percent = 1; percent < 100; percent++) f.push(`${percent} %\r`)
    f.push('100 %\n')
    expect(f.records).toEqual(['1 %', '~100 %\n'])
  })

  test('a slow bar shows a version a second', () => {
    const f = splitter()
    for (let percent = 0; percent < 50; percent++) {
      f.push(`\r${percent} %`)
      f.pass(100)
    }
    f.push('\rdone\n')
    expect(f.records).toEqual(['\r0 %', '~10 %', '~20 %', '~30 %', '~40 %', '~done\n'])
  })

  test('the version before a pause is shown although nothing follows', () => {
    const f = splitter()
    f.push('10 %\r20 %\r30 %')
    expect(f.records).toEqual(['10 %'])
    f.pass(LOGS.foldMs - 1)
    expect(f.records).toEqual(['10 %'])
    f.pass(1)
    expect(f.records).toEqual(['10 %', '~30 %'])
    f.pass(60_000)
    f.push(' of it\r\n')
    expect(f.records.slice(2)).toEqual(['~30 % of it\r\n'])
  })

  test('what was shown in several records stays, and the new version begins one of its own', () => {
    const f = splitter()
    f.push('wait')
    f.pass(LOGS.unfinishedMs)
    f.push('...')
    f.pass(LOGS.unfinishedMs)
    f.push('\rdone')
    f.pass(LOGS.foldMs)
    f.push('\rreally\n')
    expect(f.records).toEqual(['wait', '...', 'done', '~really\n'])
  })

  test('the next line replaces nothing', () => {
    const f = splitter()
    f.push('1 %\r2 %\nplain\n1 %\r2 %\n')
    expect(f.records).toEqual(['1 %', '~2 %\n', 'plain\n', '2 %\n'])
  })

  test('the end shows what was folded away', () => {
    const f = splitter()
    f.push('1 %\r2 %\r3 %\r')
    f.end()
    expect(f.records).toEqual(['1 %', '~3 %\r'])
    f.push('new\n')
    expect(f.records.at(-1)).toBe('new\n')
  })

  test('a return at the beginning of a line rewrites nothing', () => {
    const f = splitter()
    f.push('\rone\n\r\rtwo\n')
    expect(f.records).toEqual(['\rone\n', '\r\rtwo\n'])
  })

  test('a version that was shown in pieces stays', () => {
    const f = splitter()
    f.push(`a\r${'x'.repeat(LOGS.recordBytes + 1)}`)
    f.pass(LOGS.foldMs)
    f.push('\rlast\n')
    expect(f.records).toEqual(['a', `~${'x'.repeat(LOGS.recordBytes)}`, 'x', 'last\n'])
  })

  test('through a terminal', () => {
    const f = splitter(true)
    f.push('1 %\r2 %\r\nnext\r\n')
    expect(f.records).toEqual(['1 %', '~2 %\n', 'next\n'])
  })
})
