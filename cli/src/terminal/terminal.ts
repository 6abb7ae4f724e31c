// Formats stdout and stderr: a table for users, tab-separated lines for pipes and CI, the API's own JSON with --json.
// Invariant: where colour is off, the client writes no escape byte. Every cell and message is cleaned here, so that no
// command can forget it.
import type { CliError } from './exit.ts'
import type { Io, Sink } from './io.ts'
import { cleanText, cutText, padText, textWidth, toJson } from './text.ts'

export type Style = 'green' | 'red' | 'yellow' | 'cyan' | 'dim' | 'bold'
export interface Cell {
  text: string
  style?: Style
  /** A sentence at the end of its row, which does not widen its column. */
  reaches?: true
}
export type CellLike = string | Cell
export type Paint = (style: Style | undefined, text: string) => string

export interface OutputFlags {
  json: boolean
  color: boolean
  quiet: boolean
}

interface Listing<Row> {
  rows: readonly Row[]
  /** What the API answered, printed unchanged with --json. */
  raw: unknown
  header: readonly string[]
  human(row: Row): readonly CellLike[]
  /** Ids first, ISO times, full SHAs. */
  plain(row: Row): readonly string[]
  /** Shown to users when the list is empty. */
  empty: string
}

export interface Screen {
  readonly json: boolean
  /** A user reads stdout: tables, relative times. */
  readonly human: boolean
  /** stderr may be redrawn in place. */
  readonly live: boolean
  readonly quiet: boolean
  readonly width: number
  readonly out: { readonly colour: boolean; readonly paint: Paint }
  readonly err: { readonly colour: boolean; readonly paint: Paint }
  /** One line of data; the caller has cleaned foreign text. */
  print(line: string): Promise<void>
  /** What a user must see, on stderr. */
  say(line: string): Promise<void>
  /** A message for users on stderr; --quiet drops it. */
  note(line: string): Promise<void>
  warn(message: string): Promise<void>
  fail(error: CliError): Promise<void>
  printJson(value: unknown): Promise<void>
  printList<Row>(listing: Listing<Row>): Promise<void>
  /** One object, one field per line. Empty values are omitted for users. */
  printFields(raw: unknown, fields: readonly (readonly [string, CellLike])[]): Promise<void>
}

const isOn = (value: string | undefined) =>
  value !== undefined && value !== '' && value !== '0' && value !== 'false'

/** NO_COLOR, --no-color, TERM=dumb and CLICOLOR=0 override everything; forcing colour overrides "no terminal". */
export function hasColour(sink: Sink, env: Io['env'], flag: boolean): boolean {
  if (!flag || (env.NO_COLOR ?? '') !== '' || env.TERM === 'dumb') return false
  if (env.CLICOLOR === '0' || env.FORCE_COLOR === '0' || env.FORCE_COLOR === 'false') return false
  if (isOn(env.CLICOLOR_FORCE) || isOn(env.FORCE_COLOR)) return true
  return sink.isTTY && env.CI !== 'true'
}

/** Start and end code of each style. Avoids `util.styleText`, which Node 18 lacks. */
const CODES: Record<Style, readonly [number, number]> = {
  green: [32, 39],
  red: [31, 39],
  yellow: [33, 39],
  cyan: [36, 39],
  dim: [2, 22],
  bold: [1, 22],
}

const painter =
  (colour: boolean): Paint =>
  (style, text) => {
    if (!colour || style === undefined) return text
    const [begin, end] = CODES[style]
    return `\u001b[${begin}m${text}\u001b[${end}m`
  }

const asCell = (cell: CellLike): Cell =>
  typeof cell === 'string' ? { text: cleanText(cell) } : { ...cell, text: cleanText(cell.text) }

/** Aligned columns, three spaces between; text that does not fit is cut, never wrapped. */
export function renderTable(
  header: readonly string[],
  rows: readonly (readonly CellLike[])[],
  width: number,
  paint: Paint,
): string[] {
  const table = [header.map((text): Cell => ({ text, style: 'dim' })), ...rows].map((row) =>
    row.map(asCell),
  )
  const widths: number[] = []
  for (const row of table) {
    row.forEach((cell, i) => {
      widths[i] = Math.max(widths[i] ?? 0, cell.reaches ? 0 : textWidth(cell.text))
    })
  }
  return table.map((row) => {
    let line = ''
    let left = width
    row.forEach((cell, i) => {
      if (left <= 0) return
      const isLast = row.slice(i + 1).every((later) => later.text === '')
      const text = cutText(cell.text, left)
      const padding = isLast ? 0 : (widths[i] ?? 0) + 3 - textWidth(text)
      line += paint(cell.style, text) + ' '.repeat(Math.max(0, padding))
      left -= textWidth(text) + padding
    })
    return line.trimEnd()
  })
}

const plainLine = (cells: readonly string[]): string =>
  cells.map((cell) => cleanText(cell) || '-').join('\t')

export function openScreen(io: Io, flags: OutputFlags): Screen {
  const inCi = io.env.CI === 'true'
  const human = io.stdout.isTTY && !inCi && !flags.json
  const out = { colour: hasColour(io.stdout, io.env, flags.color), paint: painter(false) }
  const err = { colour: hasColour(io.stderr, io.env, flags.color), paint: painter(false) }
  out.paint = painter(out.colour)
  err.paint = painter(err.colour)
  const print = (line: string) => io.stdout.write(`${line}\n`)
  const say = (line: string) => io.stderr.write(`${line}\n`)
  const printJson = (value: unknown) => print(toJson(value, 2))

  return {
    json: flags.json,
    human,
    live: io.stderr.isTTY && !inCi && err.colour && !flags.quiet,
    quiet: flags.quiet,
    get width() {
      return io.stdout.columns
    },
    out,
    err,
    print,
    say,
    printJson,
    note: (line) => (flags.quiet ? Promise.resolve() : say(line)),
    warn: (message) => say(`${err.paint('yellow', 'warning:')} ${cleanText(message)}`),
    async fail(error) {
      await say(`${err.paint('red', 'error:')} ${cleanText(error.message)}`)
      if (error.hint) await say(`${err.paint('cyan', 'hint:')}  ${cleanText(error.hint)}`)
    },
    async printList(listing) {
      if (flags.json) return printJson(listing.raw)
      if (!human) {
        for (const row of listing.rows) await print(plainLine(listing.plain(row)))
        return
      }
      if (listing.rows.length === 0) return say(cleanText(listing.empty))
      const cells = listing.rows.map((row) => listing.human(row))
      const lines = renderTable(listing.header, cells, io.stdout.columns, out.paint)
      await print(lines.join('\n'))
    },
    async printFields(raw, fields) {
      if (flags.json) return printJson(raw)
      const known = fields.map(([name, cell]) => [name, asCell(cell)] as const)
      const nameWidth = Math.max(...known.map(([name]) => textWidth(name)))
      for (const [name, cell] of known) {
        // never cut, because users copy keys and addresses from here
        if (!human) await print(plainLine([name, cell.text]))
        else if (cell.text !== '') {
          const label = out.paint('dim', padText(name, nameWidth))
          await print(`${label}   ${out.paint(cell.style, cell.text)}`)
        }
      }
    },
  }
}
