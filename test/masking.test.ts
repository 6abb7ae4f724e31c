// The masker under random values, texts and cuts. A failing run prints its seed; hard cases that were found stay in
// agent/src/machine/masking/mask.test.ts.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Masker } from '../agent/src/machine/masking/mask.ts'
import { makeSecretPatterns } from '../agent/src/machine/masking/secret-patterns.ts'

const RUNS = Number(process.env.BERTH_PROPERTY_RUNS ?? 2_000)

/** Few letters, so that values often start alike, overlap and contain each other. */
const word = (letters: string[], minLength: number, maxLength: number) =>
  fc.array(fc.constantFrom(...letters), { minLength, maxLength }).map((parts) => parts.join(''))

const LETTERS = ['a', 'b', 'ab', 'c']
const PLAIN = ['a', 'b', '\n', 'm', '1', '[']
const HARD = [
  'a',
  'b',
  '\n',
  '\r\n',
  '\r',
  '\u001b[1m',
  '\u001b[31;1m',
  '\u001b[',
  '\u001b',
  'm',
  '1',
]

/** Values, and a text in which they, their pieces and noise alternate. */
const sample = (letters: string[], noise: string[], colour: string) =>
  fc.array(word(letters, 3, 12), { minLength: 1, maxLength: 4 }).chain((values) =>
    fc.record({
      values: fc.constant(values),
      text: fc
        .array(
          fc.oneof(
            word(noise, 0, 6),
            fc.constantFrom(...values),
            fc.constantFrom(...values).map((v) => v.slice(0, v.length - 1)),
            fc.constantFrom(...values).map((v) => v.slice(1)),
            fc.constantFrom(...values).map((v) => v.replaceAll('\n', '\r\n')),
            fc.constantFrom(...values).map((v) => `${v.slice(0, 2)}${colour}${v.slice(2)}`),
          ),
          { maxLength: 12 },
        )
        .map((parts) => parts.join('')),
      cuts: fc.array(fc.nat({ max: 160 }), { maxLength: 12 }),
    }),
  )

function maskWhole(masker: Masker, text: string): string {
  const stream = masker.source()
  const first = Buffer.from(stream.push(Buffer.from(text)))
  return Buffer.concat([first, stream.end()]).toString()
}

function maskCut(masker: Masker, text: string, cuts: number[]): string {
  const stream = masker.source()
  const bytes = Buffer.from(text)
  const paths = [0, ...cuts.filter((c) => c < bytes.length).sort((a, b) => a - b), bytes.length]
  const parts = paths.slice(1).map((place, i) => {
    const chunk = Buffer.from(bytes.subarray(paths[i], place))
    const output = Buffer.from(stream.push(chunk))
    chunk.fill(0xee) // the caller may reuse its buffer
    return output
  })
  return Buffer.concat([...parts, stream.end()]).toString()
}

const withoutColours = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colour codes are what this is about.
  text.replace(/\u001b\[[0-9:;]*m/g, '').replace(/\r{1,2}\n/g, '\n')

const secretPatternsOf = (values: string[]): string[] =>
  makeSecretPatterns(values).patterns.map(String)

/** The rule itself, naively: mask the union of all occurrences, and the dangling end. */
function maskSlowly(values: string[], text: string): string {
  const patterns = secretPatternsOf(values)
  const matches: [number, number][] = []
  for (const pattern of patterns) {
    for (let at = text.indexOf(pattern); at >= 0; at = text.indexOf(pattern, at + 1)) {
      matches.push([at, at + pattern.length])
    }
    for (let piece = pattern.length - 1; piece * 2 > pattern.length; piece--) {
      if (text.endsWith(pattern.slice(0, piece))) {
        matches.push([text.length - piece, text.length])
        break
      }
    }
  }
  matches.sort((a, b) => a[0] - b[0] || a[1] - b[1])
  let output = ''
  let at = 0
  for (const [start, end] of matches) {
    if (start >= at && (start > 0 || at === 0)) output += `${text.slice(at, start)}***`
    at = Math.max(at, end)
  }
  return output + text.slice(at)
}

test('without colours it is the plain rule, whatever the cuts', () => {
  fc.assert(
    fc.property(sample(LETTERS, LETTERS, ''), ({ values, text, cuts }) => {
      const masker = new Masker(values)
      const expected = maskSlowly(values, text)
      expect(maskWhole(masker, text)).toBe(expected)
      expect(maskCut(masker, text, cuts)).toBe(expected)
    }),
    { numRuns: RUNS, verbose: 1 },
  )
})

const assertCuts = (masker: Masker, text: string, cuts: number[]): string => {
  const output = maskWhole(masker, text)
  expect(maskCut(masker, text, cuts)).toBe(output)
  expect(maskCut(masker, text, [...Array(160).keys()])).toBe(output)
  return output
}

test('colours and returns do not hide a value, whatever the cuts', () => {
  fc.assert(
    fc.property(sample(PLAIN, HARD, '\u001b[0m'), ({ values, text, cuts }) => {
      const output = assertCuts(new Masker(values), text, cuts)
      for (const pattern of secretPatternsOf(values)) {
        expect(output).not.toContain(pattern)
        expect(withoutColours(output)).not.toContain(pattern)
      }
    }),
    { numRuns: RUNS, verbose: 1 },
  )
})

test('values that have escapes of their own are found as they are, whatever the cuts', () => {
  fc.assert(
    fc.property(sample(HARD, HARD, '\u001b[0m'), ({ values, text, cuts }) => {
      const output = assertCuts(new Masker(values), text, cuts)
      for (const pattern of secretPatternsOf(values)) expect(output).not.toContain(pattern)
    }),
    { numRuns: RUNS, verbose: 1 },
  )
})

test('values of any bytes, in any of their forms, inside any text', () => {
  const value = fc.uint8Array({ minLength: 6, maxLength: 40 })
  fc.assert(
    fc.property(
      fc.array(value, { minLength: 1, maxLength: 5 }),
      fc.array(fc.uint8Array({ maxLength: 30 }), { minLength: 1, maxLength: 6 }),
      fc.nat(),
      fc.array(fc.nat({ max: 300 }), { maxLength: 8 }),
      (values, noise, pick, cuts) => {
        fc.pre(values.every((v) => !v.includes(0x2a)))
        const { patterns } = makeSecretPatterns(values)
        const parts = noise.flatMap((n, i) => [n, patterns[(pick + i * 7) % patterns.length] ?? n])
        const text = Buffer.concat(parts).toString('latin1')
        const masker = new Masker(values)
        const whole = masker.source()
        const output = Buffer.concat([
          Buffer.from(whole.push(Buffer.from(text, 'latin1'))),
          whole.end(),
        ])
        for (const pattern of patterns) expect(output.includes(pattern)).toBe(false)
        const cut = masker.source()
        const bytes = Buffer.from(text, 'latin1')
        const pieces: Buffer[] = []
        let at = 0
        for (const step of [...cuts, bytes.length]) {
          pieces.push(Buffer.from(cut.push(bytes.subarray(at, at + step))))
          at += step
        }
        expect(Buffer.concat([...pieces, cut.end()]).equals(output)).toBe(true)
      },
    ),
    { numRuns: RUNS, verbose: 1 },
  )
})
