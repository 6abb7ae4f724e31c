// Keys at rest: one data key per organization, wrapped by the installation's key. Replacing the installation's key
// rewrites no value; replacing a data key re-encrypts every value. On both databases.
import { copyFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { DataKey, ProjectCreated } from '@berth/shared/api'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { readWebhookSecrets } from '../../control-plane/src/app/forges/webhook-secrets.ts'
import { continueKeyRotations } from '../../control-plane/src/app/installation/data-key-rotation.ts'
import { kindsOf } from '../../control-plane/src/app/installation/encrypted-columns.ts'
import { createKek, loadKek, SecretStore } from '../../control-plane/src/keys/secret-store.ts'
import { SECRET_STORE } from '../../control-plane/src/limits/keys.ts'
import { findProject } from '../../control-plane/src/store/projects/projects.ts'
import { addMember, addOrganization } from '../fixtures/people/members.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'

describe.each(ENGINES)('data keys on %s', (engine) => {
  let cp: TestControlPlane
  let project: ProjectCreated
  beforeEach(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    const server = await cp.server()
    project = (await cp.project('shop', server.id)) as ProjectCreated
    await cp.environment(project.id, 'main', { variables: { A: 'one' } })
  })
  afterEach(() => cp.close())

  const keys = () => cp.running.ctx.db.selectFrom('organizationKeys').selectAll().execute()
  const sealed = async () => {
    const { db } = cp.running.ctx
    const [row] = await db.selectFrom('variables').select('sealed').execute()
    const { caKeySealed } = await db
      .selectFrom('installation')
      .select('caKeySealed')
      .executeTakeFirstOrThrow()
    const found = await findProject(db, project.id)
    return [row?.sealed, found?.webhookSecretSealed, found?.deployKeySealed, caKeySealed]
  }
  const secret = async () => {
    const found = await findProject(cp.running.ctx.db, project.id)
    return found && (await readWebhookSecrets(cp.running.ctx, found)).current
  }
  const kek = () => join(cp.dir, 'kek')

  test('every organization has its own, and what it seals names it', async () => {
    const organizationId = await addOrganization(cp, 'rival')
    const rival = await addMember(cp, 'Eve', 'owner', { organizationId })
    const server = await rival.call('POST', '/api/servers', { name: 's', hostname: '10.0.0.1' })
    const made = await rival.call('POST', '/api/projects', {
      name: 'theirs',
      repo_url: 'https://git.example.com/x.git',
      domain: 'rival.example',
      server_ids: [server.body.id],
    })
    expect(made.status).toBe(201)
    const data = (await keys()).filter((k) => k.purpose === 'data')
    expect(data.map((k) => k.organizationId).toSorted()).toEqual([1, organizationId, null])
    expect(new Set(data.map((k) => k.wrapped)).size).toBe(3)
    const own = data.find((k) => k.organizationId === 1)?.id
    const installation = data.find((k) => k.organizationId === null)?.id
    const [variable, webhook, deployKey, ca] = await sealed()
    for (const text of [variable, webhook, deployKey]) expect(text).toMatch(`v2|${own}|`)
    expect(ca).toMatch(`v2|${installation}|`)
    // in another organization's row it cannot be decrypted
    const { secretStore } = cp.running.ctx
    const place = { table: 'projects', column: 'webhook_secret_sealed', rowId: project.id }
    const open = (id: number) =>
      secretStore.open('webhook-secret', { ...place, organizationId: id }, webhook ?? '')
    expect(Buffer.from(await open(1)).toString()).toBe(project.webhook_secret)
    await expect(open(organizationId)).rejects.toThrow('sealed with another key')
  })

  test('a new key of the installation wraps them again and writes no value', async () => {
    const before = { keys: await keys(), sealed: await sealed() }
    const former = join(cp.dir, 'kek.former')
    copyFileSync(kek(), former)
    rmSync(kek())
    createKek(kek())
    cp.outside = { env: { BERTH_KEK_PREVIOUS_FILE: former } }
    await cp.restart()
    expect(await sealed()).toEqual(before.sealed)
    const after = await keys()
    const changed = after.filter(
      (k) => k.purpose === 'data' && k.wrapped !== before.keys.find((b) => b.id === k.id)?.wrapped,
    )
    expect(changed.length).toBe(2)
    cp.outside = {} // the previous key is not needed now
    rmSync(former)
    await cp.restart()
    expect(await secret()).toBe(project.webhook_secret)
    const patch = { set: { A: 'one' } }
    const same = await cp.call('PATCH', '/api/environments/1/variables', patch)
    expect(same.body).toMatchObject({ unchanged: ['A'], set: [] })
  })

  test('without the former key a replaced one does not start', async () => {
    const former = join(cp.dir, 'kek.former')
    copyFileSync(kek(), former)
    rmSync(kek())
    createKek(kek())
    await expect(cp.restart()).rejects.toThrow('sealed with another key')
    rmSync(kek())
    copyFileSync(former, kek())
    await cp.reopen()
    expect(await secret()).toBe(project.webhook_secret)
  })

  test('the wrapped key itself is bound to its organization and to the installation', async () => {
    const row = (await keys()).find((k) => k.purpose === 'data' && k.organizationId === 1)
    const secretStore = new SecretStore(loadKek(kek()))
    const place = { table: 'organization_keys', column: 'wrapped', rowId: 'data' }
    const open = (c: SecretStore, organizationId: number | null) =>
      c.open('data-key', { ...place, organizationId }, row?.wrapped ?? '')
    expect((await open(secretStore, 1)).length).toBe(32)
    await expect(open(secretStore, 2)).rejects.toThrow('moved from another place')
    await expect(open(secretStore, null)).rejects.toThrow('moved from another place')
    const stranger = new SecretStore(createKek(join(cp.dir, 'other')))
    await expect(open(stranger, 1)).rejects.toThrow('sealed with another key')
  })

  describe('another data key', () => {
    const rotate = (organization_id: number | null) =>
      cp.call<DataKey>('POST', '/api/admin/data_keys/rotate', { organization_id })
    const inUse = async (organizationId: number | null) =>
      (await keys()).find(
        (k) => k.purpose === 'data' && k.organizationId === organizationId && k.retiredAt === null,
      )?.id
    /** Every text in the database that a data key encrypted, by column. */
    const sealedTexts = async (): Promise<string[]> => {
      const { db } = cp.running.ctx
      const found: string[] = []
      for (const kind of [...kindsOf(1), ...kindsOf(null)]) {
        const { rows } = await sql<{ text: string | null }>`
          select ${sql.ref(kind.column)} as text from ${sql.table(kind.table)}`.execute(db)
        for (const { text } of rows) if (text?.startsWith('v2|')) found.push(text)
      }
      return found
    }
    /** Restarts at the real time, because certificates are issued and verified by one clock. */
    const restartNow = (): Promise<void> => {
      cp.clock.offsetMs = 0
      return cp.restart()
    }
    const finish = async (): Promise<void> => {
      for (let n = 0; n < 5; n++) await continueKeyRotations(cp.running.ctx)
    }

    test('seals at once, opens what was there, takes everything over and is alone in the end', async () => {
      await cp.call('PUT', `/api/projects/${project.id}/host_token`, { token: 'glpat-1' })
      const credentials = { username: 'ada', password: 'one' }
      await cp.call('PUT', `/api/projects/${project.id}/registries/ghcr.io`, credentials)
      await cp.call('PUT', '/api/organizations/1/registries/docker.io', credentials)
      const levels = `/api/projects/${project.id}/variables`
      await cp.call('PATCH', levels, { level: 'previews', set: { P: 'three' } })
      const before = { own: await inUse(1), installation: await inUse(null) }
      for (const organizationId of [1, null])
        expect((await rotate(organizationId)).status).toBe(201)
      const after = { own: await inUse(1), installation: await inUse(null) }
      expect(after).not.toEqual(before)
      expect(await secret()).toBe(project.webhook_secret) // encrypted with the previous one
      await cp.call('PATCH', '/api/environments/1/variables', { set: { B: 'two' } })
      // a kill in the middle: the next process continues
      await cp.restart()
      await finish()
      const texts = await sealedTexts()
      expect(texts.length).toBeGreaterThan(5)
      const fresh = new RegExp(`^v2\\|(${after.own}|${after.installation})\\|`)
      expect(texts.filter((text) => !fresh.test(text))).toEqual([])
      expect(await secret()).toBe(project.webhook_secret)
      const listed = await cp.call<DataKey[]>('GET', '/api/admin/data_keys')
      expect(listed.body.filter((key) => key.retired_at !== null)).toHaveLength(2)
      cp.clock.offsetMs += SECRET_STORE.retiredKeptMs + 1_000
      await finish()
      expect((await keys()).filter((k) => k.retiredAt !== null)).toEqual([])
      await restartNow()
      const patch = { set: { A: 'one', B: 'two' } }
      const same = await cp.call('PATCH', '/api/environments/1/variables', patch)
      expect(same.body).toMatchObject({ unchanged: ['A', 'B'], set: [] })
      const ofLevel = await cp.call('PATCH', levels, { level: 'previews', set: { P: 'three' } })
      expect(ofLevel.body).toMatchObject({ unchanged: ['P'], set: [] })
    })

    test('many at once leave one in use, and no value is lost', async () => {
      await Promise.all(
        Array.from({ length: 8 }, async (_, n) => {
          await rotate(1)
          await cp.call('PATCH', '/api/environments/1/variables', { set: { [`K${n}`]: `v${n}` } })
          await continueKeyRotations(cp.running.ctx)
        }),
      )
      await finish()
      cp.clock.offsetMs += SECRET_STORE.retiredKeptMs + 1_000
      await finish()
      const data = (await keys()).filter((k) => k.purpose === 'data' && k.organizationId === 1)
      expect(data).toHaveLength(1)
      await restartNow()
      const set = Object.fromEntries(Array.from({ length: 8 }, (_, n) => [`K${n}`, `v${n}`]))
      const same = await cp.call('PATCH', '/api/environments/1/variables', { set })
      expect(same.body).toMatchObject({ set: [] })
    })

    test('a value that does not open at its place holds nothing up', async () => {
      const { db } = cp.running.ctx
      const lost = { hostTokenSealed: (await sealed())[1] ?? null } // a webhook secret, not a token
      await db.updateTable('projects').set(lost).where('id', '=', project.id).execute()
      await rotate(1)
      await finish()
      cp.clock.offsetMs += SECRET_STORE.retiredKeptMs + 1_000
      await finish()
      expect((await keys()).filter((k) => k.retiredAt !== null)).toEqual([])
    })

    test('no column with sealed values is forgotten', async () => {
      const { db } = cp.running.ctx
      const known = new Set([...kindsOf(1), ...kindsOf(null)].map((k) => `${k.table}.${k.column}`))
      const tables = await db.introspection.getTables()
      const named = tables.flatMap(({ name, columns }) =>
        columns.filter((c) => /sealed|wrapped/.test(c.name)).map((c) => `${name}.${c.name}`),
      )
      expect(named.filter((column) => !known.has(column))).toEqual([])
      for (const table of ['projects', 'environments']) {
        expect(known).toContain(`${table}.basic_auth_hash`)
      }
    })

    test('is for platform administrators, and for organizations that are there', async () => {
      const owner = await addMember(cp, 'Eve', 'owner')
      const refused = await owner.call('POST', '/api/admin/data_keys/rotate', {
        organization_id: 1,
      })
      expect(refused.body).toMatchObject({ code: 'platform_admin_only' })
      expect((await rotate(99)).status).toBe(404)
      expect((await cp.call('POST', '/api/admin/data_keys/rotate', {})).status).toBe(422)
    })
  })
})
