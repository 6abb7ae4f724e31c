import { expect, test } from 'vitest'
import { WaitingLine } from '../grpc/waiting-line.ts'
import { Admission } from './admission.ts'

/** A line with a clock of its own; `served` has the names in the order of their turns. */
function lineOf({ width = 2, patienceMs = 1_000 } = {}) {
  let time = 0
  const line = new WaitingLine({ width, patienceMs, now: () => time })
  const served: string[] = []
  const ends = new Map<string, () => void>()
  const enter = (name: string, isReturned = false) =>
    line.enter((end) => {
      served.push(name)
      ends.set(name, end)
    }, isReturned)
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

test('an agent that was sent away is served first when it is back', async () => {
  const line = new WaitingLine({ width: 1, patienceMs: 8 })
  const admission = new Admission(line)
  const first = await admission.enter('first')
  const order: string[] = []
  const enter = async (agent: string): Promise<string> => {
    const admitted = await admission.enter(agent)
    if (admitted.kind === 'later') return 'later'
    order.push(agent)
    admitted.end()
    return 'admitted'
  }
  const waiting = [enter('second'), enter('third')]
  expect(await enter('sent away')).toBe('later')
  waiting.push(enter('sent away'))
  if (first.kind === 'admitted') first.end()
  await Promise.all(waiting)
  expect(order).toEqual(['sent away', 'second', 'third'])
})
