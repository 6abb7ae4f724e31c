// Text of programs without what only a terminal obeys. PURE.

// CSI (colours, cursor), OSC up to BEL or ST, two-character escapes; lone control characters except tab and line ends
const ESCAPES =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is removed
  /\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[ -~]|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g

export const stripEscapes = (text: string): string => text.replaceAll(ESCAPES, '')

// strings for a terminal or its device, whose end marks them
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is removed
const STRINGS = /\u001b[PX^_][^\u001b]*(?:\u001b\\)?/g
// C1 controls, and marks that change the direction of the text after them
const INVISIBLE = /[\u0080-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

/** A text that a program or a repository wrote, as a page may show it: several lines at most, nothing invisible. */
export const shownText = (text: string): string =>
  stripEscapes(text.replaceAll(STRINGS, '')).replaceAll(INVISIBLE, '').replaceAll('\r', '')

/** The same in one line of bounded length. */
export function shownLine(text: string, most: number): string {
  const line = shownText(text).replaceAll(/\s+/g, ' ').trim()
  return line.length <= most ? line : `${line.slice(0, most - 1)}…`
}
