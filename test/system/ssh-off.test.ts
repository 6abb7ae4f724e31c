// Disabled SSH is reported wherever a user would look, on a whole installation: with the server, instead of a
// certificate, by the client, and by the check of a project, which reads the port that the agent set up.
import { createServer, type Server as TcpServer } from 'node:net'
import type { ProjectDetail, Server, SshCertificate } from '@berth/shared/api'
import { afterEach, describe, expect, test } from 'vitest'
import { makeEphemeralKey } from '../../cli/src/client/ssh/key.ts'
import { berth, temporaryFolder } from '../../cli/src/testing/berth.ts'
import { missing } from '../fixtures/platform/components.ts'
import { ApiError, Fixture, until } from '../fixtures/server/installation.ts'
import { freePort } from '../fixtures/server/installation-docker.ts'

let fixture: Fixture
let taken: TcpServer | undefined
afterEach(async () => {
  await fixture?.close()
  taken?.close()
})

const shown = (): Promise<Server> => fixture.get<Server>(`/api/servers/${fixture.serverId}`)
const reported = (state: string): Promise<Server> =>
  until(`SSH to be ${state}`, async () => {
    const server = await shown()
    return server.ssh?.state === state ? server : undefined
  })

async function makeEnvironment(): Promise<{ project: ProjectDetail; environmentId: number }> {
  const url = fixture.repository('shop', { '.service.yml': 'manual: { deploy: [ "true" ] }\n' })
  const project = await fixture.project('shop', url)
  const { id: environmentId } = await fixture.environment(project.id, 'main')
  return { project, environmentId }
}

const certificate = (environmentId: number): Promise<SshCertificate> =>
  fixture.post(`/api/servers/${fixture.serverId}/ssh`, {
    public_key: makeEphemeralKey().publicLine,
    purpose: 'logs',
    environment_id: environmentId,
  })

const client = (args: string[]) =>
  berth(args, {
    env: { BERTH_URL: fixture.url, BERTH_TOKEN: fixture.token, XDG_CONFIG_HOME: temporaryFolder() },
  })

async function expectOff(reason: RegExp): Promise<void> {
  const server = await reported('off')
  const part = server.parts.find(({ name }) => name === 'sshd')
  expect(part?.reason).toMatch(reason)
  expect(server.ssh?.reason).toMatch(reason)
  const { environmentId } = await makeEnvironment()
  const refused = await certificate(environmentId).catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(ApiError)
  const { status, body } = refused as ApiError
  expect([status, body.code]).toEqual([409, 'ssh_unavailable'])
  expect(body.detail).toMatch(reason)
  expect(body.reason).toMatch(reason)
  expect(await fixture.get(`/api/servers/${fixture.serverId}/ssh`)).toEqual([])
  const shell = await client(['ssh', '-p', 'shop', '-e', 'main'])
  expect(shell.code).toBe(6)
  expect(shell.stderr).toMatch(reason)
  expect(shell.stderr).toContain('berth tasks log')
  const logs = await client(['logs', '-p', 'shop', '-e', 'main'])
  expect(logs.code, logs.stderr).toBe(0)
  expect(logs.stderr).toMatch(reason)
  expect(logs.stderr).toContain('reading through')
  const check = await client(['project', 'check', 'shop', '--json'])
  expect(check.code).toBe(6)
  const { checks } = JSON.parse(check.stdout) as { checks: Record<string, unknown>[] }
  expect(checks.find(({ name }) => name === 'SSH to one')).toMatchObject({
    ok: false,
    text: expect.stringMatching(reason),
  })
}

describe('SSH', () => {
  test('is switched off', async () => {
    fixture = await Fixture.open({ agentEnv: { BERTH_SSH: 'off' } })
    await expectOff(/switched off on this server \(BERTH_SSH=off\)/)
  })

  test.skipIf(missing('sshd') || process.getuid?.() !== 0)('could not be set up', async () => {
    const port = await freePort()
    taken = createServer().listen(port, '127.0.0.1')
    const agentEnv = { BERTH_SSH: 'dedicated', BERTH_SSH_LISTEN: `127.0.0.1:${port}` }
    fixture = await Fixture.open({ agentEnv })
    await expectOff(/\S/)
  })
})
