import { create, equals, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { describe, expect, test } from 'vitest'
import { crc32c } from './crc32c.ts'
import {
  GapReason,
  LogChunkSchema,
  type LogRecordSchema,
  LogSource,
  LogUpSchema,
} from './gen/berth/agent/v1/agent_pb.ts'
import { encodeChunk, encodeLogOpen, encodeRecord, NO_STEP, recordSize } from './log-codec.ts'
import {
  forEachRecord,
  MalformedLogError,
  type ParsedChunk,
  parseLogUp,
  skipRecords,
  sumData,
} from './log-parse.ts'

interface Sample {
  timeUs: number
  source: LogSource
  step: number
  data: string
  replacesPrevious: boolean
  gapBytes: number
  gapReason: GapReason
}

const line = (data: string, rest: Partial<Sample> = {}): Sample => ({
  timeUs: 1_780_000_000_123_456,
  source: LogSource.STDOUT,
  step: 3,
  data,
  replacesPrevious: false,
  gapBytes: 0,
  gapReason: GapReason.UNSPECIFIED,
  ...rest,
})

const SAMPLES: Sample[] = [
  line('hello\n'),
  line(''),
  line('é✓ wide \u001b[31mred\u001b[0m\r\n', { source: LogSource.PTY, step: 0 }),
  line('57 %', { replacesPrevious: true, source: LogSource.STDERR, step: NO_STEP }),
  line('x'.repeat(127), { step: 127 }),
  line('x'.repeat(128), { step: 128 }),
  line('y'.repeat(16_384), { step: 16_384 }),
  line('[gap]\n', {
    source: LogSource.GAP,
    gapBytes: 12_345_678_901_234,
    gapReason: GapReason.LIMIT,
  }),
  line('zero time', { timeUs: 0, source: LogSource.UNSPECIFIED, step: 0 }),
  line('far', { timeUs: Number.MAX_SAFE_INTEGER, gapBytes: 2 ** 31, gapReason: GapReason.DAMAGED }),
  line('', { timeUs: 0, source: LogSource.UNSPECIFIED, step: 0 }),
  line('edge', { gapBytes: 2 ** 32 - 1 }),
  line('last', { gapBytes: Number.MAX_SAFE_INTEGER, timeUs: 2 ** 32 }),
]

const asMessage = (sample: Sample): MessageInitShape<typeof LogRecordSchema> => ({
  ...sample,
  timeUs: BigInt(sample.timeUs),
  data: Buffer.from(sample.data),
  gapBytes: BigInt(sample.gapBytes),
})

function encodeRegion(samples: Sample[]): Buffer {
  const region = Buffer.alloc(64 * 1_024)
  let at = 0
  for (const s of samples) {
    const data = Buffer.from(`<<${s.data}>>`)
    const before = at
    at = encodeRecord(
      region,
      at,
      s.timeUs,
      s.source,
      s.step,
      data,
      2,
      data.length - 2,
      s.replacesPrevious,
      s.gapBytes,
      s.gapReason,
    )
    expect(at - before).toBe(
      recordSize(
        s.timeUs,
        s.source,
        s.step,
        data.length - 4,
        s.replacesPrevious,
        s.gapBytes,
        s.gapReason,
      ),
    )
  }
  return region.subarray(0, at)
}

function decodeRegion(region: Buffer): Sample[] {
  const samples: Sample[] = []
  forEachRecord(
    region,
    (timeUs, source, step, start, end, replacesPrevious, gapBytes, gapReason) => {
      const data = region.toString('utf8', start, end)
      samples.push({ timeUs, source, step, data, replacesPrevious, gapBytes, gapReason })
    },
  )
  return samples
}

const generated = (samples: Sample[], firstSeq = 7n, fence = 2n ** 63n + 5n) =>
  create(LogUpSchema, {
    msg: {
      case: 'chunk',
      value: {
        attemptId: '0197b1c2-0000-7000-8000-000000000001',
        fence,
        firstSeq,
        records: samples.map(asMessage),
        crc32c: crc32c(Buffer.from(samples.map((s) => s.data).join(''))),
      },
    },
  })

describe('against the generated code', () => {
  test('one record encodes to the very same bytes', () => {
    for (const sample of SAMPLES) {
      const expected = toBinary(
        LogChunkSchema,
        create(LogChunkSchema, { records: [asMessage(sample)] }),
      )
      expect(encodeRegion([sample]).toString('hex')).toBe(Buffer.from(expected).toString('hex'))
    }
  })

  test('a whole message encodes to the very same bytes', () => {
    const region = encodeRegion(SAMPLES)
    const { crc32c: sum, count } = sumData(region)
    const attemptId = '0197b1c2-0000-7000-8000-000000000001'
    const message = encodeChunk(attemptId, 2n ** 63n + 5n, 7, region, sum)
    expect(count).toBe(SAMPLES.length)
    expect(message.equals(toBinary(LogUpSchema, generated(SAMPLES)))).toBe(true)
    expect(encodeChunk('', 0n, 0, Buffer.alloc(0), 0).toString('hex')).toBe('1200')
  })

  test('what the generated code wrote is read back', () => {
    const parsed = parseLogUp(Buffer.from(toBinary(LogUpSchema, generated(SAMPLES)))) as ParsedChunk
    expect(parsed).toMatchObject({ kind: 'chunk', fence: 2n ** 63n + 5n, firstSeq: 7 })
    expect(parsed.attemptId).toBe('0197b1c2-0000-7000-8000-000000000001')
    expect(parsed.count).toBe(SAMPLES.length)
    expect(decodeRegion(parsed.records)).toEqual(SAMPLES)
    expect(sumData(parsed.records).crc32c).toBe(parsed.crc32c)
  })

  test('what this code wrote is read by the generated code', () => {
    const message = encodeChunk('a', 1n, 2 ** 40, encodeRegion(SAMPLES), 0xdeadbeef)
    const expected = create(LogUpSchema, {
      msg: {
        case: 'chunk',
        value: {
          attemptId: 'a',
          fence: 1n,
          firstSeq: 2n ** 40n,
          records: SAMPLES.map(asMessage),
          crc32c: 0xdeadbeef,
        },
      },
    })
    expect(equals(LogUpSchema, fromBinary(LogUpSchema, message), expected)).toBe(true)
  })

  test('the opening travels both ways', () => {
    const message = encodeLogOpen('s1', [{ attemptId: 'a', firstSeq: 1, lastSeq: 2 ** 33 }])
    const parsed = parseLogUp(message)
    if (parsed.kind !== 'open') throw new Error('expected an opening')
    expect(parsed.open.sessionId).toBe('s1')
    expect(parsed.open.cursors[0]).toMatchObject({
      attemptId: 'a',
      firstSeq: 1n,
      lastSeq: 2n ** 33n,
    })
  })
})

describe('regions', () => {
  test('are cut at record borders', () => {
    const region = encodeRegion(SAMPLES)
    for (const [n] of SAMPLES.entries()) {
      expect(decodeRegion(region.subarray(skipRecords(region, n)))).toEqual(SAMPLES.slice(n))
    }
    expect(skipRecords(region, SAMPLES.length)).toBe(region.length)
    expect(() => skipRecords(region, SAMPLES.length + 1)).toThrow(MalformedLogError)
  })

  test('a record that does not fit is refused, not cut', () => {
    const target = Buffer.alloc(20)
    const data = Buffer.alloc(16)
    expect(() => encodeRecord(target, 0, 0, LogSource.STDOUT, 0, data, 0, 16)).toThrow(RangeError)
    expect(encodeRecord(target, 0, 0, LogSource.STDOUT, 0, data, 0, 14)).toBe(20)
  })

  test('records between other fields are joined', () => {
    const one = encodeRegion([line('one')])
    const two = encodeRegion([line('two')])
    const chunk = Buffer.concat([one, Buffer.from([0x18, 9]), two, Buffer.from([0x38, 0x80, 1])])
    const parsed = parseLogUp(Buffer.concat([Buffer.from([0x12, chunk.length]), chunk]))
    if (parsed.kind !== 'chunk') throw new Error('expected a chunk')
    expect(parsed.firstSeq).toBe(9)
    expect(decodeRegion(parsed.records).map((s) => s.data)).toEqual(['one', 'two'])
  })
})

describe('malformed input', () => {
  const whole = Buffer.from(toBinary(LogUpSchema, generated(SAMPLES)))
  const readAll = (message: Buffer): void => {
    const parsed = parseLogUp(message)
    if (parsed.kind === 'chunk') forEachRecord(parsed.records, () => undefined)
  }

  test('every cut throws', () => {
    const short = Buffer.from(toBinary(LogUpSchema, generated(SAMPLES.slice(0, 5))))
    for (let length = 0; length < short.length; length++) {
      expect(() => readAll(short.subarray(0, length))).toThrow(MalformedLogError)
    }
  })

  test('every damaged byte throws or is read inside the message', () => {
    for (let at = 0; at < 400; at++) {
      for (const value of [0x00, 0x7f, 0x80, 0xff, whole.readUInt8(at) ^ 4]) {
        const damaged = Buffer.from(whole)
        damaged[at] = value
        try {
          readAll(damaged)
        } catch (error) {
          expect(error).toBeInstanceOf(MalformedLogError)
        }
      }
    }
  })

  test.each([
    ['nothing', ''],
    ['a group', '0b'],
    ['field zero', '0000'],
    ['two messages', '12001200'],
    ['a number without end', 'ffffffffffffffffffffffff'],
    ['a length past the end', '12ff7f'],
    ['a seq past 2^53', '120a18ffffffffffffffff7f'],
    ['an opening that is none', '0a020aff'],
  ])('%s', (_name, hex) => {
    expect(() => parseLogUp(Buffer.from(hex, 'hex'))).toThrow(MalformedLogError)
  })

  test('a region of something else', () => {
    expect(() => forEachRecord(Buffer.from('2a00', 'hex'), () => undefined)).toThrow(
      MalformedLogError,
    )
  })
})
