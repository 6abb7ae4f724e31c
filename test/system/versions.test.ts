// Version N and the one before it work together in both directions: packages of this tree, and of the recorded version
// 1.15.0, which is built from this repository's history.
import type { Environment, Server, Task } from '@berth/shared/api'
import { afterEach, describe, expect, test } from 'vitest'
import { type BuiltRelease, buildRelease } from '../fixtures/server/releases.ts'
import { type InstalledAgent, Upgradable } from '../fixtures/server/upgradable.ts'

const isRoot = process.getuid?.() === 0
const BUILD_MS = 900_000

const FILE = `manual:
  deploy:
    - name: Write lines
      run: for n in 1 2 3; do echo "line $n"; done
`

describe.skipIf(!isRoot || process.platform !== 'linux')('version N and N−1', () => {
  const before = (): BuiltRelease => buildRelease({ from: 'recorded', counter: 1 })
  const now = (): BuiltRelease => buildRelease({ from: 'tree', version: '1.90.0', counter: 1_000 })
  let platform: Upgradable | undefined
  afterEach(() => platform?.close(), 120_000)

  async function prepare(agent: InstalledAgent): Promise<Environment> {
    if (!platform) throw new Error('no installation')
    const project = await platform.post<{ id: number }>('/api/projects', {
      name: 'job',
      repo_url: platform.repository('job', { '.service.yml': FILE }),
      domain: 'job.example.com',
      server_ids: [agent.id],
      default_recipe: 'manual',
    })
    const asked = { identifier: 'one', branch: 'main', server_id: agent.id, auto_deploy: false }
    return platform.post<Environment>(`/api/projects/${project.id}/environments`, asked)
  }

  async function deploy({ id }: Environment): Promise<void> {
    if (!platform) throw new Error('no installation')
    const begun = await platform.post<Task>(`/api/environments/${id}/tasks`, {})
    const task = await platform.finished(begun.id)
    expect([task.status, task.failure]).toEqual(['succeeded', null])
    const log = await (await platform.call('GET', `/api/tasks/${task.id}/log`)).text()
    expect(log.match(/^line \d$/gm)).toEqual(['line 1', 'line 2', 'line 3'])
  }

  test(
    'an old control plane with a new agent',
    async () => {
      platform = await Upgradable.open(before())
      const agent = await platform.addAgent(now(), 'new')
      await deploy(await prepare(agent))
      expect(await platform.online(agent)).toMatchObject({ agent_version: '1.90.0' })
    },
    BUILD_MS,
  )

  test(
    'a new control plane with an old agent, on the database of the old one',
    async () => {
      const old = before()
      platform = await Upgradable.open(old)
      const agent = await platform.addAgent(old, 'old')
      const environment = await prepare(agent)
      await deploy(environment)
      await platform.server.stop()
      platform.installServer(now())
      platform.startServer()
      const server: Server = await platform.online(agent)
      expect(server).toMatchObject({ agent_version: '1.15.0', agent_outdated: true })
      await deploy(environment)
      // it has no updater: the answer is the command for people
      const refused = platform.post(`/api/servers/${agent.id}/upgrade`)
      await expect(refused).rejects.toThrow(/cannot update itself.*Run this on the server: curl/)
    },
    BUILD_MS,
  )
})
