// A service with `run` that exits repeatedly: its supervisor makes the environment degraded, with the reason.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openEngine } from '../../agent/src/machine/docker/engine.ts'
import { DriftWatch } from '../../agent/src/maintenance/drift.ts'
import { Observations } from '../../agent/src/maintenance/observations.ts'
import { eventually } from '../fixtures/server/deployment.ts'
import { answer, eventuallyAnswers, ServiceFixture } from '../fixtures/server/service.ts'

describe('what supervisors see', () => {
  let fixture: ServiceFixture
  beforeAll(async () => {
    fixture = await ServiceFixture.open()
  })
  afterAll(() => fixture.close())

  it('three ends are a crash loop', async () => {
    await fixture.deployed(1, { version: 'one' })
    const observations = new Observations()
    const { settings } = fixture.host
    const engine = openEngine(settings)
    const watch = new DriftWatch({ settings, engine, observations, now: () => Date.now() })
    const ledger = fixture.host.ledger()
    const look = async () => {
      await watch.look(ledger, 1)
      return observations.find(1)
    }
    try {
      expect(await look()).toMatchObject({
        services: [{ name: 'web', state: 'running', restarts: 0 }],
        degradedReason: '',
      })
      const [row] = fixture.rows(1)
      for (const count of [1, 2, 3]) {
        await eventuallyAnswers(row?.port, 'one')
        expect((await look())?.degradedReason).toBe('')
        await answer(row?.port, '/crash')
        await eventually(
          async () => (await look())?.services[0]?.restarts === count || undefined,
          `restart ${count}`,
        )
      }
      expect((await look())?.degradedReason).toMatch(/^web ended 3 times.*, last exit code 3\.$/)
    } finally {
      ledger.close()
    }
  })
})
