// PURE. Judges a history (history.ts): per environment at most one attempt runs, fences rise, and what was
// acknowledged or received is there at the end, once. It knows nothing of how Berth works, only what it promises.
import type { DeployOp, EventOp, NoticeOp, Op, PositionOp, RunOp } from './history.ts'

export type Rule =
  | 'one attempt at a time'
  | 'one start of an attempt'
  | 'fences rise'
  | 'acknowledged deployments are present'
  | 'one deployment for a request'
  | 'verdicts are what the application recorded'
  | 'received events are present'
  | 'readers have no gap and no repetition'
  | 'logs are what the application wrote'
  | 'one notice for each end'

export interface Violation {
  rule: Rule
  text: string
}

export interface Judgement {
  violations: Violation[]
  /** What was judged; a rule without material proves nothing. */
  counts: Record<
    'deployments' | 'runs' | 'fences' | 'verdicts' | 'events' | 'readers' | 'logs' | 'notices',
    number
  >
}

export interface Expectations {
  /** Each acknowledged deployment must run and succeed unless its application failed. */
  allRun: boolean
  /** A reader may be told that its position is unknown, as after the loss of events. */
  resets: boolean
  /** Deployments of all requests are in the history, so any other task is a violation. */
  closed: boolean
}

type Kind<F extends Op['f']> = Extract<Op, { f: F }>
type Report = (rule: Rule, text: string) => void

const FINAL = new Set(['succeeded', 'failed', 'canceled'])

const pick = <F extends Op['f']>(ops: readonly Op[], ...f: F[]): Kind<F>[] =>
  ops.filter((op): op is Kind<F> => (f as string[]).includes(op.f))

function groupBy<T, K>(list: readonly T[], keyOf: (one: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>()
  for (const one of list) {
    const group = groups.get(keyOf(one))
    if (group) group.push(one)
    else groups.set(keyOf(one), [one])
  }
  return groups
}

interface Run {
  environment: number
  task: number
  attempt: string
  fence: number | undefined
  from: number
  to: number
  end: RunOp['type'] | undefined
}

/** A run without an end counts as running until the end of the history. */
function runsOf(ops: readonly RunOp[], report: Report): Run[] {
  const runs: Run[] = []
  for (const [attempt, own] of groupBy(ops, (op) => op.attempt)) {
    const starts = own.filter(({ type }) => type === 'invoke')
    const ends = own.filter(({ type }) => type !== 'invoke').sort((a, b) => a.t - b.t)
    if (starts.length > 1) {
      report('one start of an attempt', `attempt ${attempt} was started ${starts.length} times`)
    }
    const first = starts[0]
    const end = ends.at(-1)
    if (!first) {
      if (end) report('one start of an attempt', `attempt ${attempt} ended and never began`)
      continue
    }
    runs.push({
      ...first,
      fence: own.find(({ fence }) => fence !== undefined)?.fence,
      from: Math.min(...starts.map(({ t }) => t)),
      to: end ? end.t : Number.POSITIVE_INFINITY,
      end: end?.type,
    })
  }
  return runs
}

function judgeRuns(runs: readonly Run[], report: Report): void {
  for (const [environment, own] of groupBy(runs, (run) => run.environment)) {
    const inOrder = own.toSorted((a, b) => a.from - b.from)
    let last: Run | undefined
    for (const run of inOrder) {
      if (last && run.from < last.to) {
        const both = `${last.attempt} and ${run.attempt}`
        report('one attempt at a time', `environment ${environment}: ${both} ran together`)
      }
      if (!last || run.to > last.to) last = run
    }
    const numbered = inOrder.filter(({ fence }) => fence !== undefined)
    for (const [i, run] of numbered.entries()) {
      const before = numbered[i - 1]
      if (before && (run.fence as number) <= (before.fence as number)) {
        const text = `${run.attempt} ran with fence ${run.fence} after ${before.fence}`
        report('fences rise', `environment ${environment}: ${text}`)
      }
    }
  }
}

/** Tasks and their attempts are numbered in the order in which they were made. */
function judgeFences(assigned: readonly Kind<'assigned'>[], report: Report): void {
  for (const [environment, own] of groupBy(assigned, (op) => op.environment)) {
    const inOrder = own.toSorted((a, b) => a.task - b.task || a.number - b.number)
    for (const [i, { fence, attempt }] of inOrder.entries()) {
      const before = inOrder[i - 1]
      if (before && fence <= before.fence) {
        const text = `${attempt} got fence ${fence} after ${before.fence}`
        report('fences rise', `environment ${environment}: ${text}`)
      }
    }
  }
}

/** Returns the acknowledged tasks. */
function judgeRequests(
  deploys: readonly DeployOp[],
  tasks: ReadonlyMap<number, Kind<'task'>>,
  closed: boolean,
  report: Report,
): Set<number> {
  const acknowledged = new Set<number>()
  const unknown = new Map<number, number>() // environment -> requests that may have made a task
  for (const [key, own] of groupBy(deploys, (op) => op.key)) {
    const made = new Set(own.flatMap(({ type, task }) => (type === 'ok' && task ? [task] : [])))
    if (made.size > 1) {
      report('one deployment for a request', `request ${key} made tasks ${[...made].join(', ')}`)
    }
    for (const task of made) {
      if (acknowledged.has(task)) {
        report('one deployment for a request', `task ${task} answers several requests`)
      }
      acknowledged.add(task)
      if (!tasks.has(task)) {
        const text = `task ${task} was acknowledged and is gone`
        report('acknowledged deployments are present', text)
      }
    }
    const environment = own[0]?.environment ?? 0
    const isRefused = own.some(({ type }) => type === 'fail')
    const isOpen = own.some(({ type }) => type === 'invoke') && !isRefused && made.size === 0
    if (isOpen) unknown.set(environment, (unknown.get(environment) ?? 0) + 1)
  }
  if (!closed) return acknowledged
  for (const { task, environment } of tasks.values()) {
    if (acknowledged.has(task)) continue
    const left = unknown.get(environment) ?? 0
    if (left === 0) report('one deployment for a request', `task ${task} answers no request`)
    else unknown.set(environment, left - 1)
  }
  return acknowledged
}

function judgeVerdicts(
  tasks: ReadonlyMap<number, Kind<'task'>>,
  runs: readonly Run[],
  mustRun: ReadonlySet<number>,
  report: Report,
): number {
  const rule = 'verdicts are what the application recorded'
  const byTask = groupBy(runs, (run) => run.task)
  for (const { task, status, environment } of tasks.values()) {
    const own = byTask.get(task) ?? []
    const last = own.toSorted((a, b) => a.from - b.from).at(-1)
    if (last && last.environment !== environment) {
      report(rule, `task ${task} of environment ${environment} ran in ${last.environment}`)
    }
    if (!FINAL.has(status)) report(rule, `task ${task} has not ended: ${status}`)
    else if (status === 'succeeded' && last?.end !== 'ok') {
      report(rule, `task ${task} succeeded, and its application ${last?.end ?? 'never ran'}`)
    } else if (status !== 'succeeded' && last?.end === 'ok') {
      report(rule, `task ${task} is ${status}, and its application ended well`)
    } else if (status !== 'succeeded' && last?.end !== 'fail' && mustRun.has(task)) {
      report(rule, `task ${task} is ${status} without a failure of its application`)
    }
    const good = own.filter(({ end }) => end === 'ok').length
    if (good > 1) report(rule, `task ${task} was performed ${good} times`)
  }
  for (const task of byTask.keys()) {
    if (!tasks.has(task)) report(rule, `task ${task} ran and is not in the table`)
  }
  return tasks.size
}

function judgeEvents(
  events: readonly EventOp[],
  positions: readonly PositionOp[],
  stored: readonly Kind<'stored'>[],
  resets: boolean,
  report: Report,
): number {
  const tables = new Map(
    [...groupBy(stored, ({ stream }) => stream)].map(([stream, rows]) => [
      stream,
      new Map(rows.map((event) => [event.seq, event])),
    ]),
  )
  const readers = new Set([...events, ...positions].map(({ reader }) => reader))
  const byReader = groupBy(events, ({ reader }) => reader)
  const positionsOf = groupBy(positions, ({ reader }) => reader)
  for (const reader of readers) {
    let isReset = false
    for (const position of positionsOf.get(reader) ?? []) {
      if (position.f !== 'reset') continue
      isReset = true
      const text = `${reader} was told to begin again at ${position.seq}`
      if (!resets) report('readers have no gap and no repetition', text)
    }
    const own = byReader.get(reader) ?? []
    const table: ReadonlyMap<number, Kind<'stored'>> = tables.get(own[0]?.stream) ?? new Map()
    const inOrder = [...table.keys()].toSorted((a, b) => a - b)
    const seen = new Set<number>()
    for (const { seq, kind, task } of own) {
      const gap = 'readers have no gap and no repetition'
      if (seen.has(seq) && !isReset) report(gap, `${reader} received event ${seq} twice`)
      seen.add(seq)
      const row = table.get(seq)
      if (!row && !resets) report('received events are present', `event ${seq} is gone (${reader})`)
      const isOther = row && (row.kind !== kind || (row.task ?? null) !== (task ?? null))
      if (isOther && !resets) {
        report('received events are present', `event ${seq} was ${kind}, and is ${row.kind}`)
      }
    }
    if (isReset || own.length === 0) continue
    const begun = positionsOf.get(reader)?.find(({ f }) => f === 'begun')?.seq
    const from = begun ?? Math.min(...seen) - 1
    const to = Math.max(...seen)
    const missed = inOrder.filter((seq) => seq > from && seq <= to && !seen.has(seq))
    if (missed.length > 0) {
      const text = `${reader} missed ${missed.length} events, the first is ${missed[0]}`
      report('readers have no gap and no repetition', text)
    }
  }
  return readers.size
}

/** Output arrives as ranges of bytes; together they must be gapless from their first. */
function judgeBytes(bytes: readonly Kind<'bytes'>[], report: Report): void {
  for (const [name, own] of groupBy(bytes, ({ reader, task }) => `${reader} of task ${task}`)) {
    let at: number | undefined
    for (const { from, length } of own.toSorted((a, b) => a.t - b.t || a.from - b.from)) {
      if (at !== undefined && from !== at) {
        const text = `${name} got bytes from ${from} instead of ${at}`
        report('readers have no gap and no repetition', text)
      }
      at = from + length
    }
  }
}

function judgeNotices(
  notices: readonly NoticeOp[],
  tasks: ReadonlyMap<number, Kind<'task'>>,
  report: Report,
): void {
  if (notices.length === 0) return
  const byTask = groupBy(notices, ({ task }) => task)
  for (const { task, status } of tasks.values()) {
    const ids = new Set((byTask.get(task) ?? []).map(({ id }) => id))
    if (ids.size === 0 && status !== 'canceled') {
      report('one notice for each end', `nothing was heard of task ${task} (${status})`)
    } else if (ids.size > 1) {
      report('one notice for each end', `task ${task} was told under ${ids.size} ids`)
    }
  }
}

function judgeLogs(
  tasks: ReadonlyMap<number, Kind<'task'>>,
  written: readonly Kind<'written'>[],
  followed: readonly Kind<'followed'>[],
  report: Report,
): number {
  const digests = new Map(written.map(({ task, digest }) => [task, digest]))
  let judged = 0
  for (const { task, digest, reader } of followed) {
    if (digests.get(task) === digest) continue
    const text = `${reader} has another log of task ${task} than its application wrote`
    report('logs are what the application wrote', text)
  }
  for (const { task, logDigest, status } of tasks.values()) {
    if (logDigest === undefined || status !== 'succeeded') continue
    judged += 1
    if (digests.get(task) === logDigest) continue
    const text = `the log of task ${task} is not what its application wrote`
    report('logs are what the application wrote', text)
  }
  return judged
}

export function judge(ops: readonly Op[], expect: Expectations): Judgement {
  const violations: Violation[] = []
  const report: Report = (rule, text) => void violations.push({ rule, text })
  const tasks = new Map(pick(ops, 'task').map((op) => [op.task, op]))
  const runs = runsOf(pick(ops, 'run'), report)
  judgeRuns(runs, report)
  const assigned = pick(ops, 'assigned')
  judgeFences(assigned, report)
  const acknowledged = judgeRequests(pick(ops, 'deploy'), tasks, expect.closed, report)
  const mustRun = expect.allRun ? acknowledged : new Set<number>()
  const verdicts = judgeVerdicts(tasks, runs, mustRun, report)
  const events = pick(ops, 'event')
  const positions = pick(ops, 'resume', 'begun', 'reset') as PositionOp[]
  const readers = judgeEvents(events, positions, pick(ops, 'stored'), expect.resets, report)
  judgeBytes(pick(ops, 'bytes'), report)
  const notices = pick(ops, 'notice')
  judgeNotices(notices, tasks, report)
  const logs = judgeLogs(tasks, pick(ops, 'written'), pick(ops, 'followed'), report)
  return {
    violations,
    counts: {
      deployments: acknowledged.size,
      runs: runs.length,
      fences: assigned.length,
      verdicts,
      events: events.length,
      readers,
      logs,
      notices: notices.length,
    },
  }
}
