// Traces follow a deployment from the request to each step on the server, also across a restart of the control plane. A
// small collector takes them over OTLP/HTTP.
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import type { Task } from '@berth/shared/api'
import { AttemptState, StepState } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'
import { settle } from '../fixtures/tenants/agents.ts'

interface Sent {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  startTimeUnixNano: string
  endTimeUnixNano: string
  status: { code?: number; message?: string }
  attributes: { key: string; value: Record<string, unknown> }[]
  links?: { traceId: string; spanId: string }[]
}

/** Takes traces as a collector does, and remembers them. */
class Collector {
  readonly spans: Sent[] = []
  headers: IncomingHttpHeaders = {}
  status = 200
  #server: Server | undefined

  async start(): Promise<string> {
    const server = createServer(async (request, response) => {
      const body = (await json(request)) as {
        resourceSpans: { scopeSpans: { spans: Sent[] }[] }[]
      }
      this.headers = request.headers
      if (this.status === 200) {
        this.spans.push(...body.resourceSpans.flatMap((r) => r.scopeSpans.flatMap((s) => s.spans)))
      }
      response.writeHead(this.status, { 'content-type': 'application/json' }).end('{}')
    })
    this.#server = server
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces`
  }

  close(): void {
    this.#server?.close()
    this.#server?.closeAllConnections()
  }
}

const CALLER = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7' }

describe('traces', () => {
  const collector = new Collector()
  let cp: TestControlPlane
  let agent: WireAgent
  let environmentId: number
  beforeAll(async () => {
    const url = await collector.start()
    const env = { BERTH_TRACES_URL: url, BERTH_TRACES_HEADERS: 'x-team=platform' }
    cp = await TestControlPlane.start('sqlite', { env })
    await cp.setUp()
    const server = await cp.server()
    const { id } = await cp.project('shop', server.id)
    environmentId = (await cp.environment(id)).id
    agent = await WireAgent.join(cp, server.id)
  })
  afterAll(async () => {
    agent.close()
    await cp.close()
    collector.close()
  })

  const attribute = (span: Sent, key: string) =>
    Object.values(span.attributes.find((a) => a.key === key)?.value ?? {})[0]
  const named = (name: string) =>
    until(`a span ${name}`, async () => collector.spans.find((span) => span.name === name))

  test('lead from the request to each step on the server, across a restart', async () => {
    const first = await agent.active()
    const asked = await cp.call<Task>(
      'POST',
      `/api/environments/${environmentId}/tasks`,
      { message: 'a message that stays here' },
      { traceparent: `00-${CALLER.traceId}-${CALLER.spanId}-01` },
    )
    expect(asked.status).toBe(201)
    const { id } = asked.body
    const { attemptId, fence } = await until('an assignment', async () =>
      (await first.assignments()).find((a) => a.taskId === id && a.spec),
    )
    await cp.restart()
    const session = await agent.active()
    const report = (body: Parameters<typeof session.event>[0]['body'] & object) =>
      session.event({ attemptId, fence, body })
    report({ case: 'attempt', value: { state: AttemptState.RUNNING } })
    const steps = ['web', 'db'].map((stepId) => ({ stepId, title: `Start ${stepId}` }))
    report({ case: 'plan', value: { phases: [{ name: 'start', title: 'Start', steps }] } })
    const duration = { seconds: 2n, nanos: 0 }
    for (const [stepId, state] of [
      ['web', StepState.SUCCEEDED],
      ['db', StepState.FAILED],
    ] as const) {
      report({ case: 'step', value: { stepId, state: StepState.RUNNING } })
      report({ case: 'step', value: { stepId, state, duration } })
    }
    report({
      case: 'attempt',
      value: { state: AttemptState.FAILED, message: 'what it wrote', failedStepId: 'db' },
    })
    await settle(session)
    await cp.running.ctx.traces.flush()

    const request = await named('POST /api/environments/:id/tasks')
    const task = await named('deploy')
    const [web, db] = [await named('start: Start web'), await named('start: Start db')]
    expect(request).toMatchObject({ links: [CALLER] })
    expect(attribute(request, 'berth.request_id')).toBe(asked.headers.get('x-request-id'))
    expect(request.parentSpanId ?? '').toBe('')
    expect(task).toMatchObject({ traceId: request.traceId, parentSpanId: request.spanId })
    expect(attribute(task, 'berth.task_id')).toBe(id)
    expect(attribute(task, 'berth.attempt_id')).toBe(attemptId)
    for (const span of [web, db, await named('wait for the server')]) {
      expect(span).toMatchObject({ traceId: request.traceId, parentSpanId: task.spanId })
    }
    expect(BigInt(web.endTimeUnixNano) - BigInt(web.startTimeUnixNano)).toBe(2_000_000_000n)
    expect([web.status.code ?? 0, db.status.code, task.status.code]).toEqual([0, 2, 2])
    expect(collector.headers['x-team']).toBe('platform')
    expect(JSON.stringify(collector.spans)).not.toMatch(/what it wrote|a message that stays here/)
  })

  test('of a collector that refuses them are lost, and nothing else is', async () => {
    collector.status = 400
    const { status } = await cp.call('PATCH', `/api/environments/${environmentId}`, {
      sticky: true,
    })
    expect(status).toBe(200)
    await cp.running.ctx.traces.flush()
    collector.status = 200
    await cp.call('PATCH', `/api/environments/${environmentId}`, { sticky: false })
    await cp.running.ctx.traces.flush()
    const patches = collector.spans.filter((span) => span.name.startsWith('PATCH'))
    expect(patches).toHaveLength(1)
  })
})
