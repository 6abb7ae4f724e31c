// Splits a line with terminal sequences into pieces of plain text with a style. Only styles and http links are kept;
// every other sequence (titles, clipboard, cursor, unfinished ones) is dropped. Each line is parsed alone. PURE.

/** One of the theme's sixteen, or an RGB value. */
export type Colour = number | readonly [number, number, number]

export interface Style {
  fg?: Colour
  bg?: Colour
  bold?: true
  dim?: true
  italic?: true
  underline?: true
  inverse?: true
  href?: string
}

export interface Piece {
  text: string
  style: Style
}

// CSI, OSC up to BEL or ST, strings of other kinds, two-character escapes, lone control characters except tab;
// a sequence may be cut off by the end of the line
const SEQUENCE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  /(?:\u001b\[|\u009b)([0-?]*)[ -/]*([@-~]|$)|(?:\u001b\]|\u009d)([^\u0007\u001b\u009c]*)(?:\u0007|\u001b\\|\u009c|$)?|\u001b[PX^_][^\u001b]*(?:\u001b\\)?|\u001b[ -~]?|[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/g

const FLAGS = { 1: 'bold', 2: 'dim', 3: 'italic', 4: 'underline', 7: 'inverse' } as const
const ENDS: Record<number, readonly (keyof Style)[]> = {
  22: ['bold', 'dim'],
  23: ['italic'],
  24: ['underline'],
  27: ['inverse'],
  39: ['fg'],
  49: ['bg'],
}
const STEPS = [0, 95, 135, 175, 215, 255] as const

/** The 256-colour palette: sixteen of the theme, a cube of 6×6×6, 24 greys. */
function indexed(n: number): Colour | undefined {
  if (!(n >= 0 && n <= 255)) return undefined
  if (n < 16) return n
  if (n >= 232) {
    const grey = 8 + (n - 232) * 10
    return [grey, grey, grey]
  }
  const at = n - 16
  const step = (i: number): number => STEPS[i % 6] ?? 0
  return [step(Math.floor(at / 36)), step(Math.floor(at / 6)), step(at)]
}

/** 5;n or 2;r;g;b after 38 and 48, and how many numbers it used. */
function extended(codes: readonly number[], at: number): [Colour | undefined, number] {
  if (codes[at] === 5) return [indexed(codes[at + 1] ?? -1), 2]
  if (codes[at] !== 2) return [undefined, 1]
  const rgb = [codes[at + 1] ?? 0, codes[at + 2] ?? 0, codes[at + 3] ?? 0] as const
  return [rgb.every((c) => c >= 0 && c <= 255) ? rgb : undefined, 4]
}

function applyCodes(style: Style, text: string): Style {
  const codes = text.split(/[;:]/).map((part) => (part === '' ? 0 : Number(part)))
  let next: Style = { ...style }
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i] ?? 0
    const flag = FLAGS[code as keyof typeof FLAGS]
    if (code === 0) next = style.href ? { href: style.href } : {}
    else if (flag) next[flag] = true
    else if (ENDS[code]) for (const key of ENDS[code]) delete next[key]
    else if (code === 38 || code === 48) {
      const [colour, used] = extended(codes, i + 1)
      if (colour !== undefined) next[code === 38 ? 'fg' : 'bg'] = colour
      i += used
    } else if (code >= 30 && code <= 37) next.fg = code - 30
    else if (code >= 40 && code <= 47) next.bg = code - 40
    else if (code >= 90 && code <= 97) next.fg = code - 82
    else if (code >= 100 && code <= 107) next.bg = code - 92
  }
  return next
}

/** OSC 8 begins a link, or ends it if it has no address. Other commands are ignored. */
function applyCommand(style: Style, text: string): Style {
  const link = /^8;[^;]*;(.*)$/.exec(text)
  if (!link) return style
  const { href: _before, ...rest } = style
  const address = link[1] ?? ''
  return isWebAddress(address) ? { ...rest, href: address } : rest
}

function isWebAddress(text: string): boolean {
  if (!/^https?:\/\//i.test(text)) return false
  try {
    return /^https?:$/.test(new URL(text).protocol)
  } catch {
    return false
  }
}

export function parseAnsi(text: string): Piece[] {
  const pieces: Piece[] = []
  let style: Style = {}
  let from = 0
  const take = (to: number): void => {
    if (to > from) pieces.push({ text: text.slice(from, to), style })
  }
  for (const match of text.matchAll(SEQUENCE)) {
    take(match.index)
    from = match.index + match[0].length
    if (match[2] === 'm') style = applyCodes(style, match[1] ?? '')
    else if (match[3] !== undefined) style = applyCommand(style, match[3])
  }
  take(text.length)
  return pieces
}

/** The text as displayed and searched. */
export const plainText = (text: string): string => text.replaceAll(SEQUENCE, '')
