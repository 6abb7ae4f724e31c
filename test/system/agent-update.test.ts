// Upgrades of agents by a signed manifest, with packages of real releases: a new version is kept, one that crashes is
// undone, and what is not signed, older or changed is refused.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentRollout, AgentUpdates, Server } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../fixtures/server/installation.ts'
import {
  type BuiltRelease,
  buildRelease,
  CRASHING_AGENT,
  installVersion,
} from '../fixtures/server/releases.ts'
import { type InstalledAgent, Upgradable } from '../fixtures/server/upgradable.ts'

const isRoot = process.getuid?.() === 0

describe.skipIf(!isRoot || process.platform !== 'linux')('an agent', () => {
  let old: BuiltRelease
  let next: BuiltRelease
  let crashing: BuiltRelease
  let platform: Upgradable
  let agent: InstalledAgent

  beforeAll(async () => {
    old = buildRelease({ from: 'tree', version: '1.90.0', counter: 1_000 })
    next = buildRelease({ from: 'tree', version: '1.90.1', counter: 2_000 })
    crashing = buildRelease({
      from: 'tree',
      version: '1.90.2',
      counter: 3_000,
      changes: [CRASHING_AGENT],
    })
    platform = await Upgradable.open(old)
    agent = await platform.addAgent(old, 'one')
  }, 600_000)
  afterAll(() => platform?.close(), 120_000)

  /** As after an upgrade of the control plane. */
  async function serve(release: BuiltRelease): Promise<void> {
    await platform.server.stop()
    if (!existsSync(join(platform.serverOpt, release.version))) {
      installVersion(release, 'server', platform.serverOpt)
    }
    platform.startServer()
    await platform.online(agent)
  }

  const upgrade = (): Promise<AgentRollout> => platform.post(`/api/servers/${agent.id}/upgrade`)

  const ended = (): Promise<Server> =>
    until('the end of the update', async () => {
      const server = await platform.get<Server>(`/api/servers/${agent.id}`)
      const state = server.update?.state
      return state !== 'waiting' && state !== 'offered' ? server : undefined
    })

  const over = (): Promise<AgentRollout> =>
    until('the end of the rollout', async () => {
      const { rollouts } = await platform.get<AgentUpdates>('/api/agent_updates')
      return rollouts[0]?.state === 'running' ? undefined : rollouts[0]
    })

  test('is not upgraded to the version that it has', async () => {
    await expect(upgrade()).rejects.toThrow('one runs version 1.90.0 already')
  })

  test('runs the new version afterwards', async () => {
    await serve(next)
    expect(await platform.get<AgentUpdates>('/api/agent_updates')).toMatchObject({
      version: '1.90.1',
      reason: null,
      rollouts: [],
    })
    const rollout = await upgrade()
    expect(rollout).toMatchObject({ state: 'running', version: '1.90.1', wave: 1 })
    const server = await ended()
    expect(server.update).toMatchObject({ state: 'kept', reason: null, version: '1.90.1' })
    expect(server).toMatchObject({ agent_version: '1.90.1', agent_outdated: false })
    expect(platform.currentOf(agent)).toBe('1.90.1')
    expect(existsSync(join(agent.opt, 'updating'))).toBe(false)
    expect(await over()).toMatchObject({ state: 'done', servers: { kept: 1 } })
  }, 180_000)

  test('returns by itself from a version that crashes', async () => {
    await serve(crashing)
    await upgrade()
    const server = await ended()
    expect(server.update).toMatchObject({ state: 'failed', version: '1.90.2' })
    expect(server.update?.reason).toMatch(/^Version 1\.90\.2 was undone\. It ended 2 times/)
    expect(platform.currentOf(agent)).toBe('1.90.1')
    await platform.online(agent, '1.90.1')
    const rollout = await over()
    expect(rollout).toMatchObject({ state: 'failed', servers: { failed: 1 } })
    expect(rollout.reason).toMatch(/^one: Version 1\.90\.2 was undone/)
  }, 180_000)
})
