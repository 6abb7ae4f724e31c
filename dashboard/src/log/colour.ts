// Makes colours that programs chose for their own terminal readable on ours: moves them towards black or white until
// the contrast is sufficient. PURE.
import type { Colour } from './ansi.ts'

type Rgb = readonly [number, number, number]

/** The log's background in the light and in the dark theme (--surface of tokens.css; a test compares them). */
export const LIGHT: Rgb = [0xff, 0xff, 0xff]
export const DARK: Rgb = [0x11, 0x11, 0x13]
const ENOUGH = 4.5

const channel = (value: number): number => {
  const v = value / 255
  return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4
}
const luminance = ([r, g, b]: Rgb): number =>
  0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b)

export function contrast(a: Rgb, b: Rgb): number {
  const [low = 0, high = 0] = [luminance(a), luminance(b)].sort((x, y) => x - y)
  return (high + 0.05) / (low + 0.05)
}

function readable(colour: Rgb, ground: Rgb): Rgb {
  const towards = luminance(ground) > 0.5 ? 0 : 255
  for (let part = 0; part < 1; part += 0.1) {
    const [r, g, b] = colour.map((c) => Math.round(c + (towards - c) * part))
    const tried: Rgb = [r ?? 0, g ?? 0, b ?? 0]
    if (contrast(tried, ground) >= ENOUGH) return tried
  }
  return [towards, towards, towards]
}

const css = (rgb: Rgb): string => `rgb(${rgb.join(' ')})`

/** Foreground and background of a piece, if they are not among the theme's sixteen. */
export function inlineColours(
  fg: Colour | undefined,
  bg: Colour | undefined,
): { color?: string; backgroundColor?: string } {
  if (typeof bg === 'object') {
    const on = luminance(bg) > 0.18 ? 'rgb(0 0 0)' : 'rgb(255 255 255)'
    return { backgroundColor: css(bg), color: on }
  }
  if (typeof fg !== 'object' || bg !== undefined) return {}
  return { color: `light-dark(${css(readable(fg, LIGHT))}, ${css(readable(fg, DARK))})` }
}
