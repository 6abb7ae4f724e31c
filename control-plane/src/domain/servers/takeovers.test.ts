import { SESSION } from '@berth/shared'
import { expect, test } from 'vitest'
import { noteTakeover } from './takeovers.ts'

function play(instances: string[], stepMs = 1_000): boolean[] {
  let known: string | null = null
  return instances.map((instance, n) => {
    const { stored, isDuplicate } = noteTakeover(known, instance, n * stepMs)
    known = stored
    return isDuplicate
  })
}

test('two copies that push each other out are found, wherever each connects', () => {
  expect(play(['b', 'a', 'b', 'a'])).toEqual([false, false, false, true])
})

test('an agent that restarts, or returns over a bad line, is one copy', () => {
  expect(play(['a', 'b', 'c', 'd', 'e', 'f', 'g'])).not.toContain(true)
  expect(play(Array<string>(20).fill('a'))).not.toContain(true)
})

test('what happened long ago does not count, and little is stored', () => {
  expect(play(['b', 'a', 'b', 'a', 'b', 'a'], SESSION.supersedeWindowMs / 2)).not.toContain(true)
  let known: string | null = null
  for (let n = 0; n < 100; n++) known = noteTakeover(known, `i${n}`, n).stored
  expect(JSON.parse(known ?? '[]')).toHaveLength(2 * SESSION.supersedesForDuplicate)
})
