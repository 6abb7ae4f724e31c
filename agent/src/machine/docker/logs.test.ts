// Logs of containers: frames across chunk boundaries, tails, following from an instant on, the end.
import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { dockerEngine } from '../../../../test/fixtures/platform/components.ts'
import { eventually } from '../../../../test/fixtures/server/deployment.ts'
import { removeContainer } from './containers.ts'
import { DockerFixture } from './engine.testing.ts'
import {
  followLogs,
  type LogRecord,
  readFrames,
  readLogsToEnd,
  tailLogs,
  toEngineTime,
  toRecords,
} from './logs.ts'

const frame = (fd: number, text: string): Buffer => {
  const header = Buffer.alloc(8)
  header[0] = fd
  header.writeUInt32BE(Buffer.byteLength(text), 4)
  return Buffer.concat([header, Buffer.from(text)])
}
async function collect(chunks: Buffer[]): Promise<string[]> {
  const seen: string[] = []
  for await (const { fd, bytes } of readFrames(Readable.from(chunks))) seen.push(`${fd}:${bytes}`)
  return seen
}

describe('frames', () => {
  const whole = Buffer.concat([
    frame(1, 'one\n'),
    frame(2, 'zwei ä\n'),
    frame(1, ''),
    frame(1, 'x'),
  ])
  const expected = ['1:one\n', '2:zwei ä\n', '1:', '1:x']

  test('are found however the stream is cut', async () => {
    for (const size of [1, 2, 3, 7, 8, 9, 100]) {
      const chunks: Buffer[] = []
      for (let at = 0; at < whole.length; at += size) chunks.push(whole.subarray(at, at + size))
      expect(await collect(chunks)).toEqual(expected)
    }
  })

  test('that break off, or are none, are errors', async () => {
    await expect(collect([whole.subarray(0, -1)])).rejects.toThrow('broke off')
    await expect(collect([Buffer.from('plain text of a terminal')])).rejects.toThrow('frames')
    const huge = frame(1, 'x')
    huge.writeUInt32BE(0xff_ff_ff_ff, 4)
    await expect(collect([huge])).rejects.toThrow('frames')
  })
})

test('lines that the engine cut get back the newline it forgot', () => {
  const seen: string[] = []
  const onFrame = toRecords(({ stream, at, bytes }) => {
    const text = bytes.toString()
    seen.push(`${stream} ${at} ${text.length > 100 ? text.length : JSON.stringify(text)}`)
  })
  const part = 'a'.repeat(16 * 1_024)
  const give = (fd: number, text: string) => onFrame({ fd, bytes: Buffer.from(text) })
  give(1, '1Z line\n')
  give(1, `2Z ${part}`)
  give(2, '3Z other stream\n')
  give(1, '2Z rest')
  give(1, `4Z ${part}`)
  give(1, '5Z next\n') // another instant: the line before it ended at its cut
  give(1, '6Z unfinished')
  expect(seen).toEqual([
    'out 1Z "line\\n"',
    'out 2Z 16384',
    'err 3Z "other stream\\n"',
    'out 2Z "rest\\n"',
    'out 4Z 16384',
    'out 4Z "\\n"',
    'out 5Z "next\\n"',
    'out 6Z "unfinished\\n"',
  ])
})

test('instants keep their nanoseconds', () => {
  expect(toEngineTime('2026-11-15T11:20:03.123456789Z')).toBe('1794741603.123456789')
  expect(toEngineTime('2026-11-15T11:20:03.1Z')).toBe('1794741603.100000000')
  expect(toEngineTime('2026-11-15T11:20:03Z')).toBe('1794741603.000000000')
  expect(() => toEngineTime('yesterday')).toThrow('no time')
})

describe.skipIf(!dockerEngine())('the log of a container', () => {
  let fixture: DockerFixture
  beforeAll(() => {
    fixture = new DockerFixture()
  })
  afterAll(() => fixture.close())

  test('gives its last lines, of both streams', async () => {
    const { id } = await fixture.run(
      'for n in 1 2 3 4 5; do echo "line $n"; done; echo problem >&2',
    )
    const all = (await tailLogs(fixture.engine, id, 6)).split('\n')
    // the two streams have no common order
    expect(all.toSorted()).toEqual(
      ['', 'line 1', 'line 2', 'line 3', 'line 4', 'line 5', 'problem'].toSorted(),
    )
    expect((await tailLogs(fixture.engine, id, 2)).split('\n')).toEqual(all.slice(-3))
    await removeContainer(fixture.engine, id)
    expect(await tailLogs(fixture.engine, id, 3)).toBe('')
  })

  test('is read to its end, with lines of any length', async () => {
    const { id } = await fixture.run(
      'for n in 100000 16384 32768; do head -c $n /dev/zero | tr "\\0" a; echo; done; echo ä€; echo bad >&2; printf unfinished',
    )
    const texts = { out: '', err: '' }
    const isWhole = await readLogsToEnd(fixture.engine, id, {
      onRecord: ({ stream, at, bytes }) => {
        expect(at).toMatch(/^\d{4}-\d\d-\d\dT[\d:]+\.\d+Z$/)
        texts[stream] += bytes.toString()
      },
    })
    expect(isWhole).toBe(true)
    const lines = texts.out.split('\n').map((line) => (line.length > 100 ? line.length : line))
    expect(lines).toEqual([100_000, 16_384, 32_768, 'ä€', 'unfinished', ''])
    expect(texts.err).toBe('bad\n')
  })

  test('is followed while it grows, and again from an instant on', async () => {
    const id = await fixture.start(
      'n=0; while true; do n=$((n+1)); echo "tick $n"; sleep 0.05; done',
    )
    const abort = new AbortController()
    const seen: LogRecord[] = []
    const following = followLogs(fixture.engine, id, {
      signal: abort.signal,
      onRecord: (record) => seen.push({ ...record, bytes: Buffer.from(record.bytes) }),
    })
    await eventually(() => seen.length >= 3, 'three lines')
    abort.abort()
    await following
    const [first, second] = seen
    expect([first, second].map((r) => r?.bytes.toString())).toEqual(['tick 1\n', 'tick 2\n'])

    const later: string[] = []
    const again = followLogs(fixture.engine, id, {
      since: second?.at,
      onRecord: (record) => later.push(record.bytes.toString()),
    })
    await eventually(() => later.length >= 2, 'two more lines')
    expect(later.slice(0, 2)).toEqual(['tick 2\n', 'tick 3\n'])
    await removeContainer(fixture.engine, id)
    await again // ends with its container
  })

  test('of a container that is gone is not found', async () => {
    const options = { onRecord: () => {} }
    const gone = { kind: 'not_found' }
    await expect(followLogs(fixture.engine, 'gone', options)).rejects.toMatchObject(gone)
    await expect(readLogsToEnd(fixture.engine, 'gone', options)).rejects.toMatchObject(gone)
  })
})
