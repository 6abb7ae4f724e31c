import { expect, test } from 'vitest'
import { MCP } from '../limits/client.ts'
import { Turns } from './turns.ts'

const never = new AbortController().signal
const nextTick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test('calls beyond those that run wait in their order, a bounded number of them', async () => {
  const turns = new Turns()
  const running = await Promise.all(Array.from({ length: MCP.calls }, () => turns.take(never)))
  const begun: number[] = []
  const ends: (() => void)[] = []
  const leaver = new AbortController()
  const waiting = Array.from({ length: MCP.callsWaiting }, (_, n) =>
    turns.take(n === 1 ? leaver.signal : never).then(
      (end) => {
        begun.push(n)
        ends.push(end)
      },
      () => undefined,
    ),
  )
  await expect(turns.take(never)).rejects.toThrow(/are waiting already/)
  await nextTick()
  expect(begun).toEqual([])
  leaver.abort()
  running[0]?.()
  running[0]?.() // a second call has no effect
  running[1]?.()
  await nextTick()
  expect(begun).toEqual([0, 2])
  for (const end of running) end()
  for (let n = 0; n < MCP.callsWaiting; n++) {
    ends[n]?.()
    await nextTick()
  }
  await Promise.all(waiting)
  expect(begun).toHaveLength(MCP.callsWaiting - 1)
  const again = await Promise.all(Array.from({ length: MCP.calls }, () => turns.take(never)))
  expect(again).toHaveLength(MCP.calls)
})
