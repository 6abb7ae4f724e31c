// From `POST …/tasks` to the first step running on the server, over loopback. The floor is one durable write: a
// database commit and an fsync, which every implementation needs; the path contains several of them.
import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { LogLine, Task } from '@berth/shared/api'
import { Fixture } from '../fixtures/server/installation.ts'
import { percentile, round } from './figures.ts'
import { goalAtMost, startOfNode } from './goals.ts'

const SERVICE_FILE = `manual:
  deploy:
    - name: Nothing
      run: "true"
`

/** Between rounds, like a user: the agent has time to prepare its next runner (`DAEMON.warmAfterMs`). */
const PAUSE_MS = 5_000

function syncFloor(dir: string): number {
  const fd = openSync(join(dir, 'floor'), 'w')
  const times: number[] = []
  for (let i = 0; i < 200; i++) {
    const began = performance.now()
    writeSync(fd, Buffer.alloc(4_096, i))
    fdatasyncSync(fd)
    times.push(performance.now() - began)
  }
  closeSync(fd)
  return percentile(times, 50)
}

/** When the first step began, by the agent's clock (the same machine). */
async function firstStepAt(fixture: Fixture, taskId: number): Promise<number> {
  const answer = await fetch(`${fixture.url}/api/tasks/${taskId}/log?from_line=1&lines=1`, {
    headers: { authorization: `Bearer ${fixture.token}`, accept: 'application/x-ndjson' },
  })
  const line = JSON.parse((await answer.text()).split('\n')[0] ?? '') as LogLine
  return Date.parse(line.t)
}

export async function benchLatency(rounds: number): Promise<void> {
  const fixture = await Fixture.open()
  try {
    const project = await fixture.project(
      'quick',
      fixture.repository('quick', { '.service.yml': SERVICE_FILE }),
    )
    const environment = await fixture.environment(project.id, 'main')
    const starts: number[] = []
    const whole: number[] = []
    for (let i = 0; i < rounds; i++) {
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
      const began = Date.now()
      const { id } = await fixture.deploy(environment.id)
      const task: Task = await fixture.finished(id)
      if (task.status !== 'succeeded') throw new Error(`task ${id}: ${task.failure?.message}`)
      whole.push(Date.now() - began)
      starts.push((await firstStepAt(fixture, id)) - began)
    }
    const floor = syncFloor(fixture.dir)
    const nodeMs = startOfNode()
    const p50 = percentile(starts, 50)
    console.log(`one durable write: p50 ${round(floor)} ms`)
    console.log(
      `POST to first step running, ${rounds} rounds, one each ${PAUSE_MS} ms: p50 ${round(p50, 0)} ms ` +
        `(${round(p50 / floor, 1)} durable writes), p95 ${round(percentile(starts, 95), 0)} ms`,
    )
    // on a quiet machine a Node.js process starts in about 45 ms
    goalAtMost(
      'POST to first step running, p50',
      p50 / nodeMs,
      1.5,
      `× node -e 0 (${round(nodeMs, 0)} ms)`,
    )
    console.log(`whole deployment of nothing: p50 ${round(percentile(whole, 50), 0)} ms`)
  } finally {
    await fixture.close()
  }
}
