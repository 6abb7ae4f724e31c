import { SESSION } from '@berth/shared'
import { describe, expect, test } from 'vitest'
import { WaitingLine } from '../grpc/waiting-line.ts'
import { Admission, type Admitted } from './admission.ts'

/** A line with a clock of its own; `served` has the names in the order of their turns. */
function lineOf({ width = 2, patienceMs = 1_000 } = {}) {
  let time = 0
  const line = new WaitingLine({ width, patienceMs, now: () => time })
  const served: string[] = []
  const ends = new Map<string, () => void>()
  const enter = (name: string, isReturned = false) =>
    line.enter(
      (end) => {
        served.push(name)
        ends.set(name, end)
      },
      { isReturned },
    )
  const end = (name: string, afterMs = 0): void => {
    time += afterMs
    ends.get(name)?.()
  }
  return { line, served, enter, end }
}

test('as many as it is wide are served at once, the others in the order in which they came', () => {
  const { line, served, enter, end } = lineOf()
  for (const name of ['a', 'b', 'c', 'd']) expect(enter(name).kind).toBe('entered')
  expect(served).toEqual(['a', 'b'])
  expect([line.busy, line.waiting]).toEqual([2, 2])
  end('b')
  end('b') // a turn ends once
  expect(served).toEqual(['a', 'b', 'c'])
  end('a')
  expect(served).toEqual(['a', 'b', 'c', 'd'])
  end('c')
  end('d')
  expect([line.busy, line.waiting]).toEqual([0, 0])
})

test('one that leaves has no turn', () => {
  const { line, served, enter, end } = lineOf({ width: 1 })
  enter('a')
  const b = enter('b')
  enter('c')
  if (b.kind === 'entered') b.leave()
  end('a')
  expect(served).toEqual(['a', 'c'])
  if (b.kind === 'entered') b.leave()
  expect(line.waiting).toBe(0)
})

test('who would wait longer than the patience is refused, with a time of its own', () => {
  const { enter, end, line } = lineOf({ width: 1, patienceMs: 1_000 })
  for (let n = 0; n < 60; n += 1) enter(`a${n}`)
  for (let n = 0; n < 50; n += 1) end(`a${n}`, 100) // it takes 100 ms for each
  expect(line.waitMs).toBeGreaterThan(800)
  enter('last')
  const refused = Array.from({ length: 30 }, () => enter('late')).filter(
    (entered) => entered.kind === 'refused',
  )
  const times = refused.map((entered) => (entered.kind === 'refused' ? entered.againMs : 0))
  expect(times.length).toBeGreaterThan(25)
  expect(times[0]).toBeGreaterThan(1_000)
  const gaps = times.slice(1).map((at, i) => at - (times[i] as number))
  expect(Math.min(...gaps)).toBeGreaterThan(90) // one after the other
  expect(Math.max(...gaps)).toBeLessThan(110)
})

test('who returns at the time it was given goes before others', () => {
  const { served, enter, end } = lineOf({ width: 1 })
  enter('a')
  enter('fresh')
  enter('returned', true)
  end('a')
  end('returned')
  expect(served).toEqual(['a', 'returned', 'fresh'])
})

test('who is refused again and again is not sent away for longer than a minute', () => {
  const { enter, end, line } = lineOf({ width: 1, patienceMs: 100 })
  for (let n = 0; n < 20; n += 1) enter(`a${n}`)
  for (let n = 0; n < 20; n += 1) end(`a${n}`, 50)
  enter('last')
  while (enter('more').kind === 'entered');
  const times = Array.from({ length: 10_000 }, () => {
    const entered = enter('late')
    return entered.kind === 'refused' ? entered.againMs : 0
  })
  expect(line.waiting).toBeLessThan(30)
  expect(Math.max(...times)).toBeGreaterThan(55_000)
  expect(Math.max(...times)).toBeLessThanOrEqual(60_000)
  // the times begin again, so that those above a minute do not all return together
  expect(times.filter((againMs) => againMs > 55_000).length).toBeLessThan(2_000)
})

describe('admission of agents', () => {
  /** One turn at once, which the agent `busy` has, and places in the line. */
  async function openAdmission(places = 1) {
    let time = 0
    const now = () => time
    const line = new WaitingLine({ width: 1, patienceMs: 5 * places - 1, now })
    const admission = new Admission(line, now)
    const order: string[] = []
    const enter = async (agentId: string, who = { agentId }): Promise<Admitted> => {
      const admitted = await admission.enter(who)
      if (admitted.kind === 'admitted') order.push(agentId)
      return admitted
    }
    const endTurn = async (of: Admitted | Promise<Admitted>): Promise<void> => {
      const admitted = await of
      if (admitted.kind !== 'admitted') throw new Error(`it has no turn: ${admitted.kind}`)
      admitted.end()
    }
    const pass = (ms: number): void => {
      time += ms
    }
    return { admission, line, busy: await enter('busy'), order, enter, endTurn, pass }
  }
  const timeOf = async (admitted: Promise<Admitted>): Promise<number> => {
    const answer = await admitted
    return answer.kind === 'later' ? answer.againMs : Number.NaN
  }

  test('one that was sent away is served first when it returns at its time', async () => {
    const { busy, order, enter, endTurn, pass } = await openAdmission()
    const second = enter('second')
    const againMs = await timeOf(enter('sent away'))
    expect(againMs).toBeGreaterThan(0)
    pass(againMs)
    const returned = enter('sent away')
    await endTurn(busy)
    await endTurn(returned)
    await endTurn(second)
    expect(order).toEqual(['busy', 'sent away', 'second'])
  })

  test('one that returns before its time hears the rest of it, and delays no one', async () => {
    const { enter, pass } = await openAdmission()
    void enter('second')
    let againMs = await timeOf(enter('sent away'))
    for (let n = 0; n < 2_000; n += 1) againMs = await timeOf(enter('sent away'))
    expect(againMs).toBeLessThan(100)
    expect(await timeOf(enter('another'))).toBeLessThan(100)
    pass(1)
    expect(await timeOf(enter('sent away'))).toBeLessThan(againMs)
  })

  test('an agent has one place: its newer Hello takes it, and the older one is gone', async () => {
    const { busy, order, enter, endTurn } = await openAdmission()
    const older = enter('one')
    const newer = enter('one')
    expect(await older).toEqual({ kind: 'gone' })
    await endTurn(busy)
    await endTurn(newer)
    expect(order).toEqual(['busy', 'one'])
  })

  test('a stream that ends leaves the line, and not the newer one of its agent', async () => {
    const { admission, line, busy, order, enter, endTurn } = await openAdmission(2)
    const former = { agentId: 'one' }
    const older = enter('one', former)
    const newer = enter('one')
    expect(await older).toEqual({ kind: 'gone' })
    admission.leave(former)
    const over = { agentId: 'over' }
    const left = enter('over', over)
    expect(line.waiting).toBe(2)
    admission.leave(over)
    expect(await left).toEqual({ kind: 'gone' })
    expect(line.waiting).toBe(1)
    await endTurn(busy)
    await endTurn(newer)
    expect(order).toEqual(['busy', 'one'])
  })

  test('a control plane that stops sends those in line elsewhere, and those who still come', async () => {
    const { admission, line, busy, order, enter, endTurn } = await openAdmission(2)
    const waiting = [enter('one'), enter('two')]
    admission.stop()
    for (const one of [...waiting, enter('three')]) {
      const againMs = await timeOf(one)
      expect(againMs).toBeGreaterThanOrEqual(1)
      expect(againMs).toBeLessThanOrEqual((2 / SESSION.sessionsPerSecond) * 1_000)
    }
    await endTurn(busy)
    expect([order, line.waiting]).toEqual([['busy'], 0])
  })
})
