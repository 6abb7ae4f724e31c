// Cleans text from servers, repositories and logs for a terminal. Colours (SGR) may stay in logs; titles, clipboards,
// cursors, links and every other sequence or control character are removed. A scanner instead of a pattern, because it
// is linear for every input.
import { CLIENT } from '../limits/client.ts'

const ESC = 0x1b
const BEL = 0x07
const ST = 0x9c
const CSI = 0x9b
const OSC = 0x9d
/** DCS, SOS, PM, APC: 8-bit introducers, and the letters after ESC that mean the same. */
const STRINGS_8BIT = [0x90, 0x98, 0x9e, 0x9f, OSC]
const STRINGS_7BIT = [0x50, 0x58, 0x5e, 0x5f, 0x5d]

/** Everything that the scanner must examine; most lines have none. U+202A… reverse the text. */
const SUSPICIOUS = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u

const isDirection = (code: number) =>
  (code >= 0x2028 && code <= 0x202e && code !== 0x202f) || (code >= 0x2066 && code <= 0x2069)
const isControl = (code: number) => code < 0x20 || (code >= 0x7f && code <= 0x9f)

/** Up to where earlier searches found no terminator; keeps many unfinished strings linear. */
interface Searched {
  until: number
}

/** The end of a control string, after its terminator; `from` when there is none. */
function controlStringEnd(text: string, from: number, searched: Searched): number {
  const limit = Math.min(text.length, from + CLIENT.sequenceChars)
  for (let i = Math.max(from, searched.until); i < limit; i++) {
    const code = text.charCodeAt(i)
    if (code === BEL || code === ST) return i + 1
    if (code === ESC) return text.charCodeAt(i + 1) === 0x5c ? i + 2 : i
  }
  searched.until = limit
  return from
}

function skipRange(text: string, from: number, low: number, high: number): number {
  let i = from
  while (i < text.length && text.charCodeAt(i) >= low && text.charCodeAt(i) <= high) i++
  return i
}

/** The end of the sequence that starts at `start` with ESC or an 8-bit introducer. */
function sequenceEnd(text: string, start: number, searched: Searched): number {
  const first = text.charCodeAt(start)
  const second = text.charCodeAt(start + 1)
  if (first === CSI || (first === ESC && second === 0x5b)) {
    const params = skipRange(text, start + (first === CSI ? 1 : 2), 0x30, 0x3f)
    return skipOne(text, skipRange(text, params, 0x20, 0x2f), 0x40, 0x7e)
  }
  if (STRINGS_8BIT.includes(first)) return controlStringEnd(text, start + 1, searched)
  if (first !== ESC) return start + 1
  if (STRINGS_7BIT.includes(second)) return controlStringEnd(text, start + 2, searched)
  return skipOne(text, skipRange(text, start + 1, 0x20, 0x2f), 0x30, 0x7e)
}

function skipOne(text: string, at: number, low: number, high: number): number {
  const code = text.charCodeAt(at)
  return code >= low && code <= high ? at + 1 : at
}

function scan(text: string, keepColours: boolean, tab: string): string {
  let out = ''
  let coloured = false
  const searched = { until: 0 }
  for (let i = 0; i < text.length; ) {
    const code = text.charCodeAt(i)
    if (code === ESC || (code >= 0x80 && code <= 0x9f)) {
      const end = sequenceEnd(text, i, searched)
      const parameters = text.slice(i + (code === CSI ? 1 : 2), end - 1)
      const isColour = text[end - 1] === 'm' && (code === CSI || text[i + 1] === '[')
      if (keepColours && isColour && /^[0-9;:]*$/.test(parameters)) {
        out += `\u001b[${parameters}m`
        coloured = true
      }
      i = end
      continue
    }
    if (code === 0x09) out += tab
    else if (code === 0x0a) out += ' '
    else if (!isControl(code) && !isDirection(code)) out += text[i]
    i++
  }
  return coloured ? `${out}\u001b[0m` : out
}

/** For names, titles and messages: one line without any sequence. */
export const cleanText = (text: string): string =>
  SUSPICIOUS.test(text) ? scan(text, false, ' ') : text

/**
 * For one line of a log. Colours end with the line that set them. A progress bar that rewrote its line with carriage
 * returns leaves its last state, as on a terminal; -O keeps every byte.
 */
export function cleanLogLine(line: string, keepColours: boolean): string {
  if (!SUSPICIOUS.test(line)) return line
  const last = line.split('\r').findLast((part) => part !== '')
  return scan(last ?? '', keepColours, '\t')
}

let segmenter: Intl.Segmenter | undefined
/** Created on first use, because that takes longer than most commands need before their first request. */
const segmentsOf = (text: string): Intl.Segments => {
  segmenter ??= new Intl.Segmenter()
  return segmenter.segment(text)
}
const EAST_ASIAN = /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u
const OTHER_WIDE = /^[\u3000-\u303e\uff01-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}|\ufe0f/u
const INVISIBLE = /^[\p{Mn}\p{Me}\p{Cf}]+$/u
const PRINTABLE_ASCII = /^[ -~]*$/

const graphemeWidth = (grapheme: string): number =>
  EAST_ASIAN.test(grapheme) || OTHER_WIDE.test(grapheme) ? 2 : INVISIBLE.test(grapheme) ? 0 : 1

/** Columns that a terminal needs for clean text. */
export function textWidth(text: string): number {
  if (PRINTABLE_ASCII.test(text)) return text.length
  let width = 0
  for (const { segment } of segmentsOf(text)) width += graphemeWidth(segment)
  return width
}

/** Clean text cut to `width` columns, with … if something is missing. */
export function cutText(text: string, width: number): string {
  if (textWidth(text) <= width) return text
  let out = ''
  let used = 0
  for (const { segment } of segmentsOf(text)) {
    used += graphemeWidth(segment)
    if (used > width - 1) break
    out += segment
  }
  return width > 0 ? `${out}…` : ''
}

export const padText = (text: string, width: number): string =>
  text + ' '.repeat(Math.max(0, width - textWidth(text)))

/** JSON without bytes that a terminal could obey; they are escaped, so the document stays the same. */
export const toJson = (value: unknown, indent?: number): string =>
  JSON.stringify(value, null, indent).replace(
    /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
