// What monitoring reads: figures for its token, liveness and readiness; on both databases, judged by promtool.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import type { Task } from '@berth/shared/api'
import { AttemptState, StepState } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { renderMetrics } from '../../agent/src/maintenance/metrics.ts'
import { Observations } from '../../agent/src/maintenance/observations.ts'
import { missing } from '../fixtures/platform/components.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { WireAgent, type WireSession } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'
import { settle } from '../fixtures/tenants/agents.ts'

const TOKEN = 'metrics-token-of-this-test'

describe.each(ENGINES)('monitoring on %s', (engine) => {
  let cp: TestControlPlane
  let agent: WireAgent
  let session: WireSession
  let environmentId: number
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine, { env: { BERTH_METRICS_TOKEN: TOKEN } })
    await cp.setUp()
    const server = await cp.server()
    const { id } = await cp.project('shop', server.id)
    environmentId = (await cp.environment(id)).id
    agent = await WireAgent.join(cp, server.id)
    session = await agent.active()
  })
  afterAll(async () => {
    agent.close()
    await cp.close()
  })

  const read = async (token = TOKEN): Promise<{ status: number; text: string }> => {
    const answer = await fetch(`${cp.url}/metrics`, {
      headers: { authorization: `Bearer ${token}` },
    })
    return { status: answer.status, text: await answer.text() }
  }
  const value = async (series: string): Promise<number | undefined> => {
    const { text } = await read()
    const line = text.split('\n').find((one) => one.startsWith(`${series} `))
    return line === undefined ? undefined : Number(line.slice(series.length + 1))
  }

  async function deploy(state: AttemptState, failedStepId = ''): Promise<void> {
    const { id } = await cp.make<Task>(`/api/environments/${environmentId}/tasks`)
    const { attemptId, fence } = await until('an assignment', async () =>
      (await session.assignments()).find((a) => a.taskId === id && a.spec),
    )
    const report = (body: Parameters<typeof session.event>[0]['body'] & object) =>
      session.event({ attemptId, fence, body })
    report({ case: 'attempt', value: { state: AttemptState.RUNNING } })
    const names = ['build', 'a-name-that-a-hostile-server-made-up']
    const phases = names.map((name) => ({
      name,
      title: name,
      steps: [{ stepId: name, title: name }],
    }))
    report({ case: 'plan', value: { phases } })
    for (const stepId of names) {
      const duration = { seconds: 2n, nanos: 0 }
      report({ case: 'step', value: { stepId, state: StepState.SUCCEEDED, duration } })
    }
    report({ case: 'attempt', value: { state, message: 'over', failedStepId } })
    await settle(session)
  }

  test('tasks are counted when they end, with the phase that failed, under words of ours only', async () => {
    await deploy(AttemptState.SUCCEEDED)
    await deploy(AttemptState.FAILED, 'build')
    const ended = (status: string, phase: string): string =>
      `berth_tasks_finished_total{type="deploy",status="${status}",phase="${phase}"}`
    await until('both are counted', async () => (await value(ended('failed', 'build'))) === 1)
    expect(await value(ended('succeeded', ''))).toBe(1)
    expect(await value('berth_phase_seconds_sum{type="deploy",phase="build"}')).toBe(2)
    expect(await value('berth_phase_seconds_sum{type="deploy",phase="other"}')).toBe(2)
    const { text } = await read()
    expect(text).not.toContain('hostile')
    expect(text).not.toContain('shop')
  })

  test('queue, agents, certificates and requests', async () => {
    expect(await value('berth_agents{state="online"}')).toBe(1)
    expect(await value('berth_tasks_open{status="queued"}')).toBe(0)
    expect(await value('berth_queue_oldest_seconds')).toBe(0)
    const year = Date.now() / 1_000 + 300 * 86_400
    const end = 'berth_certificate_expiry_timestamp_seconds'
    expect(await value(`${end}{of="authority"}`)).toBeGreaterThan(year)
    expect(await value(`${end}{of="agents"}`)).toBeGreaterThan(Date.now() / 1_000)
    await fetch(`${cp.url}/api/no-such-thing`)
    const unknown = 'berth_http_requests_total{method="GET",route="none",status="4xx"}'
    expect(await value(unknown)).toBeGreaterThanOrEqual(1)
    const tasks = '/api/environments/:id/tasks'
    const posts = `berth_http_requests_total{method="POST",route="${tasks}",status="2xx"}`
    expect(await value(posts)).toBe(2)
  })

  test('only the token opens them', async () => {
    const refused = await read('metrics-token-of-this-tesu')
    expect(refused.status).toBe(401)
    expect(refused.text).not.toContain('berth_')
    expect((await fetch(`${cp.url}/metrics`)).status).toBe(401)
    const closed = await TestControlPlane.start(engine)
    expect((await fetch(`${closed.url}/metrics`)).status).toBe(404)
    await closed.close()
  })

  test.skipIf(missing('promtool'))('promtool finds nothing to complain about', async () => {
    const { text } = await read()
    const { status, stderr } = spawnSync('promtool', ['check', 'metrics'], { input: text })
    expect([status, stderr.toString()]).toEqual([0, ''])
  })

  test('every figure that the dashboard for Grafana shows exists', async () => {
    const file = new URL('../../docs/operations/grafana-dashboard.json', import.meta.url)
    const text = readFileSync(file, 'utf8')
    const used = new Set(text.match(/\bberth_[a-z_]+|\bprocess_[a-z_]+/g))
    const parts = { manager: { liveIds: () => [] }, observations: new Observations() }
    const pulse = { spoolBytes: 0n, diskFreeBytes: 0n, dockerOk: true, proxyOk: true }
    const host = { pulse: () => pulse, info: () => ({ parts: [] }) as never }
    const own = renderMetrics({ ...parts, host, isConnected: () => true })
    const named = `${(await read()).text}${own}`
    const isKnown = (name: string): boolean =>
      named.includes(`# TYPE ${name.replace(/_(?:bucket|sum|count)$/, '')} `)
    expect(used.size).toBeGreaterThan(15)
    expect([...used].filter((name) => !isKnown(name))).toEqual([])
  })

  test('alive and ready', async () => {
    for (const path of ['/health/live', '/health/ready']) {
      const answer = await fetch(cp.url + path)
      expect([answer.status, await answer.text()]).toEqual([200, 'ok\n'])
    }
  })
})
