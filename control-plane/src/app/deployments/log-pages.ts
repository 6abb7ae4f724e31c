// Parts of a task's log for readers: a range of lines, and the lines that contain a text or look like an error. Every
// answer is bounded and says where to continue.

import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { holdsText, isErrorLine, LineSearch } from '../../domain/deployments/log-search.ts'
import { LOG_PAGES } from '../../limits/browser.ts'
import { type LiveLine, LogReader } from './log-reader.ts'
import { type LogView, openTaskLog } from './logs.ts'

interface LogPage {
  view: LogView
  lines: LiveLine[]
  /** The first requested line that did not fit; null if all fit. */
  nextLine: number | null
}

/** The last line that a record reaches: most records hold one line, some several. */
const lastLineOf = ({ n, text }: LiveLine): number =>
  n + Math.max(0, text.split('\n').length - (text.endsWith('\n') ? 2 : 1))

/** Lines `from` to `to`, both included. A line may come in several pieces with the same number. */
export async function readLogLines(
  ctx: Context,
  caller: Caller,
  taskId: number,
  asked: { from: number; to: number },
): Promise<LogPage> {
  const view = await openTaskLog(ctx, caller, taskId)
  const { attempt } = view
  const to = Math.min(asked.to, asked.from + LOG_PAGES.lines - 1)
  const lines: LiveLine[] = []
  if (!attempt) return { view, lines, nextLine: null }
  const first = await ctx.logs.findLine(attempt.id, asked.from, attempt.ackedLogSeq)
  let bytes = 0
  // start one record earlier, because it may reach into the first line
  const read = new LogReader(ctx, attempt.id).read(view, Math.max(0, first - 1))
  for await (const { lines: some } of read) {
    for (const line of some) {
      if (lastLineOf(line) < asked.from) continue
      if (line.n > to) return { view, lines, nextLine: isAsked(to, asked, view) }
      // never stop within a line, because its pieces belong together
      if (bytes >= LOG_PAGES.bytes && line.n > (lines.at(-1)?.n ?? 0)) {
        return { view, lines, nextLine: line.n }
      }
      lines.push(line)
      bytes += line.text.length
    }
  }
  return { view, lines, nextLine: isAsked(to, asked, view) }
}

function isAsked(to: number, asked: { to: number }, view: LogView): number | null {
  return to < asked.to && to < (view.attempt?.logLines ?? 0) ? to + 1 : null
}

export interface LogSearch {
  view: LogView
  /** Line numbers, ascending. */
  found: readonly number[]
  /** Of the first of them, for a page that has not loaded those lines. */
  texts: readonly string[]
  /** Where the next search begins; null if the log was searched to its end. */
  nextLine: number | null
}

/** Without a query, finds lines that look like errors. */
export async function searchLog(
  ctx: Context,
  caller: Caller,
  taskId: number,
  asked: {
    query?: string | undefined
    isCaseSensitive?: boolean | undefined
    fromLine?: number | undefined
  },
): Promise<LogSearch> {
  await ctx.quotas.narrow.searches.take(`user ${caller.userId}`)
  const view = await openTaskLog(ctx, caller, taskId)
  const { attempt } = view
  if (!attempt) return { view, found: [], texts: [], nextLine: null }
  const { query, isCaseSensitive = false, fromLine = 1 } = asked
  const isWanted = query === undefined ? isErrorLine : holdsText(query, isCaseSensitive)
  const { searchBytes, ...bounds } = LOG_PAGES
  const search = new LineSearch(isWanted, {
    ...bounds,
    fromLine,
    lineChars: LOG_PAGES.foundLineChars,
    chars: LOG_PAGES.foundChars,
  })
  const { found, texts } = search
  let bytes = 0
  for await (const piece of ctx.logs.read(attempt.id, 0, attempt.logBytes)) {
    search.add(piece)
    // bytes before the first line do not count against the limit
    if (search.line >= fromLine) bytes += piece.length
    if (search.isFull || bytes >= searchBytes) {
      const isWhole = search.line > attempt.logLines
      return { view, found, texts, nextLine: isWhole ? null : search.line }
    }
  }
  search.finish()
  return { view, found, texts, nextLine: null }
}
