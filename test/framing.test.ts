// Framing under random output, cuts and pauses. A failing run prints its seed.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { LineSplitter } from '../agent/src/runner/line-splitter.ts'

const RUNS = Number(process.env.BERTH_PROPERTY_RUNS ?? 2_000)

interface Shown {
  data: string
  replaces: boolean
}

/** Pushes the text in pieces; time passes between them, sometimes long enough to show unfinished lines. */
function frame(isTerminal: boolean, text: string, cuts: number[], pausesMs: number[]): Shown[] {
  const records: Shown[] = []
  const splitter = new LineSplitter(isTerminal, (data, start, end, replaces) => {
    records.push({ data: data.toString('latin1', start, end), replaces })
  })
  const bytes = Buffer.from(text, 'latin1')
  let now = 0
  let at = 0
  for (const [i, step] of [...cuts, bytes.length].entries()) {
    splitter.push(bytes.subarray(at, at + step), now)
    at += step
    now += pausesMs[i % pausesMs.length] ?? 0
    splitter.tick(now)
  }
  splitter.end()
  return records
}

const output = (...parts: string[]) =>
  fc.array(fc.constantFrom(...parts), { maxLength: 40 }).map((words) => words.join(''))
const cuts = fc.array(fc.integer({ min: 1, max: 12 }), { maxLength: 30 })
const pauses = fc.array(fc.constantFrom(0, 50, 200, 1_000), { minLength: 1, maxLength: 5 })
const LONG = 'y'.repeat(16_384)

test('without bare returns the records are the output, byte for byte', () => {
  fc.assert(
    fc.property(output('a', 'bc', '\n', '\r\n', 'é', LONG), cuts, pauses, (text, at, ms) => {
      const records = frame(false, text, at, ms)
      expect(records.map((r) => r.data).join('')).toBe(text)
      expect(records.some((r) => r.replaces)).toBe(false)
      expect(records.every((r) => r.data.length > 0 && r.data.length <= 16_384)).toBe(true)
    }),
    { numRuns: RUNS, verbose: 1 },
  )
})

test('through a terminal they are what the program wrote', () => {
  fc.assert(
    fc.property(output('a', 'bc', '\n', '\r\n', LONG), cuts, pauses, (text, at, ms) => {
      const records = frame(true, text.replaceAll('\n', '\r\n'), at, ms)
      expect(records.map((r) => r.data).join('')).toBe(text)
    }),
    { numRuns: RUNS, verbose: 1 },
  )
})

test('of rewritten lines the last version is left, whatever the cuts', () => {
  fc.assert(
    fc.property(output('a', 'bc', '\n', '\r', '\r\n'), cuts, (text, at) => {
      const records = frame(false, text, at, [0])
      const left = records.filter((_, i) => !records[i + 1]?.replaces)
      const lines = text.split(/(?<=\n)/)
      const versions = lines.map((line) => {
        const leading = /^\r+(?=[^\r\n])/.exec(line)?.[0] ?? ''
        const parts = line.slice(leading.length).split(/(?<=\r)(?=[^\r\n])/)
        return (parts.length === 1 ? leading : '') + (parts.at(-1) ?? '')
      })
      expect(left.map((r) => r.data).join('')).toBe(versions.join(''))
    }),
    { numRuns: RUNS, verbose: 1 },
  )
})
