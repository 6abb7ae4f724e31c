// How long a switch waits for Caddy, by what Caddy was told before.
import { expect, test } from 'vitest'
import { PROXY } from '../../limits/proxy.ts'
import { Answers } from './answers.ts'

const former = [{ address: '10.0.0.1', port: 80 }]
const next = [{ address: '10.0.0.2', port: 80 }]

function open() {
  const clock = { now: 1_000 }
  const answers = new Answers(() => clock.now)
  const remaining = (...names: string[]): number => answers.remainingMs(names, () => next)
  return { clock, answers, remaining }
}

test('a name that Caddy did not ask for switches immediately', () => {
  const { answers, remaining } = open()
  expect(remaining('a')).toBe(0)
  answers.note('b', former)
  expect(remaining('a')).toBe(0)
})

test('a name that Caddy just asked for switches when Caddy has forgotten the answer, or asks again', () => {
  const { clock, answers, remaining } = open()
  answers.note('a', former)
  clock.now += 100
  expect(remaining('a')).toBe(PROXY.settleMs - 100)
  expect(remaining('b', 'a')).toBe(PROXY.settleMs - 100)
  answers.note('a', next)
  expect(remaining('a')).toBe(0)
  answers.note('a', former)
  clock.now += PROXY.settleMs
  expect(remaining('a')).toBe(0)
})

test('with more names than it remembers, every switch waits as long as the last unknown one could need', () => {
  const { clock, answers, remaining } = open()
  for (let n = 0; n < PROXY.rememberedAnswers; n++) answers.note(`n${n}`, former)
  expect(remaining('other')).toBe(0)
  answers.note('other', former)
  expect(remaining('quiet')).toBe(PROXY.settleMs)
  clock.now += PROXY.settleMs
  expect(remaining('quiet')).toBe(0)
  answers.note('other', former) // the others are old by now and make place
  expect(remaining('quiet')).toBe(0)
  expect(remaining('other')).toBe(PROXY.settleMs)
})

test('waiting ends as soon as Caddy asks again, and at the latest after the bound', async () => {
  const answers = new Answers()
  answers.note('a', former)
  const isOver = answers.settle(['a'], () => next).then(() => performance.now())
  setImmediate(() => answers.note('a', next))
  await isOver
  expect(answers.remainingMs(['a'], () => next)).toBe(0)
  answers.note('a', former)
  await answers.settle(['a'], () => next)
  expect(answers.remainingMs(['a'], () => next)).toBe(0)
})
