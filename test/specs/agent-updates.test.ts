// Rollouts of new agents over the wire: who may start them, waves, the first failure, a restart in the middle, and what an
// installation without a signed release says. On both databases.
import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { VERSION } from '@berth/shared'
import type { AgentRollout, AgentUpdates, Server } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { upgradeAfterStart } from '../../control-plane/src/app/servers/rollouts.ts'
import { withBootLock } from '../../control-plane/src/store/engine/session-locks.ts'
import { addMember, type Person } from '../fixtures/people/members.ts'
import { missing } from '../fixtures/platform/components.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { WireAgent, type WireSession } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'

const OLD = '0.9.0'
const PACKAGE = Buffer.alloc(200_000, 'agent')
const { privateKey } = generateKeyPairSync('ed25519')

function writeRelease(folder: string): void {
  const file = 'berth-agent-linux-x64.tar.gz'
  writeFileSync(join(folder, file), PACKAGE)
  const sha256 = createHash('sha256').update(PACKAGE).digest('hex')
  const platforms = { 'linux-x64': { file, sha256, bytes: PACKAGE.length } }
  const facts = { version: VERSION, counter: 5, minimum_control_plane: OLD, platforms }
  const manifest = Buffer.from(JSON.stringify(facts))
  writeFileSync(join(folder, 'berth-agents.json'), manifest)
  writeFileSync(join(folder, 'berth-agents.json.sig'), sign(null, manifest, privateKey))
}

interface Member {
  id: number
  agent: WireAgent
  session: WireSession
}

describe.each(ENGINES)('upgrades of agents on %s', (engine) => {
  const folder = mkdtempSync(join(tmpdir(), 'berth-packages-'))
  let cp: TestControlPlane
  let admin: Person
  let developer: Person
  let fleet: Member[]

  const hello = { agentVersion: OLD, capabilities: ['manual', 'update'] }
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine, { config: { agentPackages: folder } })
    await cp.setUp()
    admin = await addMember(cp, 'Adm', 'admin')
    developer = await addMember(cp, 'Dev', 'developer')
    fleet = []
    for (const name of ['a', 'b', 'c', 'd']) {
      const { id } = await cp.server(name)
      const agent = await WireAgent.join(cp, id)
      fleet.push({ id, agent, session: await agent.active(hello) })
    }
  })
  afterAll(async () => {
    for (const { agent } of fleet) agent.close()
    await cp.close()
    rmSync(folder, { recursive: true, force: true })
  })

  const start = (who: Person) =>
    who.call<AgentRollout & { code: string; detail: string }>('POST', '/api/agent_updates', {
      scope: 'organization',
    })
  const stateOf = async ({ id }: Member): Promise<string | undefined> =>
    (await cp.call<Server>('GET', `/api/servers/${id}`)).body.update?.state
  const last = async (): Promise<AgentRollout | undefined> =>
    (await admin.call<AgentUpdates>('GET', '/api/agent_updates')).body.rollouts[0]
  const is = (member: Member, wanted: string): Promise<true> =>
    until(`${member.id} ${wanted}`, async () => (await stateOf(member)) === wanted || undefined)

  const report = ({ session }: Member, updateId: string, kept: boolean): void => {
    const message = kept ? '' : 'It ended 2 times.'
    const value = { updateId, fromVersion: OLD, toVersion: VERSION, kept, message }
    session.event({ body: { case: 'updated', value } })
  }
  const member = (n: number): Member => {
    const found = fleet[n]
    if (!found) throw new Error(`no server ${n}`)
    return found
  }

  test('without a signed release, the reason and the command are the answer', async () => {
    expect((await start(developer)).status).toBe(403)
    const { status, body } = await start(admin)
    expect([status, body.code]).toEqual([409, 'agent_not_upgradable'])
    expect(body.detail).toContain('was not installed from a release')
    writeRelease(folder)
    const found = await admin.call<AgentUpdates>('GET', '/api/agent_updates')
    expect(found.body).toMatchObject({ version: VERSION, reason: null, rollouts: [] })
    expect(found.body.command).toMatch(/^curl .*sh install\.sh$/)
  })

  test('the first failure stops a rollout; only a platform administrator upgrades everywhere', async () => {
    const everywhere = { scope: 'installation' }
    expect((await admin.call('POST', '/api/agent_updates', everywhere)).status).toBe(403)
    const begun = await start(admin)
    expect([begun.status, begun.body.wave, begun.body.servers.offered]).toEqual([202, 1, 1])
    const first = member(0)
    const { updateId, manifest, signatures } = await first.session.next('update')
    expect(JSON.parse(Buffer.from(manifest).toString('utf8'))).toMatchObject({ counter: 5 })
    expect(signatures).toHaveLength(1)
    // another server's report changes nothing
    report(member(1), updateId, true)
    report(first, updateId, false)
    await is(first, 'failed')
    await until('the end', async () => ((await last())?.state === 'failed' ? true : undefined))
    expect(await last()).toMatchObject({
      reason: 'a: It ended 2 times.',
      servers: { failed: 1, skipped: 3, kept: 0 },
    })
  })

  test('one, a tenth, all; a restart of the control plane continues it', async () => {
    await start(admin)
    const { updateId } = await member(0).session.next('update')
    expect(await member(0).agent.fetchRelease(updateId, 'linux-x64', 0)).toEqual(PACKAGE)
    expect(await member(0).agent.fetchRelease(updateId, 'linux-x64', 150_000)).toEqual(
      PACKAGE.subarray(150_000),
    )
    await expect(member(1).agent.fetchRelease(updateId, 'linux-x64', 0)).rejects.toThrow(
      'No release is offered',
    )
    await cp.restart()
    for (const one of fleet) one.session = await one.agent.active(hello)
    // desired state: the same offer comes with the new session
    expect((await member(0).session.next('update')).updateId).toBe(updateId)
    report(member(0), updateId, true)
    const second = await member(1).session.next('update')
    expect(await stateOf(member(2))).toBe('waiting')
    report(member(1), second.updateId, true)
    for (const n of [2, 3]) {
      const offer = await member(n).session.next('update')
      report(member(n), offer.updateId, true)
    }
    await until('the end', async () => ((await last())?.state === 'done' ? true : undefined))
    expect(await last()).toMatchObject({ servers: { kept: 4 }, reason: null })
  })

  test('one server is upgraded alone; one that cannot update itself gets the command', async () => {
    const path = `/api/servers/${member(3).id}/upgrade`
    expect((await developer.call('POST', path)).status).toBe(403)
    const one = await admin.call<AgentRollout>('POST', path)
    expect([one.status, one.body.servers.offered]).toEqual([202, 1])
    report(member(3), (await member(3).session.next('update')).updateId, true)
    await is(member(3), 'kept')
    member(2).session.cut()
    const session = await member(2).agent.active({ agentVersion: OLD, capabilities: ['manual'] })
    Object.assign(member(2), { session })
    const refused = await admin.call('POST', `/api/servers/${member(2).id}/upgrade`)
    expect(refused.status).toBe(409)
    expect(refused.body.detail).toMatch(/cannot update itself.*Run this on the server: curl/)
  })
})

describe.skipIf(missing('postgres'))('upgrades after a start', () => {
  const folder = mkdtempSync(join(tmpdir(), 'berth-packages-'))
  const lines: string[] = []
  let cp: TestControlPlane
  let agent: WireAgent

  beforeAll(async () => {
    writeRelease(folder)
    const config = { agentPackages: folder, agentUpgrades: 'automatic' as const }
    cp = await TestControlPlane.start('postgres', { config, logTo: (line) => lines.push(line) })
    await cp.setUp()
    agent = await WireAgent.join(cp, (await cp.server('a')).id)
    await agent.active({ agentVersion: OLD, capabilities: ['manual', 'update'] })
  })
  afterAll(async () => {
    agent.close()
    await cp.close()
    rmSync(folder, { recursive: true, force: true })
  })

  const rollouts = async (): Promise<number> =>
    (await cp.call<AgentUpdates>('GET', '/api/agent_updates')).body.rollouts.length

  test('are left to one that is still starting', async () => {
    const { ctx } = cp.running
    await withBootLock(ctx.db, 'postgres', 60_000, () => upgradeAfterStart(ctx, 1))
    expect(lines.filter((line) => line.includes('left to another control plane'))).toHaveLength(1)
    expect(await rollouts()).toBe(0)
  })

  test('begin once if two start', async () => {
    const { ctx } = cp.running
    await Promise.all([upgradeAfterStart(ctx), upgradeAfterStart(ctx)])
    expect(await rollouts()).toBe(1)
  })
})
