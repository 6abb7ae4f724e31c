import type { ServerResponse } from 'node:http'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type TestIo, testIo } from '../testing/io.ts'
import { type Peer, problem, startPeer } from '../testing/peer.ts'
import { logRecord, task } from '../testing/samples.ts'
import { createApi } from './api.ts'
import { LineAssembly, parseLines, readLines, readRecords } from './log-stream.ts'

let peer: Peer
let io: TestIo
beforeEach(async () => {
  peer = await startPeer()
  io = testIo()
})
afterEach(() => peer.stop())

const LOG = 'GET /api/tasks/813/log'
const TASK = 'GET /api/tasks/813'
const ndjson = { 'content-type': 'application/x-ndjson' }
const text = { 'content-type': 'text/plain; charset=utf-8' }
const record = (n: number, words: string) => `${logRecord(n, words)}\n`
const lines = (...numbers: number[]) => numbers.map((n) => record(n, `line ${n}\n`)).join('')
const asked = () => peer.asked(LOG).map((one) => one.query.get('from_line'))

type More = { follow?: boolean; phase?: string; fromLine?: number }
const open = () =>
  createApi({ baseUrl: peer.url, token: 't', organizationId: null, io, debug: false })
const requestOf = (more: More) => ({
  taskId: 813,
  fromLine: 1,
  phase: undefined,
  follow: false,
  ...more,
})

async function read(more: More = {}): Promise<string[]> {
  const seen: string[] = []
  for await (const line of readLines(open(), io, requestOf(more))) seen.push(line.text)
  return seen
}

/** Some bytes, then the connection breaks. */
const cut =
  (body: string, headers: Record<string, string>) => (_: unknown, res: ServerResponse) => {
    res.writeHead(200, headers)
    res.write(body, () => res.destroy())
  }

describe('a broken connection', () => {
  it('is resumed; nothing is lost or doubled', async () => {
    const half = record(3, 'line 3\n').slice(0, 20)
    peer.script(LOG, cut(lines(1, 2) + half, ndjson), 'drop', problem('unavailable', 'Starting.'), {
      text: lines(1, 2, 3, 4),
      headers: ndjson,
    })
    peer.script(TASK, { json: task('succeeded', { log_lines: 4 }) })
    expect(await read({ follow: true })).toEqual(['line 1', 'line 2', 'line 3', 'line 4'])
    expect(asked()).toEqual(['1', '2', '2', '2'])
    expect(peer.asked(LOG)[0]?.query.get('follow')).toBe('true')
  })

  it('in the middle of a line of several records', async () => {
    const pieces = ['a', 'b', 'c\n'].map((piece) => record(2, piece))
    peer.script(LOG, cut(lines(1) + pieces[0] + pieces[1], ndjson), {
      text: pieces.join('') + lines(3),
      headers: ndjson,
    })
    expect(await read()).toEqual(['line 1', 'abc', 'line 3'])
    expect(asked()).toEqual(['1', '2'])
  })

  it('leaves the records of --json whole as well', async () => {
    const pieces = ['a', 'b\n'].map((piece) => record(1, piece))
    peer.script(LOG, cut(`${pieces[0]}`, ndjson), { text: pieces.join(''), headers: ndjson })
    const seen: (string | undefined)[] = []
    for await (const { line } of readRecords(open(), io, requestOf({}))) seen.push(line?.text)
    expect(seen).toEqual(['a', 'b\n'])
  })

  it('of plain text is resumed by counting', async () => {
    peer.script(LOG, cut('a\r\nb\nc', text), { text: 'b\nc\nd', headers: text })
    expect(await read({ fromLine: 10 })).toEqual(['a\r', 'b', 'c', 'd'])
    expect(asked()).toEqual(['10', '11'])
  })

  it('of filtered plain text is not resumed with wrong numbers', async () => {
    peer.script(LOG, cut('a\n', text))
    await expect(read({ phase: 'build' })).rejects.toMatchObject({ kind: 'no_answer' })
  })

  it('without following three more tries are enough', async () => {
    peer.script(LOG, 'drop')
    await expect(read()).rejects.toMatchObject({ exitCode: 1 })
    expect(peer.asked(LOG)).toHaveLength(4)
  })
})

it('following ends with the task, not with the stream', async () => {
  peer.script(
    LOG,
    { text: lines(1), headers: ndjson },
    { text: lines(1), headers: ndjson },
    { text: lines(1, 2), headers: ndjson },
  )
  peer.script(
    TASK,
    { json: task('running', { log_lines: 1 }) },
    { json: task('running', { log_lines: 1 }) },
    { json: task('failed', { log_lines: 2 }) },
  )
  expect(await read({ follow: true })).toEqual(['line 1', 'line 2'])
})

it.each([
  ['410', problem('log_expired', 'The log is past its retention.'), /past its retention/],
  ['nonsense', { text: '{"n": "x"}\n', headers: ndjson }, /not what it should be/],
  ['a line without end', { text: 'x'.repeat(1_100_000) }, /too long/],
])('%s ends it', async (_, reply, message) => {
  peer.script(LOG, reply)
  await expect(read()).rejects.toThrow(message)
  expect(peer.asked(LOG)).toHaveLength(1)
})

it('Ctrl-C ends a stream that says nothing', async () => {
  peer.script(LOG, (_, res) => {
    res.writeHead(200, ndjson)
    res.write(lines(1))
  })
  const following = async () => {
    for await (const _ of readLines(open(), io, requestOf({ follow: true }))) io.interrupt()
  }
  await expect(following()).rejects.toMatchObject({ exitCode: 130 })
})

describe('records become lines', () => {
  const assemble = (...records: [n: number | null, text: string][]) => {
    const assembly = new LineAssembly()
    const whole = records.flatMap(([n, words]) => assembly.add({ n, text: words }))
    return [...whole, ...assembly.end()].map((line) => [line.n, line.text])
  }

  it.each<[string, [number | null, string][], [number | null, string][]]>([
    [
      'a line a record',
      [
        [1, 'a\n'],
        [2, 'b\n'],
      ],
      [
        [1, 'a'],
        [2, 'b'],
      ],
    ],
    [
      'pieces of a line',
      [
        [1, 'a'],
        [1, 'b'],
        [1, 'c\n'],
        [2, 'd\n'],
      ],
      [
        [1, 'abc'],
        [2, 'd'],
      ],
    ],
    [
      'an unfinished last line',
      [
        [1, 'a\n'],
        [2, 'b'],
      ],
      [
        [1, 'a'],
        [2, 'b'],
      ],
    ],
    [
      'several lines in a record',
      [
        [1, 'a\nb\nc'],
        [3, 'd\n'],
      ],
      [
        [1, 'a'],
        [2, 'b'],
        [3, 'cd'],
      ],
    ],
    [
      'records without endings',
      [
        [1, 'a'],
        [2, 'b'],
      ],
      [
        [1, 'a'],
        [2, 'b'],
      ],
    ],
    [
      'a filter that leaves half a line out',
      [
        [1, 'a'],
        [9, 'b\n'],
      ],
      [
        [1, 'a'],
        [9, 'b'],
      ],
    ],
    [
      'empty lines',
      [
        [1, '\n'],
        [2, '\n'],
      ],
      [
        [1, ''],
        [2, ''],
      ],
    ],
    [
      'no numbers',
      [
        [null, 'a\n'],
        [null, 'b'],
      ],
      [
        [null, 'a'],
        [null, 'b'],
      ],
    ],
  ])('%s', (_, records, expected) => expect(assemble(...records)).toEqual(expected))

  it('a line of megabytes is shown in parts', () => {
    const pieces = Array.from({ length: 80 }, (): [number, string] => [1, 'x'.repeat(16_384)])
    const parts = assemble(...pieces)
    expect(parts.length).toBeGreaterThan(1)
    expect(parts.map(([, words]) => words).join('')).toBe('x'.repeat(80 * 16_384))
  })

  it('of an answer that is here already', () => {
    const headers = new Headers(ndjson)
    const body = `${logRecord(7, 'a')}\n${logRecord(7, 'b\n')}\n${logRecord(8, 'c\n')}`
    expect(parseLines(body, headers)).toEqual([
      { n: 7, text: 'ab' },
      { n: 8, text: 'c' },
    ])
    expect(parseLines('one\n\ntwo', new Headers(text)).map((line) => line.text)).toEqual([
      'one',
      '',
      'two',
    ])
  })
})
