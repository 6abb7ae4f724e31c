// One row that cannot be processed does not block the others: the tick continues with the next.
import { TASKS } from '@berth/shared'
import type { Task } from '@berth/shared/api'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeHost, sha } from '../fixtures/forge/webhook-sender.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'

let cp: TestControlPlane
beforeAll(async () => {
  cp = await TestControlPlane.start('sqlite') // for its triggers; the tick is the same on both databases
  await cp.setUp()
})
afterAll(() => cp.close())

test('a task that cannot be failed, a delivery that cannot be written: the others are', async () => {
  const { id: serverId } = await cp.server()
  const agent = await WireAgent.join(cp, serverId)
  agent.close()
  const h = await makeHost(cp, serverId)
  const tasks: Task[] = []
  for (const name of ['one', 'two']) {
    const { id } = await cp.environment(h.projectId, name)
    tasks.push(await cp.make<Task>(`/api/environments/${id}/tasks`))
  }
  const { db } = cp.running.ctx
  const reported = [(await h.push('none', sha(1))).body, (await h.push('none', sha(2))).body]
  await sql`update deliveries set decided_at = null, outcome = 'received', tries = 9
    where id = ${reported[0]?.delivery}`.execute(db)
  await sql`update deliveries set decided_at = null, outcome = 'received', tries = 0
    where id = ${reported[1]?.delivery}`.execute(db)
  await sql
    .raw(
      `create trigger bad_task before update on tasks when new.id = ${tasks[0]?.id}
       begin select raise(abort, 'a bad row'); end`,
    )
    .execute(db)
  await sql
    .raw(
      `create trigger bad_delivery before update on deliveries when new.id = ${reported[0]?.delivery}
       begin select raise(abort, 'a bad row'); end`,
    )
    .execute(db)
  await cp.advance(TASKS.serverOfflineMs + 60_000)
  const statuses = await Promise.all(
    tasks.map(async ({ id }) => (await cp.call<Task>('GET', `/api/tasks/${id}`)).body.status),
  )
  expect(statuses).toEqual(['queued', 'failed'])
  const outcomes = (await h.deliveries()).map((d) => [d.id, d.outcome])
  expect(outcomes).toEqual([
    [reported[1]?.delivery, 'ignored'],
    [reported[0]?.delivery, 'received'],
  ])
})
