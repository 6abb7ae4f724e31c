// How a running task looks: a block of phases for terminals, one line per event elsewhere. Pure: takes a task, returns
// lines. Cleans all text that came from the server.
import type { StepStatus, TaskStatus } from '@berth/shared'
import type { Phase, Step, Task } from '@berth/shared/api'
import { formatDuration, formatStepDuration, shortCommit } from '../terminal/format.ts'
import type { Paint, Style } from '../terminal/terminal.ts'
import { cleanText, cutText, padText, textWidth } from '../terminal/text.ts'
import { spinnerFrame } from './live.ts'

type Status = StepStatus | TaskStatus
const MARKS: Record<Status, readonly [string, Style | undefined]> = {
  pending: ['·', 'dim'],
  queued: ['·', 'yellow'],
  running: ['▸', 'cyan'],
  succeeded: ['✓', 'green'],
  failed: ['✗', 'red'],
  skipped: ['–', 'dim'],
  canceled: ['–', 'yellow'],
}

export const statusMark = (status: Status): string => MARKS[status][0]
export const statusStyle = (status: Status): Style | undefined => MARKS[status][1]

const paintMark = (status: Status, paint: Paint, frame?: number): string =>
  paint(
    statusStyle(status),
    status === 'running' && frame !== undefined ? spinnerFrame(frame) : statusMark(status),
  )

const phasesOf = (task: Task): readonly Phase[] => task.phases ?? []

/** The measured time, or the time since the start while it runs. */
function elapsedMs(part: Phase | Step, serverNow: number): number | null {
  if (part.duration_ms !== null) return part.duration_ms
  if (part.status !== 'running' || part.started_at === null) return null
  return Math.max(0, serverNow - Date.parse(part.started_at))
}

function partLine(
  part: Phase | Step,
  indent: string,
  note: string,
  at: { serverNow: number; frame: number; width: number; paint: Paint },
): string {
  const ms = elapsedMs(part, at.serverNow)
  const time = ms === null ? '' : formatStepDuration(ms)
  const title = padText(cleanText(part.title), 15 - indent.length)
  const text = `${title} ${padText(time, 7)} ${cleanText(note)}`.trimEnd()
  const mark = paintMark(part.status, at.paint, at.frame)
  return `${indent}${mark} ${cutText(text, at.width - indent.length - 2)}`
}

/** The last line that a step wrote, by its name. */
type LastLine = (step: string) => string | undefined

/** The block that is redrawn while a task runs. */
export function blockLines(
  task: Task,
  at: { serverNow: number; frame: number; width: number; paint: Paint; lastLine?: LastLine },
): string[] {
  const lines: string[] = []
  const pending: string[] = []
  for (const phase of phasesOf(task)) {
    if (phase.status === 'pending') {
      pending.push(`${statusMark('pending')} ${cleanText(phase.title)}`)
      continue
    }
    const isOpen = phase.status === 'running'
    const count = phase.steps.length
    lines.push(partLine(phase, '', isOpen && count > 1 ? `${count} steps` : '', at))
    if (!isOpen) continue
    for (const step of phase.steps) {
      if (step.status === 'pending') continue
      const isRunning = step.status === 'running'
      const last = isRunning ? (at.lastLine?.(step.name) ?? step.message) : null
      if (count > 1 || step.message !== null || last !== null) {
        lines.push(partLine(step, '  ', last ?? '', at))
      }
    }
  }
  if (task.status === 'queued') {
    const reason = task.waiting_for ? `: ${cleanText(task.waiting_for.message)}` : ''
    lines.push(
      `${paintMark('running', at.paint, at.frame)} ${cutText(`Queued${reason}`, at.width - 2)}`,
    )
  }
  if (task.status === 'running' && task.waiting_for) {
    const text = cutText(cleanText(task.waiting_for.message), at.width - 2)
    lines.push(`${paintMark('running', at.paint, at.frame)} ${text}`)
  }
  if (task.unreachable_since !== null) {
    const text = `! The server has been unreachable since ${task.unreachable_since}`
    lines.push(at.paint('yellow', cutText(text, at.width)))
  }
  if (pending.length > 0) lines.push(at.paint('dim', cutText(pending.join('  '), at.width)))
  return lines
}

/** "✓ Check out 1.8s  ✗ Build 29.9s", in as many lines as the width requires. */
export function summaryLines(task: Task, width: number, paint: Paint): string[] {
  const lines: string[] = []
  let line = ''
  let used = 0
  for (const phase of phasesOf(task)) {
    if (phase.status === 'pending' || phase.status === 'skipped') continue
    const time = phase.duration_ms === null ? '' : ` ${formatStepDuration(phase.duration_ms)}`
    const text = `${cleanText(phase.title)}${time}`
    const needed = textWidth(text) + 2
    if (line !== '' && used + 2 + needed > width) {
      lines.push(line)
      line = ''
      used = 0
    }
    line += `${line === '' ? '' : '  '}${paintMark(phase.status, paint)} ${text}`
    used += needed + (used === 0 ? 0 : 2)
  }
  return line === '' ? lines : [...lines, line]
}

export interface TaskEvent {
  text: string
  /** The phase that begins or ends here, for CI systems that fold their logs. */
  opens?: Phase
  closes?: Phase
}

const endedText = (phase: Phase): string => {
  const time = phase.duration_ms === null ? '' : ` ${formatStepDuration(phase.duration_ms)}`
  const failed = phase.steps.find((step) => step.status === 'failed')
  const code = failed && failed.exit_code !== null ? ` (exit code ${failed.exit_code})` : ''
  const where = failed ? ` in "${failed.title}"${code}` : ''
  return cleanText(`${phase.name}  ${phase.status}${time}${where}`)
}

function phaseEvents(before: Phase | undefined, after: Phase): TaskEvent[] {
  const hadStarted = before !== undefined && before.status !== 'pending'
  const hadEnded = hadStarted && before.status !== 'running'
  if (after.status === 'pending' || hadEnded) return []
  if (after.status === 'skipped') return []
  const events: TaskEvent[] = []
  if (!hadStarted) events.push({ text: cleanText(`${after.name}  started`), opens: after })
  if (after.status !== 'running') events.push({ text: endedText(after), closes: after })
  return events
}

/** What runs now, for a line from time to time: 'build: web, 2m10s: #11 RUN npm ci'. */
export function describeStill(task: Task, serverNow: number, lastLine: LastLine): string {
  if (task.status === 'queued') return `task ${task.id} is still queued`
  const phase = phasesOf(task).find(({ status }) => status === 'running')
  if (!phase) return `task ${task.id} is still running`
  const steps = phase.steps.filter(({ status }) => status === 'running')
  const shown = steps.map((step) => {
    const ms = elapsedMs(step, serverNow)
    const time = ms === null ? '' : `, ${formatDuration(ms)}`
    const last = lastLine(step.name) ?? step.message
    return `${step.title}${time}${last === null ? '' : `: ${last}`}`
  })
  return cutText(cleanText(`still in ${phase.name}  ${shown.join('; ')}`.trimEnd()), 300)
}

/** What happened between two states of a task; `before` is null for the first one seen. */
export function describeChanges(before: Task | null, after: Task, target: string): TaskEvent[] {
  const events: TaskEvent[] = []
  if (before === null) {
    const commit = after.commit_sha === null ? '' : ` ${shortCommit(after.commit_sha)}`
    const action = after.action === null ? '' : ` ${after.action}`
    const text = `task ${after.id} ${after.status}  ${target}${action}${commit}`
    events.push({ text: cleanText(text) })
  }
  const waiting = after.waiting_for?.message
  if (waiting && waiting !== before?.waiting_for?.message) {
    events.push({ text: cleanText(`task ${after.id} waits: ${waiting}`) })
  }
  const known = new Map((before ? phasesOf(before) : []).map((phase) => [phase.name, phase]))
  for (const phase of phasesOf(after)) events.push(...phaseEvents(known.get(phase.name), phase))
  if (after.unreachable_since !== null && !before?.unreachable_since) {
    events.push({ text: `the server is unreachable since ${after.unreachable_since}` })
  }
  if (after.cancel_requested_at !== null && !before?.cancel_requested_at) {
    events.push({ text: `task ${after.id} is asked to stop` })
  }
  return events
}
