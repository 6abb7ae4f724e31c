import { expect, test } from 'vitest'
import { type Beat, Heartbeats } from './heartbeats.ts'

const beat = (agentId: string): Beat => ({
  agentId,
  epoch: 1,
  serverId: 1,
  diskFreeBytes: 0,
  dockerOk: true,
  proxyOk: true,
})

/** Writes wait for `release`; `written` has the agents of each. */
function heldHeartbeats(over: (agents: string[]) => Set<string> = (agents) => new Set(agents)) {
  const written: string[][] = []
  let release = (): void => {}
  const gate = new Promise<void>((resolve) => {
    release = resolve
  })
  const heartbeats = new Heartbeats(async (beats) => {
    const agents = beats.map(({ agentId }) => agentId)
    written.push(agents)
    await gate
    return over(agents)
  })
  return { heartbeats, written, release: () => release() }
}

test('those that come while one is written are written together, one of each agent', async () => {
  const { heartbeats, written, release } = heldHeartbeats()
  const first = heartbeats.note(beat('a'))
  const closing = heartbeats.close()
  const others = ['b', 'c', 'b'].map((agent) => heartbeats.note(beat(agent)))
  release()
  await closing
  expect(await Promise.all([first, ...others])).toEqual([true, true, true, true])
  expect(written).toEqual([['a'], ['b', 'c'], ['b']])
})

test('an agent whose session is over is told so', async () => {
  const { heartbeats, release } = heldHeartbeats(() => new Set(['b']))
  const all = ['a', 'b'].map((agent) => heartbeats.note(beat(agent)))
  release()
  await heartbeats.close()
  expect(await Promise.all(all)).toEqual([false, true])
})

test('one that cannot be stored fails alone', async () => {
  const { heartbeats, written, release } = heldHeartbeats((agents) => {
    if (agents.includes('bad')) throw new Error('not storable')
    return new Set(agents)
  })
  const all = ['a', 'bad', 'c'].map((agent) => heartbeats.note(beat(agent)))
  const settled = Promise.allSettled(all)
  release()
  await heartbeats.close()
  expect((await settled).map(({ status }) => status)).toEqual([
    'fulfilled',
    'rejected',
    'fulfilled',
  ])
  expect(written).toEqual([['a', 'bad', 'c'], ['a'], ['bad'], ['c']])
})
