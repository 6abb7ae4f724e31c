// Turns the records of a log into lines. A record may be a piece of a line, several lines, or the next version of a
// line that a program rewrites (a progress bar); then it replaces the previous record of its source. Records arrive in
// order; each call passes on the lines it changed. PURE.

export interface LogRecord {
  n: number
  t: string
  s: string
  phase: string | null
  step: string | null
  text: string
  replaces?: true | undefined
}

export interface Line {
  n: number
  t: number
  s: string
  step: string | null
  text: string
}

/** A carriage return within a line begins its next version; only the last version is visible. */
export function folded(text: string): string {
  if (!text.includes('\r')) return text
  return text.split('\r').findLast((version) => version !== '') ?? ''
}

export function createAssembler(put: (line: Line) => void): (record: LogRecord) => void {
  let n = 0
  let pieces: { s: string; text: string }[] = []
  const add = (at: number, text: string, record: LogRecord): void => {
    if (at !== n) {
      n = at
      pieces = []
    }
    const before = record.replaces ? pieces.findLastIndex((p) => p.s === record.s) : -1
    if (before >= 0) pieces[before] = { s: record.s, text }
    else pieces.push({ s: record.s, text })
    const whole = pieces.length === 1 ? text : pieces.map((p) => p.text).join('')
    const s = pieces[0]?.s ?? record.s
    put({ n, t: Date.parse(record.t), s, step: record.step, text: folded(whole) })
  }
  return (record) => {
    const { text } = record
    let from = 0
    for (let at = record.n; from < text.length; at++) {
      const end = text.indexOf('\n', from)
      add(at, end < 0 ? text.slice(from) : text.slice(from, end), record)
      if (end < 0) return
      from = end + 1
    }
  }
}
