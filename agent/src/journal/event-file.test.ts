import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EVENTS } from '@berth/shared'
import { AttemptState, type Event, EventSchema, StepState } from '@berth/shared/wire'
import { create, equals } from '@bufbuild/protobuf'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { cutText, EventFileError, EventFileReader, EventFileWriter } from './event-file.ts'

let folder = ''
let file = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'berth-events-'))
  file = join(folder, 'events.log')
})
afterEach(() => {
  rmSync(folder, { recursive: true, force: true })
})

const step = (stepId: string, message = ''): Event =>
  create(EventSchema, {
    attemptId: 'a1',
    fence: 7n,
    body: { case: 'step', value: { stepId, state: StepState.RUNNING, message } },
  })
const ended = (message = ''): Event =>
  create(EventSchema, {
    attemptId: 'a1',
    body: { case: 'attempt', value: { state: AttemptState.FAILED, message, finalLogSeq: 9n } },
  })

const idsOf = (events: { event: Event }[]): string[] =>
  events.map(({ event }) => (event.body.case === 'step' ? event.body.value.stepId : 'end'))

describe('following', () => {
  test('events come out as they went in, numbered from one, each once', () => {
    const reader = EventFileReader.open(file)
    expect(reader.read()).toEqual([])
    const writer = EventFileWriter.create(file)
    expect(reader.read()).toEqual([])
    expect(writer.append(step('one', 'é'))).toBe(1)
    expect(writer.append(step('two'), { sync: true })).toBe(2)
    const first = reader.read()
    expect(first.map((e) => e.ordinal)).toEqual([1, 2])
    expect(first[0] && equals(EventSchema, first[0].event, step('one', 'é'))).toBe(true)
    expect(reader.read()).toEqual([])
    writer.append(ended())
    expect(idsOf(reader.read())).toEqual(['end'])
    writer.close()
    reader.close()
  })

  test('from an ordinal, over many reads', () => {
    const writer = EventFileWriter.create(file)
    const count = EVENTS.fileReadEvents * 2 + 10
    for (let n = 1; n <= count; n++) writer.append(step(`s${n}`, 'x'.repeat(n % 700)))
    writer.close()
    const reader = EventFileReader.open(file, 5)
    const all: string[] = []
    for (let batch = reader.read(); batch.length > 0; batch = reader.read()) {
      expect(batch.length).toBeLessThanOrEqual(EVENTS.fileReadEvents)
      all.push(...idsOf(batch))
    }
    expect(all).toEqual(Array.from({ length: count - 5 }, (_, i) => `s${i + 6}`))
    reader.close()
  })

  test('the file is made once', () => {
    EventFileWriter.create(file).close()
    expect(() => EventFileWriter.create(file)).toThrow('EEXIST')
  })
})

describe('damage', () => {
  /** Three events; returns the bytes of the file and the offset of each event. */
  function three(): { bytes: Buffer; starts: number[] } {
    const writer = EventFileWriter.create(file)
    for (const id of ['one', 'two', 'three']) writer.append(step(id))
    writer.close()
    const bytes = readFileSync(file)
    const starts = [0]
    for (let n = 0; n < 2; n++) {
      const at = starts.at(-1) ?? 0
      starts.push(at + 12 + bytes.readUInt32LE(at))
    }
    return { bytes, starts }
  }

  test('every torn end is "not yet"', () => {
    const { bytes, starts } = three()
    const end = (starts[2] ?? 0) + 12 + bytes.readUInt32LE(starts[2] ?? 0)
    for (let length = starts[2] ?? 0; length < end; length++) {
      writeFileSync(file, bytes.subarray(0, length))
      const reader = EventFileReader.open(file)
      expect(idsOf(reader.read())).toEqual(['one', 'two'])
      writeFileSync(file, bytes)
      expect(idsOf(reader.read())).toEqual(['three'])
      reader.close()
    }
  })

  test('a damaged end is "not yet", a damaged middle names the file', () => {
    const { bytes, starts } = three()
    for (const [n, start] of starts.entries()) {
      for (const offset of [0, 3, 4, 8, 12, 15]) {
        const damaged = Buffer.from(bytes)
        damaged.writeUInt8(damaged.readUInt8(start + offset) ^ 0x40, start + offset)
        // A wrong but plausible length hides where the next event begins.
        if (offset === 0 && n < 2) continue
        writeFileSync(file, damaged)
        const reader = EventFileReader.open(file)
        if (n === 2) expect(idsOf(reader.read())).toEqual(['one', 'two'])
        else expect(() => reader.read()).toThrow(EventFileError)
        if (n < 2) expect(() => reader.read()).toThrow(file)
        reader.close()
      }
    }
  })
})

describe('size', () => {
  test('texts are cut, the rest is not', () => {
    const writer = EventFileWriter.create(file)
    writer.append(ended('é'.repeat(EVENTS.messageBytes)))
    const title = 't'.repeat(3_000)
    writer.append(
      create(EventSchema, {
        body: {
          case: 'plan',
          value: {
            phases: [
              {
                name: 'run',
                steps: Array.from({ length: 100 }, (_, n) => ({ stepId: `s${n}`, title })),
              },
            ],
          },
        },
      }),
    )
    const [first, second] = EventFileReader.open(file).read()
    if (first?.event.body.case !== 'attempt' || second?.event.body.case !== 'plan') {
      throw new Error('expected an attempt and a plan')
    }
    expect(Buffer.byteLength(first.event.body.value.message)).toBeLessThanOrEqual(
      EVENTS.messageBytes,
    )
    expect(first.event.body.value.message).toMatch(/^é+…$/)
    expect(first.event.body.value.finalLogSeq).toBe(9n)
    const steps = second.event.body.value.phases[0]?.steps ?? []
    expect(steps.map((s) => s.stepId)).toEqual(Array.from({ length: 100 }, (_, n) => `s${n}`))
    expect(steps.every((s) => s.title.length < 600 && s.title.endsWith('…'))).toBe(true)
    writer.close()
  })

  test('what cannot be cut is refused, and the file goes on', () => {
    const writer = EventFileWriter.create(file)
    expect(() => writer.append(step('x'.repeat(EVENTS.eventBytes)))).toThrow(RangeError)
    expect(writer.append(step('fine'))).toBe(1)
    expect(idsOf(EventFileReader.open(file).read())).toEqual(['fine'])
    writer.close()
  })

  test('characters stay whole', () => {
    expect(cutText('short', 10)).toBe('short')
    for (let bytes = 4; bytes < 40; bytes++) {
      const cut = cutText('añ€😀'.repeat(10), bytes)
      expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(bytes)
      expect(cut).not.toContain('\ufffd')
    }
  })

  test('the end of an attempt is told on a full disk', ({ skip }) => {
    const mount = join(folder, 'small')
    mkdirSync(mount)
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=512k', 'tmpfs', mount], { stdio: 'ignore' })
    } catch {
      skip('mounting a small file system is not allowed here')
    }
    try {
      const events = join(mount, 'events.log')
      const writer = EventFileWriter.create(events)
      expect(() => writeFileSync(join(mount, 'ballast'), Buffer.alloc(1_000_000))).toThrow('ENOSPC')
      for (let n = 0; n < 100; n++) writer.append(step(`s${n}`, 'm'.repeat(1_000)))
      writer.append(ended('The disk is full.'), { sync: true })
      expect(idsOf(EventFileReader.open(events).read()).at(-1)).toBe('end')
      writer.close()
    } finally {
      execFileSync('umount', ['-l', mount])
    }
  })
})
