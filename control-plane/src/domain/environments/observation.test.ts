// Which observation counts, and its effect on an environment.
import { describe, expect, test } from 'vitest'
import {
  degradation,
  isStopped,
  type Observation,
  observeChange,
  serviceReplicas,
  serviceState,
  stoppedServices,
  stopReason,
  takeObservation,
} from './observation.ts'

const deployed = { fence: 7, deployedFence: 5, services: [{ name: 'web' }, { name: 'worker' }] }
const seen = {
  fence: 5,
  commitSha: 'a'.repeat(40),
  degradedReason: '',
  services: [
    { name: 'web', state: 'running', replicas: 3, replicasUp: 2 },
    { name: 'worker', state: 'restarting', replicas: 0, replicasUp: 0 },
    { name: '<b>', state: 'running', replicas: 1, replicasUp: 1 },
  ],
}
const fine: Observation = {
  fence: 5,
  commit: 'a'.repeat(40),
  reason: null,
  services: [
    { name: 'web', state: 'running', replicas: { wanted: 3, running: 2 } },
    { name: 'worker', state: 'restarting' },
  ],
}
const shown = {
  deployedFence: 5,
  commitSha: 'a'.repeat(40),
  observed: fine,
  degradedReason: null,
}

test('an observation of the version that serves is taken, as far as it makes sense', () => {
  expect(takeObservation(deployed, seen)).toEqual(fine)
  const dancing = { name: 'web', state: 'dancing', replicas: 1, replicasUp: 1 }
  const odd = { ...seen, services: [dancing], commitSha: 'main' }
  expect(takeObservation(deployed, odd)).toMatchObject({ commit: null, services: [] })
})

test('replicas are counted for the version that serves, and never more run than should', () => {
  expect(serviceReplicas(shown, 'web')).toEqual({ wanted: 3, running: 2 })
  expect(serviceReplicas(shown, 'worker')).toBe(null)
  expect(serviceReplicas({ ...shown, deployedFence: 6 }, 'web')).toBe(null)
  const many = { name: 'web', state: 'running', replicas: 2, replicasUp: 9 }
  const taken = takeObservation(deployed, { ...seen, services: [many] })
  expect(taken?.services[0]?.replicas).toEqual({ wanted: 2, running: 2 })
})

test.each([
  [4, false],
  [5, true],
  [6, true],
  [7, true],
  [8, false],
])('fence %i while 5 serves and 7 is the newest', (fence, isTaken) => {
  expect(takeObservation(deployed, { ...seen, fence }) !== undefined).toBe(isTaken)
})

test('nothing runs there any more', () => {
  const gone = { fence: 0, commitSha: '', degradedReason: '', services: [] }
  const observed = takeObservation(deployed, gone) ?? null
  expect(degradation({ ...shown, observed })).toBe('Nothing of it runs on its server any more.')
  expect(serviceState({ ...shown, observed }, 'worker')).toBe('missing')
  expect(takeObservation({ ...deployed, deployedFence: 0 }, gone)).toBeUndefined()
})

test('a reason is one bounded line', () => {
  const degradedReason = `web\nended\u001b[31m 5 times.${'x'.repeat(1_000)}`
  const taken = takeObservation(deployed, { ...seen, degradedReason })
  expect(taken?.reason).toHaveLength(500)
  expect(taken?.reason).toMatch(/^web ended \[31m 5 times\.x+$/)
})

test('what is shown: its own trouble first, then what the server sees, until the next version', () => {
  const reason = 'web ended 5 times in 2 min, last exit code 1.'
  const observed = { ...fine, reason }
  expect(degradation(shown)).toBe(null)
  expect(degradation({ ...shown, observed })).toBe(reason)
  expect(degradation({ ...shown, observed, degradedReason: 'Its removal failed.' })).toBe(
    'Its removal failed.',
  )
  expect(serviceState(shown, 'worker')).toBe('restarting')
  const next = { ...shown, observed, deployedFence: 7 }
  expect([degradation(next), serviceState(next, 'worker')]).toEqual([null, 'running'])
  expect(degradation({ ...shown, observed: null })).toBe(null)
})

test('another commit than the deployed one runs', () => {
  const differs = 'Running differs from last deployed: bbbbbbb runs, aaaaaaa was deployed.'
  const commit = 'b'.repeat(40)
  expect(degradation({ ...shown, observed: { ...fine, commit } })).toBe(differs)
  // a given-up deployment continued and succeeded: it serves, but no row records it
  expect(degradation({ ...shown, observed: { ...fine, fence: 7, commit } })).toBe(differs)
  expect(degradation({ ...shown, observed: { ...fine, fence: 7, reason: 'x' } })).toBe(null)
})

describe('what a user stopped', () => {
  const services = [{ name: 'web' }, { name: 'worker' }, { name: 'legacy' }]
  const deployed = {
    deployedFence: 5,
    commitSha: null,
    degradedReason: null,
    services,
    observed: {
      fence: 5,
      commit: null,
      reason: null,
      services: [{ name: 'legacy', state: 'unmanaged' as const }],
    },
  }
  const record = { by: 'Ada', at: Date.UTC(2026, 10, 17, 2), taskId: 9 }

  test('all of it: what Berth does not run does not count', () => {
    const observed = observeChange(deployed, { service: null, stopped: true })
    const stopped = { ...deployed, observed }
    expect(stoppedServices(stopped)).toEqual(['web', 'worker'])
    expect(isStopped(stopped)).toBe(true)
    expect(stopReason(stopped, record)).toBe(
      'Stopped by Ada at 2026-11-17T02:00:00Z. A start or a deployment brings it back.',
    )
    const again = observeChange(stopped, { service: null, stopped: false })
    expect(stopReason({ ...deployed, observed: again }, record)).toBeNull()
  })

  test('one service: the environment still runs', () => {
    const observed = observeChange(deployed, { service: 'worker', stopped: true })
    const stopped = { ...deployed, observed }
    expect([stoppedServices(stopped), isStopped(stopped)]).toEqual([['worker'], false])
    expect(stopReason(stopped, null)).toBe('worker is stopped.')
  })

  test('nothing before the first deployment, and nothing of a former version', () => {
    const observed = observeChange(deployed, { service: null, stopped: true })
    expect(stoppedServices({ ...deployed, observed, deployedFence: 0 })).toEqual([])
    expect(stoppedServices({ ...deployed, observed, deployedFence: 6 })).toEqual([])
  })
})
