// Events and users at the same moment, on the database that lets transactions overlap: a decision uses facts that stay
// true until the commit. (SQLite has one writer, so there they run one after the other.)
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { change } from '../../control-plane/src/app/core/transaction.ts'
import { finishRemoval } from '../../control-plane/src/app/environments/removal.ts'
import { refreshTokens } from '../../control-plane/src/app/people/login-tokens.ts'
import { replacePassword } from '../../control-plane/src/app/people/sign-in.ts'
import { type Host, makeHost, sha } from '../fixtures/forge/webhook-sender.ts'
import {
  approve,
  Browser,
  PASSWORD,
  poll,
  setUpWithPassword,
  startDevice,
} from '../fixtures/people/people.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'

describe('at the same moment', () => {
  let cp: TestControlPlane
  let agent: WireAgent
  let h: Host
  beforeEach(async () => {
    cp = await TestControlPlane.start('postgres')
    await setUpWithPassword(cp)
    const serverId = (await cp.server()).id
    agent = await WireAgent.join(cp, serverId)
    h = await makeHost(cp, serverId)
  })
  afterEach(async () => {
    agent.close()
    await cp.close()
  })

  const db = () => cp.running.ctx.db
  /** A transaction that has done `work` and commits when the returned function is called. */
  const hold = (work: (tx: ReturnType<typeof db>) => Promise<unknown>) =>
    new Promise<() => Promise<void>>((resolve, reject) => {
      const { promise: released, resolve: release } = Promise.withResolvers<void>()
      const over = db()
        .transaction()
        .execute(async (tx) => {
          await work(tx)
          resolve(() => {
            release()
            return over
          })
          await released
        })
      over.catch(reject)
    })
  /** Resolves when it waits for a lock, or has ended without waiting. */
  const blockedOrOver = (work: Promise<unknown>) =>
    Promise.race([
      work.catch(() => undefined),
      until('a transaction that waits', async () => {
        const { rows } = await sql`select 1 from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'`.execute(db())
        return rows.length > 0 ? true : undefined
      }),
    ])
  const idOf = async (identifier: string) => (await h.environment(identifier))?.id ?? 0
  const protect = (id: number) =>
    hold((tx) =>
      tx.updateTable('environments').set({ protected: 1 }).where('id', '=', id).execute(),
    )

  test.each(['merged', 'closed'] as const)(
    'protected and %s: the environment stays',
    async (ending) => {
      const pr = { number: 7, head: sha(1) }
      await h.opened(pr)
      const release = await protect(await idOf('pr-7'))
      const reported = h[ending](pr)
      await blockedOrOver(reported)
      await release()
      await reported
      const [delivery] = await h.deliveries()
      expect(delivery).toMatchObject({ outcome: 'applied', rule: 'environment_protected' })
      expect(await h.environment('pr-7')).toMatchObject({ protected: true })
      expect((await h.environment('pr-7'))?.status).not.toBe('removing')
    },
  )

  test('protected and its project deleted: it has to be confirmed', async () => {
    const { id } = await cp.environment(h.projectId, 'main')
    const release = await protect(id)
    const asked = cp.call('DELETE', `/api/projects/${h.projectId}?confirm=preview`)
    await blockedOrOver(asked)
    await release()
    expect((await asked).body).toMatchObject({
      code: 'confirmation_required',
      protected_environments: [{ id, identifier: 'main' }],
    })
  })

  test('a place that is freed while somebody joins the line is theirs', async () => {
    await cp.call('PUT', `/api/projects/${h.projectId}/environment_limit`, { limit: 1 })
    await cp.call('PATCH', `/api/projects/${h.projectId}`, { deploy_drafts: false })
    const { id } = await cp.environment(h.projectId, 'main')
    await h.opened({ number: 8, head: sha(1), draft: true })
    const release = await hold(async (tx) => {
      await sql`update projects set updated_at = updated_at where id = ${h.projectId}`.execute(tx)
      const waits = { draft: 0, waitingFor: 'environment_limit', waitingSince: 1 } as const
      await tx.updateTable('pullRequests').set(waits).where('number', '=', 8).execute()
    })
    const { ctx } = cp.running
    const freed = change(ctx, (c) => finishRemoval(ctx, c, id, { forget: true }))
    await blockedOrOver(freed)
    await release()
    await freed
    expect((await h.environments()).map((e) => e.identifier)).toEqual(['pr-8'])
  })

  test('the last two environments of a deleted project go, and the project with them', async () => {
    const one = await cp.environment(h.projectId, 'one')
    const two = await cp.environment(h.projectId, 'two')
    await db()
      .updateTable('projects')
      .set({ status: 'deleting' })
      .where('id', '=', h.projectId)
      .execute()
    const { ctx } = cp.running
    const { promise: released, resolve: release } = Promise.withResolvers<void>()
    const { promise: done, resolve: isDone } = Promise.withResolvers<void>()
    const first = change(ctx, async (c) => {
      await finishRemoval(ctx, c, one.id, { forget: true })
      isDone()
      await released
    })
    await done
    const second = change(ctx, (c) => finishRemoval(ctx, c, two.id, { forget: true }))
    await blockedOrOver(second)
    release()
    await Promise.all([first, second])
    expect((await cp.call('GET', `/api/projects/${h.projectId}`)).status).toBe(404)
  })

  describe('a password changes', () => {
    const from = { address: '127.0.0.1', requestId: 'test' }
    const changePassword = async () => {
      const { id } = await db().selectFrom('users').select('id').executeTakeFirstOrThrow()
      await replacePassword(cp.running.ctx, id, 'a hash', from)
    }

    const approved = async (): Promise<string> => {
      const ada = new Browser(cp)
      await ada.signIn('ada@example.com', PASSWORD)
      const { device_code } = await startDevice(cp)
      await approve(cp, ada, device_code)
      return device_code
    }

    test('while a login is refreshed: it gives no further token', async () => {
      const { body } = await poll(cp, await approved())
      const release = await hold((tx) =>
        sql`update refresh_tokens set expires_at = expires_at`.execute(tx),
      )
      const refreshed = refreshTokens(cp.running.ctx, String(body.refresh_token), from)
      await blockedOrOver(refreshed)
      await changePassword()
      await release()
      expect(await refreshed).toBeUndefined()
      const living = await db()
        .selectFrom('tokens')
        .select('id')
        .where('loginId', 'is not', null)
        .where('revokedAt', 'is', null)
        .execute()
      expect(living).toEqual([])
    })

    test('after a device was approved with the old one: it gets no token', async () => {
      const device = await approved()
      await changePassword()
      expect((await poll(cp, device)).body).toMatchObject({
        error: 'access_denied',
      })
    })
  })
})
