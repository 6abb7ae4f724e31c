// A small run of `npm run chaos -- docker` and `disk` at every commit: one fault of each kind that once broke
// something, and a few deployments beside foreign objects.
import { describe, expect, test } from 'vitest'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { isRunLate } from '../fixtures/platform/run-time.ts'
import { Fixture } from '../fixtures/server/installation.ts'
import { runDisk } from './disk.ts'
import { runDockerChaos } from './docker.ts'
import { readStrikes } from './docker-faults.ts'
import { Foreign } from './foreign.ts'

const engine = dockerEngine()
const bound = 300_000
const quiet = (): void => undefined

describe.skipIf(!engine || missing('caddy') || isRunLate())('the docker recipe under fire', () => {
  test(
    'runner, edge and engine are killed: no request fails, the verdict is right, nothing is left',
    async () => {
      const strikes = readStrikes('runner@verify,edge@route,engine-kill@start')
      const verdict = await runDockerChaos({ strikes, say: quiet })
      expect(verdict.violations).toEqual([])
      expect(verdict.strikes).toBe(strikes.length)
      expect(verdict.requests).toBeGreaterThan(100)
    },
    bound,
  )

  test(
    'old images go, foreign things stay, and nothing is left after the removal',
    async () => {
      if (!engine) throw new Error('no engine')
      const foreign = await Foreign.make(engine.socket)
      const fixture = await Fixture.open({ docker: engine })
      try {
        const size = { environments: 2, deployments: 8, payloadMiB: 1 }
        const verdict = await runDisk({ ...size, fixture, engine, foreign, say: quiet })
        expect(verdict.violations).toEqual([])
        expect(verdict.succeeded).toBe(size.deployments)
      } finally {
        await fixture.close()
        await foreign.remove()
      }
    },
    bound,
  )
})
