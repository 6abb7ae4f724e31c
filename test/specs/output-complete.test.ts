// A task is reported as failed shortly before the last of its output arrives: a reader then gets all of it, or learns
// that something is missing. A scripted agent makes the moment last as long as the test needs.
import type { Diagnostics, Task } from '@berth/shared/api'
import { AttemptState, FailureCode, StepState } from '@berth/shared/wire'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { WireAgent, type WireLogs } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'

describe.each(ENGINES)('output of a task that just failed, on %s', (engine) => {
  let cp: TestControlPlane
  let agent: WireAgent
  let environmentId: number
  beforeEach(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    const { id } = await cp.server()
    environmentId = (await cp.environment((await cp.project('shop', id)).id)).id
    agent = await WireAgent.join(cp, id)
  })
  afterEach(async () => {
    agent.close()
    await cp.close()
  })

  /** One line of two is stored and the end of the task is reported; `rest` sends the other line. */
  async function failWithHalf(): Promise<{ taskId: number; logs: WireLogs; rest: () => void }> {
    const session = await agent.active()
    const { id } = await cp.make<Task>(`/api/environments/${environmentId}/tasks`)
    const [a] = await session.assignments()
    const of = { attemptId: a?.attemptId ?? '', fence: a?.fence ?? 0n }
    const phases = [{ name: 'run', title: 'Run', steps: [{ stepId: 'run:1', title: 'Build' }] }]
    session.event({ ...of, body: { case: 'attempt', value: { state: AttemptState.RUNNING } } })
    session.event({ ...of, body: { case: 'plan', value: { phases } } })
    const logs = agent.logs((await session.next('welcome')).sessionId, [of.attemptId])
    await logs.next('resume')
    logs.send(of.attemptId, of.fence, 1, ['compiling\n'])
    await logs.next('ack')
    const step = { stepId: 'run:1', state: StepState.FAILED, firstLogSeq: 1n, lastLogSeq: 2n }
    session.event({ ...of, body: { case: 'step', value: { ...step, exitCode: 1 } } })
    const value = {
      state: AttemptState.FAILED,
      code: FailureCode.STEP_FAILED,
      message: 'Build failed with exit code 1.',
      failedStepId: 'run:1',
      finalLogSeq: 2n,
    }
    session.event({ ...of, body: { case: 'attempt', value } })
    await until('failed', async () => {
      const { body } = await cp.call<Task>('GET', `/api/tasks/${id}`)
      return body.status === 'failed' || undefined
    })
    const rest = () => logs.send(of.attemptId, of.fence, 2, ['error: no such module\n'])
    return { taskId: id, logs, rest }
  }
  const diagnose = async () =>
    (await cp.call<Diagnostics>('GET', `/api/environments/${environmentId}/diagnostics`)).body

  test('diagnostics wait for the rest, and have it', async () => {
    const { logs, rest } = await failWithHalf()
    const asked = diagnose()
    await logs.next('pace') // the reader waits for it
    rest()
    expect(await asked).toMatchObject({
      output: 'compiling\nerror: no such module',
      output_complete: true,
      failure: { line: 2 },
    })
  })

  test('diagnostics do not wait for ever, and say what they are', async () => {
    await failWithHalf()
    expect(await diagnose()).toMatchObject({ output: 'compiling', output_complete: false })
  })

  test('the log of a finished task is read to its end', async () => {
    const { taskId, logs, rest } = await failWithHalf()
    const asked = cp.call('GET', `/api/tasks/${taskId}/log`)
    await logs.next('pace')
    rest()
    const { text, headers } = await asked
    expect(text).toBe('compiling\nerror: no such module\n')
    expect(headers.get('berth-log-complete')).toBe('true')
  })
})
