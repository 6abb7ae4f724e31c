// A followed log ends with the access of its reader: the token, the account, the membership. On both databases.
import type { Task } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { change } from '../../control-plane/src/app/core/transaction.ts'
import { deleteUserTokens } from '../../control-plane/src/store/people/tokens.ts'
import { type Member, makeMember } from '../fixtures/people/ssh-people.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'

describe.each(ENGINES)('following a log on %s', (engine) => {
  let cp: TestControlPlane
  let agent: WireAgent
  let organizationId: number
  let task: Task
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    organizationId = (await cp.setUp()).organization.id
    const { id } = await cp.server()
    const project = await cp.project('shop', id)
    const environment = await cp.environment(project.id)
    agent = await WireAgent.join(cp, id)
    task = await cp.make<Task>(`/api/environments/${environment.id}/tasks`)
  })
  afterAll(async () => {
    agent.close()
    await cp.close()
  })

  /** An open stream, and its end. */
  const follow = async (who: Member) => {
    const authorization = `Bearer ${who.token}`
    const url = `${cp.url}/api/tasks/${task.id}/log?follow=true`
    const answer = await fetch(url, { headers: { authorization } })
    expect(answer.status).toBe(200)
    const ended = answer.text().then(
      () => 'complete',
      () => 'cut',
    )
    return { ended }
  }

  test('nothing happens there, and still it breaks off when the access ends', async () => {
    const people = await Promise.all(
      [1, 2, 3, 4].map(() => makeMember(cp, organizationId, 'viewer')),
    )
    const [revoked, disabled, removed] = people as [Member, Member, Member, Member]
    let isOver = false
    const opened = await Promise.all(people.map(follow))
    const ends = opened.slice(0, 3).map((stream) => stream.ended)
    const kept = opened[3]?.ended.finally(() => {
      isOver = true
    })
    await change(cp.running.ctx, (c) => deleteUserTokens(c.db, revoked.id, c.now))
    await cp.call('PATCH', `/api/admin/users/${disabled.id}`, { disabled: true })
    await cp.call('DELETE', `/api/organizations/${organizationId}/members/${removed.id}`)
    expect(await Promise.all(ends)).toEqual(['cut', 'cut', 'cut'])
    expect(isOver).toBe(false)
    await cp.call('POST', `/api/tasks/${task.id}/cancel`)
    expect(await kept).toBe('complete')
  })
})
