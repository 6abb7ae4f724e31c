// Turns the secret values of an environment into the masker's patterns: each value as it is, line by line, and in the
// encodings that programs print (base64 in its three alignments, URL, JSON, shell, hexadecimal). Pure. Invariant: no
// pattern is shorter than MASKING.valueBytes, whole values come first, and forms beyond the bounds are counted.
import { isUtf8 } from 'node:buffer'
import { MASKING } from '../../limits/machine.ts'

// biome-ignore lint/suspicious/noControlCharactersInRegex: that is how a colour code begins.
const COLOUR_CODES = /\u001b\[[0-9:;]*m/g

export type MaskedValue = string | Uint8Array

interface PatternSet {
  patterns: Buffer[]
  /** Forms of very long values that exceed the bounds. */
  leftOut: number
}

export function makeSecretPatterns(values: readonly MaskedValue[]): PatternSet {
  const wholes: Buffer[] = []
  const lines: Buffer[] = []
  for (const given of values) {
    const value = Buffer.from(given as Uint8Array)
    wholes.push(...wholeForms(value))
    lines.push(...linesOf(value))
  }
  const plain = [...wholes, ...lines]
  const set = new Collection()
  for (const pattern of plain) set.add(pattern)
  // Short values first, so that only long ones are left out.
  plain.sort((a, b) => a.length - b.length)
  for (const pattern of plain) for (const form of encodedForms(pattern)) set.add(form)
  return { patterns: set.patterns, leftOut: set.leftOut }
}

class Collection {
  readonly patterns: Buffer[] = []
  leftOut = 0
  readonly #seen = new Set<string>()
  #bytes = 0

  add(pattern: Buffer): void {
    if (pattern.length < MASKING.valueBytes) return
    const key = pattern.toString('latin1')
    if (this.#seen.has(key)) return
    this.#seen.add(key)
    const bytes = this.#bytes + pattern.length
    if (this.patterns.length >= MASKING.patterns || bytes > MASKING.patternsBytes) {
      this.leftOut++
      return
    }
    this.#bytes = bytes
    this.patterns.push(pattern)
  }
}

/** The value, the value without a final line ending, and both as the masker's plain reading sees them (lane.ts). */
function wholeForms(value: Buffer): Buffer[] {
  if (value.length < MASKING.valueBytes) return []
  const text = value.toString('latin1')
  const plain = text.replace(COLOUR_CODES, '').replace(/\r+\n/g, '\n')
  return [text, plain, text.replace(/[\r\n]+$/, ''), plain.replace(/\n+$/, '')]
    .filter((form) => form.length >= MASKING.valueBytes)
    .map((form) => Buffer.from(form, 'latin1'))
}

function linesOf(value: Buffer): Buffer[] {
  const lines = value.toString('latin1').split(/\r*\n/)
  if (lines.length < 2) return []
  return lines
    .filter((line) => line.length >= MASKING.lineBytes)
    .map((line) => Buffer.from(line, 'latin1'))
}

function* encodedForms(value: Buffer): Generator<Buffer> {
  if (isUtf8(value)) for (const form of textForms(value.toString())) yield Buffer.from(form)
  for (const shift of [0, 1, 2]) {
    const inner = base64Inside(value, shift)
    yield Buffer.from(inner)
    yield Buffer.from(inner.replaceAll('+', '-').replaceAll('/', '_'))
  }
  const hex = value.toString('hex')
  yield Buffer.from(hex)
  yield Buffer.from(hex.toUpperCase())
}

function* textForms(text: string): Generator<string> {
  yield text.replaceAll("'", "'\\''")
  const json = JSON.stringify(text).slice(1, -1)
  yield json
  yield json.replace(/[^\x20-\x7e]/g, unicodeEscape) // for encoders that write ASCII only
  yield json.replace(/[<>&]/g, unicodeEscape) // for encoders that escape HTML
  const url = encodeURIComponent(text)
  yield url
  yield url.replace(/%[0-9A-F]{2}/g, (pair) => pair.toLowerCase())
  yield new URLSearchParams([['', text]]).toString().slice(1) // in forms, a space is "+"
}

const unicodeEscape = (char: string): string =>
  `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`

/**
 * The base64 characters that depend on the value alone when `shift` bytes (modulo 3) precede it: those whose six bits
 * all belong to the value.
 */
function base64Inside(value: Buffer, shift: number): string {
  const encoded = Buffer.concat([Buffer.alloc(shift), value]).toString('base64')
  return encoded.slice(Math.ceil((shift * 8) / 6), Math.floor(((shift + value.length) * 8) / 6))
}
