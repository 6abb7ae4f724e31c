// One line of the log, as text nodes only. It is memoised on the line: an unchanged row is not rerendered, so a text
// selection survives while lines arrive.
import { type MouseEvent, memo, useMemo, useState } from 'react'
import { duration } from '../format.ts'
import { type Piece, parseAnsi, type Style } from './ansi.ts'
import { inlineColours } from './colour.ts'
import type { Line } from './lines.ts'
import css from './log.module.css'

const SHOWN_CHARS = 4_000
/** Colour codes count too; a longer line is cut before it is parsed. */
const READ_CHARS = 40_000

type Span = readonly [number, number] | undefined

interface RowProps {
  n: number
  line: Line | undefined
  /** Existing rows keep their position, so only new ones are drawn. */
  top: number | undefined
  /** The total number of lines; -1 while unknown. */
  size: number
  position: number
  isLinked: boolean
  isCurrent: boolean
  /** The line that shows the failure. */
  isWrong: boolean
  /** The text that was found in it; empty if none. */
  found: string
  /** Where, if the worker reported it. */
  span: Span
  /** When its step began; undefined if times are hidden. */
  since: number | undefined
  onNumber(event: MouseEvent<HTMLAnchorElement>, n: number): void
}

/** Cuts the displayed text to a length. */
function cut(pieces: readonly Piece[], most: number): Piece[] {
  const kept: Piece[] = []
  let room = most
  for (const piece of pieces) {
    if (room <= 0) break
    kept.push(piece.text.length > room ? { ...piece, text: piece.text.slice(0, room) } : piece)
    room -= piece.text.length
  }
  return kept
}

/** Where the match is; a text is searched here, an expression only in the worker. */
function spanOf(found: string, span: Span, pieces: readonly Piece[]): Span {
  if (found === '' || span) return span
  const text = pieces.map((p) => p.text).join('')
  const at = text.toLowerCase().indexOf(found.toLowerCase())
  return at < 0 ? undefined : [at, at + found.length]
}

/** Splits the pieces where the mark begins and ends. */
function split(pieces: readonly Piece[], span: Span) {
  const parts: (Piece & { isMarked: boolean; key: number })[] = []
  let at = 0
  const push = (piece: Piece, from: number, to: number, isMarked: boolean): void => {
    if (to > from) {
      parts.push({ ...piece, text: piece.text.slice(from, to), isMarked, key: at + from })
    }
  }
  for (const piece of pieces) {
    const length = piece.text.length
    const from = Math.min(length, Math.max(0, (span?.[0] ?? 0) - at))
    const to = Math.min(length, Math.max(from, (span?.[1] ?? 0) - at))
    push(piece, 0, from, false)
    push(piece, from, to, true)
    push(piece, to, length, false)
    at += length
  }
  return parts
}

const NAMES = ['bold', 'dim', 'italic', 'underline', 'inverse'] as const

/** Inverse swaps foreground and background; without colours it uses the theme's own. */
function upright(style: Style): Style {
  if (!style.inverse || (style.fg === undefined && style.bg === undefined)) return style
  const { inverse: _is, fg, bg, ...rest } = style
  return {
    ...rest,
    ...(bg === undefined ? {} : { fg: bg }),
    ...(fg === undefined ? {} : { bg: fg }),
  }
}

function classOf(style: Style): string {
  const names: (string | undefined)[] = NAMES.filter((name) => style[name]).map((name) => css[name])
  if (typeof style.bg === 'number') names.push(css.ground, css[`b${style.bg}`])
  else if (typeof style.fg === 'number') names.push(css[`f${style.fg}`])
  return names.join(' ')
}

function Part({ piece, isMarked }: { piece: Piece; isMarked: boolean }) {
  const { text } = piece
  const style = upright(piece.style)
  const inner = isMarked ? <mark className={css.mark}>{text}</mark> : text
  const className = classOf(style)
  const colours = inlineColours(style.fg, style.bg)
  if (style.href) {
    return (
      <a href={style.href} target="_blank" rel="noopener noreferrer">
        {inner}
      </a>
    )
  }
  if (className === '' && !colours.color) return inner
  return (
    <span className={className} style={colours}>
      {inner}
    </span>
  )
}

/** The text of a line with its colours, and what was found in it. */
export function Content({
  line,
  found,
  span,
}: {
  line: Pick<Line, 'text'>
  found: string
  span: Span
}) {
  const [isAll, showAll] = useState(false)
  const { text } = line
  const parts = useMemo(() => {
    const read = isAll ? text : text.slice(0, READ_CHARS)
    const pieces = parseAnsi(read)
    return split(isAll ? pieces : cut(pieces, SHOWN_CHARS), spanOf(found, span, pieces))
  }, [text, isAll, found, span])
  const isCut = !isAll && text.length > SHOWN_CHARS
  return (
    <>
      {parts.map((part) => (
        <Part key={part.key} piece={part} isMarked={part.isMarked} />
      ))}
      {isCut && (
        <button type="button" className={css.more} onClick={() => showAll(true)}>
          … show all {text.length.toLocaleString('en')} characters
        </button>
      )}
    </>
  )
}

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' })

export const Row = memo(function Row(props: RowProps) {
  const { n, line, since, isLinked, isCurrent, found, span } = props
  const names = [
    css.row,
    props.isWrong && css.wrong,
    isLinked && css.linked,
    found !== '' && css.match,
    isCurrent && css.current,
    line && css[line.s],
  ]
  return (
    // biome-ignore lint/a11y/useSemanticElements: list items whose place among many thousands is told
    <div
      role="listitem"
      aria-setsize={props.size}
      aria-posinset={props.position}
      className={names.filter(Boolean).join(' ')}
      data-n={n}
      style={{ top: props.top }}
    >
      <a
        className={css.number}
        href={`#L${n}`}
        aria-label={`Line ${n}`}
        tabIndex={-1}
        onClick={(event) => props.onNumber(event, n)}
      >
        {n}
      </a>
      {since !== undefined && (
        <span className={css.time} title={line && line.t > 0 ? exact.format(line.t) : undefined}>
          {line && line.t > 0 ? `+${duration(Math.max(0, line.t - since))}` : ''}
        </span>
      )}
      <span className={css.text}>
        {line ? <Content line={line} found={found} span={span} /> : ' '}
      </span>
      {'\n' /* invisible; separates the lines in copied text */}
    </div>
  )
})
