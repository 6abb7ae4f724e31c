// Keys at rest: one data key an organization, wrapped by the installation's key; that key can be replaced, and no value
// is written again for it; on both databases.
import { copyFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { ProjectCreated } from '@berth/shared/rest'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { readWebhookSecrets } from '../../control-plane/src/app/webhook-secrets.ts'
import { Custody, createKek, loadKek } from '../../control-plane/src/ca/custody.ts'
import { findProject } from '../../control-plane/src/store/projects.ts'
import { TestControlPlane } from '../control-plane.ts'
import { ENGINES } from '../engines.ts'
import { addMember, addOrganization } from '../members.ts'

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
    return found && readWebhookSecrets(cp.running.ctx, found).current
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
    // moved into another organization's row, it opens nothing
    const { custody } = cp.running.ctx
    const place = { table: 'projects', column: 'webhook_secret_sealed', rowId: project.id }
    const open = (id: number) =>
      custody.open('webhook-secret', { ...place, organizationId: id }, webhook ?? '')
    expect(Buffer.from(open(1)).toString()).toBe(project.webhook_secret)
    expect(() => open(organizationId)).toThrow('sealed with another key')
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
    cp.outside = {} // the former one is not needed any more
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
    const custody = new Custody(loadKek(kek()))
    const place = { table: 'organization_keys', column: 'wrapped', rowId: 'data' }
    const open = (c: Custody, organizationId: number | null) =>
      c.open('data-key', { ...place, organizationId }, row?.wrapped ?? '')
    expect(open(custody, 1).length).toBe(32)
    expect(() => open(custody, 2)).toThrow('moved from another place')
    expect(() => open(custody, null)).toThrow('moved from another place')
    const stranger = new Custody(createKek(join(cp.dir, 'other')))
    expect(() => open(stranger, 1)).toThrow('sealed with another key')
  })
})
