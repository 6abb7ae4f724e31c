// Logs of containers: frames over the borders of chunks, tails, following from an instant on, the end.
import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { dockerEngine } from '../../../../test/components.ts'
import { eventually } from '../../../../test/real/deployment.ts'
import { removeContainer } from './containers.ts'
import { DockerLab } from './lab.testing.ts'
import {
  followLogs,
  type LogRecord,
  readFrames,
  readLogsToEnd,
  tailLogs,
  toEngineTime,
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

test('instants keep their nanoseconds', () => {
  expect(toEngineTime('2026-11-15T11:20:03.123456789Z')).toBe('1794741603.123456789')
  expect(toEngineTime('2026-11-15T11:20:03.1Z')).toBe('1794741603.100000000')
  expect(toEngineTime('2026-11-15T11:20:03Z')).toBe('1794741603.000000000')
  expect(() => toEngineTime('yesterday')).toThrow('no time')
})

describe.skipIf(!dockerEngine())('the log of a container', () => {
  let lab: DockerLab
  beforeAll(() => {
    lab = new DockerLab()
  })
  afterAll(() => lab.close())

  test('gives its last lines, of both streams', async () => {
    const { id } = await lab.run('for n in 1 2 3 4 5; do echo "line $n"; done; echo problem >&2')
    const tail = await tailLogs(lab.engine, id, 3)
    expect(tail.trimEnd().split('\n').toSorted()).toEqual(['line 4', 'line 5', 'problem'])
    await removeContainer(lab.engine, id)
    expect(await tailLogs(lab.engine, id, 3)).toBe('')
  })

  test('is read to its end, with lines of any length', async () => {
    const { id } = await lab.run(
      'head -c 100000 /dev/zero | tr "\\0" a; echo; echo ä€; echo bad >&2; printf unfinished',
    )
    const texts = { out: '', err: '' }
    const records: LogRecord[] = []
    const isWhole = await readLogsToEnd(lab.engine, id, {
      onRecord: (record) => {
        records.push(record)
        texts[record.stream] += record.bytes.toString('latin1')
      },
    })
    expect(isWhole).toBe(true)
    const out = Buffer.from(texts.out, 'latin1').toString('utf8')
    expect(out === `${'a'.repeat(100_000)}\nä€\nunfinished`).toBe(true)
    expect(texts.err).toBe('bad\n')
    for (const { at } of records) expect(at).toMatch(/^\d{4}-\d\d-\d\dT[\d:]+\.\d+Z$/)
  })

  test('is followed while it grows, and again from an instant on', async () => {
    const id = await lab.start('n=0; while true; do n=$((n+1)); echo "tick $n"; sleep 0.05; done')
    const abort = new AbortController()
    const seen: LogRecord[] = []
    const following = followLogs(lab.engine, id, {
      signal: abort.signal,
      onRecord: (record) => seen.push({ ...record, bytes: Buffer.from(record.bytes) }),
    })
    await eventually(() => seen.length >= 3, 'three lines')
    abort.abort()
    await following
    const [first, second] = seen
    expect([first, second].map((r) => r?.bytes.toString())).toEqual(['tick 1\n', 'tick 2\n'])

    const later: string[] = []
    const again = followLogs(lab.engine, id, {
      since: second?.at,
      onRecord: (record) => later.push(record.bytes.toString()),
    })
    await eventually(() => later.length >= 2, 'two more lines')
    expect(later.slice(0, 2)).toEqual(['tick 2\n', 'tick 3\n'])
    await removeContainer(lab.engine, id)
    await again // ends with its container
  })

  test('of a container that is gone is not found', async () => {
    const options = { onRecord: () => {} }
    const gone = { kind: 'not_found' }
    await expect(followLogs(lab.engine, 'gone', options)).rejects.toMatchObject(gone)
    await expect(readLogsToEnd(lab.engine, 'gone', options)).rejects.toMatchObject(gone)
  })
})
