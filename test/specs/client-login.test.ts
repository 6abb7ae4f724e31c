// "`login` obtains the bearer token": the real client as a process against a real control plane, approved in a browser.
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { berth, startBerth, temporaryFolder } from '../../cli/src/testing/berth.ts'
import { Browser, PASSWORD, setUpWithPassword } from '../fixtures/people/people.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'

const DAY = 86_400_000

async function logIn(cp: TestControlPlane, env: Record<string, string>): Promise<void> {
  const running = startBerth(['login', '--url', cp.url, '--scope', 'admin'], { env })
  await running.shows(/Waiting for approval/)
  const { db } = cp.running.ctx
  const device = await db
    .selectFrom('deviceLogins')
    .selectAll()
    .where('status', '=', 'pending')
    .executeTakeFirstOrThrow()
  const browser = new Browser(cp)
  await browser.signIn('ada@example.com', PASSWORD)
  const shown = `${device.userCode.slice(0, 4)}-${device.userCode.slice(4)}`
  expect((await browser.send('POST', '/device/approve', { user_code: shown })).status).toBe(200)
  await cp.advance(60_000) // the real client polls faster here than the server allows
  const ended = await running.ended
  expect(ended.code, ended.stderr).toBe(0)
  expect(ended.stderr).toContain(`First copy your one-time code: ${shown}`)
  expect(ended.stderr).toContain('as Ada (ada@example.com)')
}

test('log in through a browser, work, be refreshed, log out: nothing opens any more', async () => {
  const cp = await TestControlPlane.start('sqlite')
  try {
    await setUpWithPassword(cp)
    const folder = temporaryFolder()
    const env = { BERTH_CONFIG_DIR: folder }
    const file = join(folder, 'credentials.json')
    const entry = () => JSON.parse(readFileSync(file, 'utf8'))[cp.url]
    await logIn(cp, env)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const first = entry()
    expect((await berth(['whoami'], { env })).stdout).toContain('read,deploy,write,ssh,admin')

    await cp.advance(31 * DAY)
    const three = await Promise.all([1, 2, 3].map(() => berth(['whoami'], { env })))
    expect(three.map((e) => e.code)).toEqual([0, 0, 0])
    const second = entry()
    expect(second.access_token).not.toBe(first.access_token)
    expect(second.refresh_token).not.toBe(first.refresh_token)
    const spent = await cp.running.ctx.db
      .selectFrom('refreshTokens')
      .selectAll()
      .where('spentAt', 'is not', null)
      .execute()
    expect(spent).toHaveLength(1) // three commands, one refresh
    expect(spent[0]?.repeatedAt).toBeNull()

    await cp.advance(31 * DAY)
    const server = ['server', 'add', 'one', '--hostname', '127.0.0.1', '--no-wait']
    const added = await berth(server, { env })
    expect(added.code, added.stderr).toBe(0) // a POST is refreshed as well, and sent once
    const { servers } = { servers: await cp.call<object[]>('GET', '/api/servers') }
    expect(servers.body).toHaveLength(1)

    const last = entry()
    const out = await berth(['logout'], { env })
    expect(out.stderr).toContain(`Logged out of ${cp.url}`)
    const stale = await cp.call('GET', '/api/me', undefined, {
      authorization: `Bearer ${last.access_token}`,
    })
    expect(stale.body.code).toBe('token_revoked')
    expect((await berth(['whoami'], { env })).code).toBe(4)
  } finally {
    await cp.close()
  }
})

test('a login that was revoked elsewhere says so: 4, and what to type', async () => {
  const cp = await TestControlPlane.start('sqlite')
  try {
    await setUpWithPassword(cp)
    const env = { BERTH_CONFIG_DIR: temporaryFolder() }
    await logIn(cp, env)
    const { db } = cp.running.ctx
    const login = await db.selectFrom('logins').selectAll().executeTakeFirstOrThrow()
    await db.updateTable('logins').set({ revokedAt: 1 }).where('id', '=', login.id).execute()
    await cp.advance(31 * DAY)
    const { code, stderr } = await berth(['whoami'], { env })
    expect(code).toBe(4)
    expect(stderr).toContain('this login has ended')
    expect(stderr).toContain(`berth login --url ${cp.url}`)
  } finally {
    await cp.close()
  }
})
