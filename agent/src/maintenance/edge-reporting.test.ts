import { EdgeSettingsSchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { expect, it, vi } from 'vitest'
import { silentLog } from '../log.ts'
import { EdgeError, type SetAuth } from '../proxy/protocol.ts'
import { readSettings } from '../settings.ts'
import { EdgeReporting } from './edge-reporting.ts'

const reported = (environmentId: number, revision: bigint, username?: string) =>
  create(EdgeSettingsSchema, {
    environments: [
      {
        environmentId,
        revision,
        ...(username ? { basicAuth: { username, bcryptHash: 'h' } } : {}),
      },
    ],
  })

it('passes settings on, again while the edge is away, the newest only, and never what is stale', async () => {
  vi.useFakeTimers()
  const taken: SetAuth[] = []
  let state: 'up' | 'away' | 'stale' = 'away'
  const setAuth = (auth: SetAuth): Promise<void> => {
    if (state === 'away') return Promise.reject(new EdgeError('unavailable', 'away'))
    taken.push(auth)
    return state === 'stale' ? Promise.reject(new EdgeError('stale', 'old')) : Promise.resolve()
  }
  const reporting = new EdgeReporting(readSettings({}), silentLog, { setAuth })
  reporting.report(reported(1, 2n, 'a'))
  reporting.report(reported(1, 3n))
  reporting.report(reported(1, 1n, 'old'))
  await vi.advanceTimersByTimeAsync(100)
  expect(taken).toEqual([])
  state = 'up'
  await vi.advanceTimersByTimeAsync(5_000)
  expect(taken).toEqual([{ environmentId: 1, revision: 3n, basicAuth: null }])
  state = 'stale'
  reporting.report(reported(2, 1n, 'b'))
  await vi.advanceTimersByTimeAsync(5_000)
  expect(taken).toHaveLength(2)
  expect(taken[1]).toMatchObject({ basicAuth: { username: 'b', passwordHash: 'h' } })
  reporting.close()
  vi.useRealTimers()
})
