// Secrets that the dashboard shows once: they have an address that survives a reload, for their maker alone, until they
// are confirmed, expire, or the maker leaves the organization. A token gets none. On both databases.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { sweep } from '../../control-plane/src/app/deployments/deadlines.ts'
import { hashPassword } from '../../control-plane/src/identity/passwords.ts'
import { ONE_TIME_SECRETS } from '../../control-plane/src/limits/browser.ts'
import { insertPassword } from '../../control-plane/src/store/people/accounts.ts'
import { Browser, PASSWORD } from '../fixtures/people/people.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { makePerson } from '../fixtures/platform/dashboard-client.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'

interface Shown {
  title: string
  back: string
  values: { label: string; text: string }[]
}

describe.each(ENGINES)('one-time secrets on %s', (engine) => {
  let cp: TestControlPlane
  let packages: string
  let projectId = 0
  beforeEach(async () => {
    packages = mkdtempSync(join(tmpdir(), 'berth-packages-'))
    cp = await TestControlPlane.start(engine, { env: { BERTH_AGENT_PACKAGES: packages } })
    await cp.setUp()
    const server = await cp.server()
    projectId = (await cp.project('shop', server.id)).id
  })
  afterEach(async () => {
    await cp.close()
    rmSync(packages, { recursive: true })
  })

  async function signedIn(name: string): Promise<Browser> {
    const email = `${name}@example.com`
    const { db, clock } = cp.running.ctx
    const { userId } = await makePerson(cp, name, { organizationId: 1, role: 'owner', email })
    await insertPassword(db, userId, await hashPassword(PASSWORD), clock.now())
    const browser = new Browser(cp)
    await browser.report('session.signIn', { email, password: PASSWORD })
    return browser
  }
  const regenerate = async (browser: Browser) => {
    const answer = await browser.report<{ secret: string; secret_id: string }>(
      'project.regenerateSecret',
      { project_id: projectId },
    )
    const made = answer.body.result?.data
    if (!made) throw new Error(answer.text)
    return made
  }
  const read = async (browser: Browser, id: string) => {
    const answer = await browser.ask<Shown>('secret.get', { id })
    return { status: answer.status, shown: answer.body.result?.data }
  }

  test('survive a reload and a restart, and end with the confirmation', async () => {
    const ada = await signedIn('ada1')
    const { secret, secret_id: id } = await regenerate(ada)
    const wanted = { title: 'Webhook secret of shop', back: `/projects/${projectId}/webhooks` }
    for (const _ of [1, 2]) {
      const { shown } = await read(ada, id)
      expect(shown).toMatchObject(wanted)
      expect(shown?.values.map(({ text }) => text)).toContain(secret)
      await cp.restart()
    }
    await ada.report('secret.confirm', { id })
    expect((await read(ada, id)).status).toBe(404)
    expect((await ada.report('secret.confirm', { id })).status).toBe(404)
  })

  test('are sealed, and nobody else reads or confirms them', async () => {
    const [ada, grace] = [await signedIn('ada2'), await signedIn('grace2')]
    const { secret, secret_id: id } = await regenerate(ada)
    const { db } = cp.running.ctx
    const { rows } = await sql<object>`select * from one_time_secrets`.execute(db)
    expect(rows).toHaveLength(1)
    expect(JSON.stringify(rows)).not.toContain(secret)
    expect((await read(grace, id)).status).toBe(404)
    expect((await grace.report('secret.confirm', { id })).status).toBe(404)
    expect((await read(new Browser(cp), id)).status).toBe(401)
    expect((await read(ada, id)).status).toBe(200)
  })

  test('expire, and the sweep deletes them', async () => {
    const ada = await signedIn('ada3')
    const { secret_id: id } = await regenerate(ada)
    await cp.advance(ONE_TIME_SECRETS.keptMs - 60_000)
    expect((await read(ada, id)).status).toBe(200)
    await cp.advance(61_000)
    expect((await read(ada, id)).status).toBe(404)
    await sweep(cp.running.ctx)
    const { db } = cp.running.ctx
    expect(await db.selectFrom('oneTimeSecrets').select('id').execute()).toEqual([])
  })

  test('end with the membership', async () => {
    const ada = await signedIn('ada4')
    const { secret_id: id } = await regenerate(ada)
    const { db } = cp.running.ctx
    const { userId } = await db
      .selectFrom('oneTimeSecrets')
      .select('userId')
      .executeTakeFirstOrThrow()
    await db.deleteFrom('members').where('userId', '=', userId).execute()
    expect((await read(ada, id)).status).toBe(404)
  })

  test('are bounded: the oldest of a person is dropped first', async () => {
    const ada = await signedIn('ada5')
    const made: string[] = []
    for (let n = 0; n <= ONE_TIME_SECRETS.perUser; n++) {
      made.push((await regenerate(ada)).secret_id)
      cp.clock.offsetMs += 1
    }
    expect((await read(ada, made[0] ?? '')).status).toBe(404)
    expect((await read(ada, made[1] ?? '')).status).toBe(200)
  })

  test('a token gets the secret in the answer only', async () => {
    const answer = await cp.call<{ result: { data: { secret: string; secret_id: null } } }>(
      'POST',
      '/trpc/project.regenerateSecret',
      { project_id: projectId },
    )
    expect(answer.body.result.data).toMatchObject({ secret_id: null })
    expect(answer.body.result.data.secret).toMatch(/^whsec_/)
  })

  test('a join command is made only if it would work there', async () => {
    const ada = await signedIn('ada6')
    const { body: far } = await cp.call<{ id: number }>('POST', '/api/servers', {
      name: 'far',
      hostname: 'far.example.com',
    })
    const { body: near } = await cp.call<{ id: number }>('POST', '/api/servers', {
      name: 'near',
      hostname: '127.0.0.1',
    })
    interface Made {
      problems: { code: string; message: string }[]
      missing: string[]
      join: { command: string; secret_id: string } | null
    }
    const ask = async (id: number): Promise<Made | undefined> =>
      (await ada.report<Made>('server.joinToken', { server_id: id })).body.result?.data
    const tokens = () => cp.running.ctx.db.selectFrom('joinTokens').select('id').execute()
    expect(await ask(far.id)).toMatchObject({
      problems: [{ code: 'address_local' }, { code: 'no_package' }],
      join: null,
    })
    expect(await ask(near.id)).toMatchObject({ problems: [{ code: 'no_package' }], join: null })
    expect(await tokens()).toEqual([])

    writeFileSync(`${packages}/berth-agent-linux-x64.tar.gz`, 'not really an agent')
    const made = await ask(near.id)
    expect(made).toMatchObject({ problems: [], missing: ['arm64'] })
    expect(made?.join?.command).toMatch(/install\.sh/)
    const { shown } = await read(ada, made?.join?.secret_id ?? '')
    expect(shown?.values).toEqual([{ label: 'Join command', text: made?.join?.command }])
    await cp.advance(15 * 60_000 + 1_000)
    expect((await read(ada, made?.join?.secret_id ?? '')).status).toBe(404)
  })
})
