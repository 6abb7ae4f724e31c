// The checker accepts a good history and catches each way in which a build may be broken.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type Expectations, judge, type Rule } from './checker.ts'
import { HistoryWriter, type NewOp, type Op, readHistory } from './history.ts'

const strict: Expectations = { allRun: true, resets: false, closed: true }

/** Two deployments of environment 1; the first was requested twice because an answer was lost. */
const GOOD: NewOp[] = [
  { f: 'begun', type: 'info', reader: 'r', seq: 0 },
  { f: 'deploy', type: 'invoke', key: 'a', environment: 1 },
  { f: 'deploy', type: 'info', key: 'a', environment: 1 },
  { f: 'deploy', type: 'invoke', key: 'a', environment: 1 },
  { f: 'deploy', type: 'ok', key: 'a', environment: 1, task: 10 },
  { f: 'run', type: 'invoke', environment: 1, task: 10, attempt: 'x', fence: 1 },
  { f: 'event', type: 'ok', reader: 'r', seq: 1, kind: 'task.running', task: 10 },
  { f: 'run', type: 'ok', environment: 1, task: 10, attempt: 'x', fence: 1 },
  { f: 'event', type: 'ok', reader: 'r', seq: 3, kind: 'task.succeeded', task: 10 },
  { f: 'notice', type: 'ok', id: 'n1', task: 10, about: 'deployment.succeeded' },
  { f: 'notice', type: 'ok', id: 'n1', task: 10, about: 'deployment.succeeded' },
  { f: 'deploy', type: 'invoke', key: 'b', environment: 1 },
  { f: 'deploy', type: 'ok', key: 'b', environment: 1, task: 11 },
  { f: 'resume', type: 'info', reader: 'r', after: 3 },
  { f: 'run', type: 'invoke', environment: 1, task: 11, attempt: 'y', fence: 2 },
  { f: 'bytes', type: 'ok', reader: 'l', task: 11, from: 0, length: 5 },
  { f: 'bytes', type: 'ok', reader: 'l', task: 11, from: 5, length: 7 },
  { f: 'run', type: 'fail', environment: 1, task: 11, attempt: 'y', fence: 2 },
  { f: 'event', type: 'ok', reader: 'r', seq: 4, kind: 'task.failed', task: 11 },
  { f: 'notice', type: 'ok', id: 'n2', task: 11, about: 'deployment.failed' },
  { f: 'written', type: 'ok', task: 10, digest: 'd' },
  { f: 'assigned', type: 'ok', environment: 1, task: 10, attempt: 'x', fence: 1, number: 1 },
  { f: 'assigned', type: 'ok', environment: 1, task: 11, attempt: 'y', fence: 2, number: 1 },
  { f: 'task', type: 'ok', environment: 1, task: 10, status: 'succeeded', logDigest: 'd' },
  { f: 'task', type: 'ok', environment: 1, task: 11, status: 'failed' },
  { f: 'stored', type: 'ok', seq: 1, kind: 'task.running', task: 10 },
  { f: 'stored', type: 'ok', seq: 3, kind: 'task.succeeded', task: 10 },
  { f: 'stored', type: 'ok', seq: 4, kind: 'task.failed', task: 11 },
]

const timed = (ops: readonly NewOp[]): Op[] =>
  ops.map((op, t) => ({ t, process: 'test', ...op }) as Op)
const rulesOf = (ops: readonly NewOp[], how = strict): Rule[] => [
  ...new Set(judge(timed(ops), how).violations.map(({ rule }) => rule)),
]
const at = (f: Op['f'], n = 0): number => GOOD.indexOf(GOOD.filter((op) => op.f === f)[n] as NewOp)
const without = (...indices: number[]): NewOp[] => GOOD.filter((_, i) => !indices.includes(i))
const changed = (index: number, over: object): NewOp[] =>
  GOOD.map((op, i) => (i === index ? ({ ...op, ...over } as NewOp) : op))

test('a good history has no violation, and everything in it was judged', () => {
  const { violations, counts } = judge(timed(GOOD), strict)
  expect(violations).toEqual([])
  expect(counts).toEqual({
    deployments: 2,
    runs: 2,
    fences: 2,
    verdicts: 2,
    events: 3,
    readers: 1,
    logs: 1,
    notices: 3,
  })
})

test('two attempts at once, also one that never ended, and a second start', () => {
  const early = GOOD.toSpliced(at('run', 0) + 1, 0, GOOD[at('run', 2)] as NewOp)
  expect(rulesOf(early.toSpliced(early.lastIndexOf(GOOD[at('run', 2)] as NewOp), 1))).toEqual([
    'one attempt at a time',
  ])
  expect(rulesOf(without(at('run', 1)))).toEqual([
    'one attempt at a time',
    'verdicts are what the application recorded',
  ])
  const killed = changed(at('run', 1), { type: 'info' })
  expect(rulesOf(killed)).toEqual(['verdicts are what the application recorded'])
  const twice = GOOD.toSpliced(at('run', 0), 0, GOOD[at('run', 0)] as NewOp)
  expect(rulesOf(twice)).toEqual(['one start of an attempt'])
})

test('a fence that falls or repeats, in what ran and in the table', () => {
  const ran = GOOD.map((op) => (op.f === 'run' && op.task === 11 ? { ...op, fence: 1 } : op))
  expect(rulesOf(ran)).toEqual(['fences rise'])
  expect(rulesOf(changed(at('assigned', 1), { fence: 0 }))).toEqual(['fences rise'])
})

test('a forgotten deployment, a request with two, and a task without a request', () => {
  const gone = rulesOf(without(at('task', 1), at('assigned', 1)))
  expect(gone).toContain('acknowledged deployments are present')
  const second: NewOp = { f: 'task', type: 'ok', environment: 1, task: 12, status: 'canceled' }
  expect(rulesOf([...GOOD, second])).toEqual(['one deployment for a request'])
  expect(rulesOf([...GOOD, second], { ...strict, closed: false })).toEqual([])
  const open: NewOp = { f: 'deploy', type: 'invoke', key: 'c', environment: 1 }
  expect(rulesOf([...GOOD, open, second])).toEqual([])
  const refused: NewOp = { f: 'deploy', type: 'fail', key: 'c', environment: 1 }
  expect(rulesOf([...GOOD, open, refused, second])).toEqual(['one deployment for a request'])
  const other: NewOp = { f: 'deploy', type: 'ok', key: 'a', environment: 1, task: 11 }
  expect(rulesOf([...GOOD, other])).toEqual(['one deployment for a request'])
})

test('a verdict that the application contradicts, and a task that never ends', () => {
  const rule = ['verdicts are what the application recorded']
  expect(rulesOf(changed(at('task', 1), { status: 'succeeded' }))).toEqual(rule)
  expect(rulesOf(changed(at('task', 0), { status: 'failed' }))).toEqual(rule)
  expect(rulesOf(changed(at('task', 1), { status: 'running' }))).toEqual(rule)
  const lost = without(at('run', 2), at('run', 3))
  expect(rulesOf(lost)).toEqual(rule)
  expect(rulesOf(lost, { ...strict, allRun: false })).toEqual([])
})

test('an event that is gone or changed, a gap, a repetition, and a reset', () => {
  const gap = 'readers have no gap and no repetition'
  expect(rulesOf(without(at('stored', 1)))).toEqual(['received events are present'])
  expect(rulesOf(changed(at('stored', 1), { kind: 'task.queued' }))).toEqual([
    'received events are present',
  ])
  expect(rulesOf(without(at('event', 1)))).toEqual([gap])
  expect(rulesOf(without(at('event', 0)))).toEqual([gap])
  expect(rulesOf([...GOOD, GOOD[at('event', 1)] as NewOp])).toEqual([gap])
  const few = { stream: 'public', seq: 3, kind: 'x' }
  const seen: NewOp = { f: 'event', type: 'ok', reader: 'p', ...few }
  expect(rulesOf([...GOOD, seen, { f: 'stored', type: 'ok', ...few }])).toEqual([])
  const reset: NewOp = { f: 'reset', type: 'info', reader: 'r', seq: 4 }
  expect(rulesOf([...without(at('event', 1)), reset])).toEqual([gap])
  expect(rulesOf([...without(at('event', 1)), reset], { ...strict, resets: true })).toEqual([])
  expect(rulesOf(changed(at('bytes', 1), { from: 6 }))).toEqual([gap])
  expect(rulesOf(changed(at('bytes', 1), { from: 4 }))).toEqual([gap])
})

test('a log with other bytes, a missing notice, and one under two ids', () => {
  expect(rulesOf(changed(at('task', 0), { logDigest: 'e' }))).toEqual([
    'logs are what the application wrote',
  ])
  const followed: NewOp = { f: 'followed', type: 'ok', reader: 'l', task: 10, digest: 'd' }
  expect(rulesOf([...GOOD, followed])).toEqual([])
  expect(rulesOf([...GOOD, { ...followed, digest: 'e' }])).toEqual([
    'logs are what the application wrote',
  ])
  expect(rulesOf(without(at('notice', 2)))).toEqual(['one notice for each end'])
  expect(rulesOf(changed(at('notice', 1), { id: 'n9' }))).toEqual(['one notice for each end'])
})

test('a history of several writers is read from its file', () => {
  const folder = mkdtempSync(join(tmpdir(), 'berth-history-'))
  try {
    const file = join(folder, 'history.jsonl')
    const writers = ['a', 'b'].map((name) => new HistoryWriter(file, name))
    for (const [i, op] of GOOD.entries()) writers[i % 2]?.add(op, i)
    const read = readHistory(file)
    expect(read).toHaveLength(GOOD.length)
    expect(read[1]).toEqual({ t: 1, process: 'b', ...GOOD[1] })
    expect(judge(read, strict).violations).toEqual([])
  } finally {
    rmSync(folder, { recursive: true })
  }
})
