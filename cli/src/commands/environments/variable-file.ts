// Reads `KEY=value` lines: `#` comments, optional `export`, single and double quotes (`\n` and similar escapes in
// double ones), values over several lines inside quotes. No interpolation. A bad line is reported by its number and
// never quoted, because it may hold part of a secret.
import { usage } from '../../terminal/exit.ts'

const LINE = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*/
const ESCAPES: Record<string, string> = { n: '\n', r: '\r', t: '\t' }

interface Value {
  value: string
  /** Where the rest of the text begins. */
  end: number
}

function readDouble(text: string, from: number): Value | undefined {
  let value = ''
  for (let i = from; i < text.length; i++) {
    const c = text[i] ?? ''
    if (c === '"') return { value, end: i + 1 }
    if (c === '\\' && i + 1 < text.length) {
      const next = text[++i] ?? ''
      value += ESCAPES[next] ?? (next === '"' || next === '\\' || next === '$' ? next : `\\${next}`)
    } else value += c
  }
  return undefined
}

function readValue(text: string, from: number): Value | undefined {
  const quote = text[from]
  if (quote === '"') return readDouble(text, from + 1)
  const lineEnd = text.indexOf('\n', from)
  const stop = lineEnd < 0 ? text.length : lineEnd
  if (quote === "'") {
    const end = text.indexOf("'", from + 1)
    return end < 0 ? undefined : { value: text.slice(from + 1, end), end: end + 1 }
  }
  const raw = text.slice(from, stop)
  return { value: raw.replace(/(^|\s)#.*$/, '').trim(), end: stop }
}

export function readVariableFile(content: string, name: string): Map<string, string> {
  const text = content.replace(/^\uFEFF/, '').replaceAll('\r\n', '\n')
  const values = new Map<string, string>()
  let at = 0
  while (at < text.length) {
    const lineEnd = text.indexOf('\n', at)
    const stop = lineEnd < 0 ? text.length : lineEnd
    const line = text.slice(at, stop)
    if (/^\s*(#.*)?$/.test(line)) {
      at = stop + 1
      continue
    }
    const number = text.slice(0, at).split('\n').length
    const head = LINE.exec(line)
    const read = head?.[1] === undefined ? undefined : readValue(text, at + head[0].length)
    const rest = read ? text.slice(read.end).split('\n', 1)[0] : undefined
    if (!head?.[1] || !read || !/^\s*(#.*)?$/.test(rest ?? '')) {
      throw usage(
        `${name}, line ${number}: this is not KEY=value`,
        'quote values with blanks in them',
      )
    }
    if (values.has(head[1])) throw usage(`${name}, line ${number}: ${head[1]} is there twice`)
    values.set(head[1], read.value)
    at = read.end + (rest ?? '').length + 1
  }
  return values
}
