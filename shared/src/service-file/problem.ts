// What is wrong with a file, where, and what to do about it. Every message about a .service.yml is a Problem; positions
// count from 1, the end is exclusive. Only this file quotes text of the file: cut to 40 characters, control characters
// escaped.
import { SERVICE_FILE } from '../limits/limits.ts'

export const FILE_NAME = '.service.yml'

export const ERROR_CODES = [
  'invalid_yaml',
  'duplicate_key',
  'too_complex',
  'unknown_key',
  'missing_key',
  'invalid_type',
  'invalid_value',
  'invalid_name',
  'conflicting_keys',
  'unknown_service',
  'unknown_volume',
  'dependency_cycle',
  'several_defaults',
  'duplicate_route',
  'invalid_domain',
  'health_without_port',
  'reserved_key',
] as const
export const WARNING_CODES = [
  'deprecated_result',
  'no_default_service',
  'looks_like_secret',
  'database_address',
  'argument_in_image',
  'shared_volume',
] as const
export type ErrorCode = (typeof ERROR_CODES)[number]
type WarningCode = (typeof WARNING_CODES)[number]
export type ProblemCode = ErrorCode | WarningCode

/** A range in the file: lines and columns from 1, the end exclusive. */
export interface Range {
  line: number
  column: number
  end_line: number
  end_column: number
}

/** The snake_case names are those of `berth config validate --json`. */
export interface Problem extends Range {
  file: string
  path: string
  code: ProblemCode
  severity: 'error' | 'warning'
  message: string
  suggestion: string | null
}

/** Offsets in the source. */
export interface Span {
  start: number
  end: number
}

export type Path = readonly (string | number)[]

/** Collects problems of one source and turns offsets into lines and columns. */
export interface Report {
  error(span: Span, path: Path, code: ErrorCode, message: string, suggestion?: string): void
  warn(span: Span, path: Path, code: WarningCode, message: string): void
  rangeOf(span: Span): Range
  /** Sorted by position; a bounded number, errors before warnings. */
  problems(): Problem[]
}

export function startReport(source: string, file: string): Report {
  const lineStarts = [0]
  for (let at = source.indexOf('\n'); at !== -1; at = source.indexOf('\n', at + 1)) {
    lineStarts.push(at + 1)
  }
  const found: { start: number; problem: Problem }[] = []

  const position = (offset: number): { line: number; column: number } => {
    let low = 0
    let high = lineStarts.length - 1
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if ((lineStarts[middle] as number) <= offset) low = middle
      else high = middle - 1
    }
    return { line: low + 1, column: offset - (lineStarts[low] as number) + 1 }
  }
  const rangeOf = ({ start, end }: Span): Range => {
    const from = position(start)
    const to = position(Math.max(start, end))
    return { line: from.line, column: from.column, end_line: to.line, end_column: to.column }
  }
  const add = (
    span: Span,
    path: Path,
    rest: Pick<Problem, 'code' | 'severity' | 'message' | 'suggestion'>,
  ): void => {
    found.push({
      start: span.start,
      problem: { file, ...rangeOf(span), path: join(path), ...rest },
    })
  }
  return {
    error: (span, path, code, message, suggestion) =>
      add(span, path, { code, severity: 'error', message, suggestion: suggestion ?? null }),
    warn: (span, path, code, message) =>
      add(span, path, { code, severity: 'warning', message, suggestion: null }),
    rangeOf,
    problems: () =>
      found
        .toSorted((a, b) => severityOf(a) - severityOf(b))
        .slice(0, SERVICE_FILE.problemsKept)
        .toSorted((a, b) => a.start - b.start)
        .map(({ problem }) => problem),
  }
}

const severityOf = ({ problem }: { problem: Problem }): number =>
  problem.severity === 'error' ? 0 : 1

/** `docker.services.web.port`; escapes and truncates unusual keys of the file. */
export const join = (path: Path): string => path.map((part) => shown(String(part))).join('.')

/** Text of the file inside a sentence, without quotes around it. */
export function shown(text: string): string {
  const head = text.slice(0, SERVICE_FILE.quotedCharacters)
  const cut = head.length < text.length
  return withoutControls(head.toWellFormed()) + (cut ? '…' : '')
}

/** `"three thousand"`. */
export const quoted = (text: string): string => `"${shown(text).replaceAll('"', '\\"')}"`

/** `'a' or 'b'`, `'a', 'b' or 'c'`. */
export function alternatives(words: readonly string[]): string {
  const [last, ...before] = words.map((word) => `'${word}'`).reverse()
  return before.length === 0 ? (last ?? '') : `${before.reverse().join(', ')} or ${last}`
}

// Controls, line separators, and characters that reorder or hide text on a screen.
const UNPRINTABLE = /[\p{Cc}\u2028\u2029\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/gu
const SHORT: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** Escapes what a terminal would interpret instead of showing. */
export const withoutControls = (text: string): string =>
  text.replace(
    UNPRINTABLE,
    (character) =>
      SHORT[character] ?? `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`,
  )

/** Replaces each by one character, so that columns stay aligned. */
export const blankControls = (text: string): string => text.replace(UNPRINTABLE, ' ')
