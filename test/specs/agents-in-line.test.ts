// The line in which agents wait for their sessions to open, with real streams.
import { SESSION } from '@berth/shared'
import { GoodbyeReason } from '@berth/shared/wire'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { withTransactions } from '../fixtures/platform/hold-changes.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'

describe.each(ENGINES)('agents in line on %s', (engine) => {
  let cp: TestControlPlane
  const agents: WireAgent[] = []
  beforeEach(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
  })
  afterEach(async () => {
    for (const agent of agents.splice(0)) agent.close()
    await cp.close()
  })

  test('in line, an agent that answers is served late; what has gone away or cannot wait is not', async () => {
    const { ctx } = cp.running
    const { db } = ctx
    for (let n = 0; n < SESSION.openingsAtOnce + 3; n += 1) {
      agents.push(await WireAgent.join(cp, (await cp.server(`server-${n}`)).id))
    }
    let release = (): void => {}
    const released = new Promise<void>((done) => {
      release = done
    })
    let held = 0
    ctx.db = withTransactions(db, (execute) => async (work) => {
      held += 1
      await released
      return execute(work)
    })
    try {
      const [agent, former, gone, ...opening] = agents as [
        WireAgent,
        WireAgent,
        WireAgent,
        ...WireAgent[],
      ]
      for (const other of opening) other.connect()
      await until('no turn is free', () => held >= SESSION.openingsAtOnce || undefined)
      const capabilities = ['manual', 'waits']
      const before = former.connect()
      const cut = gone.connect({ capabilities })
      cut.isInLine = false
      const session = agent.connect({ capabilities })
      await session.next('waiting')
      const now = performance.now.bind(performance)
      vi.spyOn(performance, 'now').mockImplementation(() => now() + 120_000)
      await session.next('waiting')
      await session.next('waiting') // the answer to the one before has arrived
      release()
      await session.next('welcome')
      const own = cp.running.gateway
        .sessions()
        .find(({ agentId }) => agentId === agent.identity.agentId)
      own?.tick(false)
      expect(own?.isActive).toBe(true) // it was in line, not silent
      for (const late of [before, cut]) {
        expect((await late.next('goodbye')).reason).toBe(GoodbyeReason.OVERLOADED)
      }
      expect(before.received.some(({ msg }) => msg.case === 'waiting')).toBe(false)
      expect(cut.received.some(({ msg }) => msg.case === 'welcome')).toBe(false)
    } finally {
      vi.restoreAllMocks()
      release()
      ctx.db = db
    }
  })
})
