// A forge changes its SSH host key, on a whole installation with a real sshd: the deployment fails with the command to
// run, an owner trusts the new key by its fingerprint, and control plane and server accept it without manual edits of
// files.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import type { AuditEntry, ForgeHostKey, ProjectDetail, RepositoryCheck } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { dial } from '../../agent/src/machine/process/probes.ts'
import { locate, missing } from '../fixtures/platform/components.ts'
import { eventually, Repository } from '../fixtures/server/deployment.ts'
import { ApiError, Fixture } from '../fixtures/server/installation.ts'
import { freePort } from '../fixtures/server/installation-docker.ts'

const isMissing = missing('sshd')
const folder = mkdtempSync(join(tmpdir(), 'berth-host-key-'))
const at = (name: string): string => join(folder, name)
let fixture: Fixture
let forge: ChildProcess | undefined
let port = 0
let project: ProjectDetail
let environmentId = 0

async function startForge(hostKey: string): Promise<void> {
  const lines = [
    'ListenAddress 127.0.0.1',
    `Port ${port}`,
    `HostKey ${at(hostKey)}`,
    'PidFile none',
    `AuthorizedKeysFile ${at('allowed')}`,
    'StrictModes no',
    'UsePAM no',
    'PasswordAuthentication no',
    'KbdInteractiveAuthentication no',
    'PermitRootLogin prohibit-password',
    'AcceptEnv GIT_PROTOCOL',
  ]
  writeFileSync(at('sshd_config'), `${lines.join('\n')}\n`)
  const program = locate('sshd') as string
  forge = spawn(program, ['-D', '-e', '-f', at('sshd_config')], { stdio: 'ignore' })
  await eventually(async () => (await dial('127.0.0.1', port, 500)) === undefined, 'sshd')
}

async function stopForge(): Promise<void> {
  if (!forge) return
  forge.kill('SIGTERM')
  await once(forge, 'exit')
  forge = undefined
}

const fingerprint = (name: string): string =>
  execFileSync('ssh-keygen', ['-l', '-f', at(`${name}.pub`)], { encoding: 'utf8' }).split(' ')[1] ??
  ''

beforeAll(async () => {
  if (isMissing) return
  if (process.getuid?.() === 0) mkdirSync('/run/sshd', { recursive: true, mode: 0o755 })
  for (const name of ['one', 'two', 'three']) {
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', at(name)])
  }
  const repository = new Repository(at('shop.git'))
  repository.commit({ '.service.yml': 'manual: { deploy: [ "echo deployed" ] }\n' })
  port = await freePort()
  fixture = await Fixture.open()
  const url = `ssh://${userInfo().username}@127.0.0.1:${port}${repository.folder}`
  project = await fixture.project('shop', url)
  writeFileSync(at('allowed'), `${project.repo_public_key}\n`)
  environmentId = (await fixture.environment(project.id, 'staging')).id
  await startForge('one')
})
afterAll(async () => {
  await stopForge()
  await fixture?.close()
  rmSync(folder, { recursive: true, force: true })
})

const path = (): string => `/api/projects/${project.id}/host_key`
const deploy = async () => fixture.finished((await fixture.deploy(environmentId)).id)
const refusal = (work: Promise<unknown>): Promise<ApiError> =>
  work.then(
    () => Promise.reject(new Error('it was not refused')),
    (error: unknown) => (error instanceof ApiError ? error : Promise.reject(error)),
  )

describe.skipIf(isMissing)('the SSH host key of a forge', () => {
  test('the first one that is seen counts', async () => {
    expect(await deploy()).toMatchObject({ status: 'succeeded' })
    const check = await fixture.post<RepositoryCheck>(
      `/api/projects/${project.id}/repository_check`,
    )
    expect(check).toMatchObject({ reachable: true })
    expect(await fixture.get<ForgeHostKey>(path())).toMatchObject({
      host: `[127.0.0.1]:${port}`,
      trust: 'first_use',
      known: [{ type: 'ssh-ed25519', fingerprint: fingerprint('one') }],
      offered: [{ fingerprint: fingerprint('one') }],
      changed: false,
    })
    expect(existsSync(join(fixture.dir, 'agent', 'known-hosts', `p${project.id}`))).toBe(true)
  })

  test('another one fails with what to do, here and on the server', async () => {
    await stopForge()
    await startForge('two')
    const failed = await deploy()
    expect(failed).toMatchObject({ status: 'failed', failure: { code: 'clone_failed' } })
    expect(failed.failure?.message).toMatch(/host key.*berth project trust-host-key/)
    const check = await fixture.post<RepositoryCheck>(
      `/api/projects/${project.id}/repository_check`,
    )
    expect(check.error?.code).toBe('host_key_changed')
    expect(check.error?.message).toContain('berth project trust-host-key')
    expect(await fixture.get<ForgeHostKey>(path())).toMatchObject({
      known: [{ fingerprint: fingerprint('one') }],
      offered: [{ fingerprint: fingerprint('two') }],
      changed: true,
    })
  })

  test('only what the forge shows can be trusted', async () => {
    for (const name of ['one', 'three']) {
      const refused = await refusal(fixture.post(path(), { fingerprint: fingerprint(name) }))
      expect(refused.body).toMatchObject({
        status: 409,
        code: 'host_key_not_offered',
        offered: [fingerprint('two')],
      })
    }
    expect((await fixture.get<ForgeHostKey>(path())).trust).toBe('first_use')
    expect(await deploy()).toMatchObject({ status: 'failed' })
  })

  test('trusted once, it is accepted everywhere, and nothing else is', async () => {
    const trusted = await fixture.post<ForgeHostKey>(path(), { fingerprint: fingerprint('two') })
    expect(trusted).toMatchObject({
      trust: 'trusted',
      trusted_at: expect.any(String),
      known: [{ fingerprint: fingerprint('two') }],
      changed: false,
    })
    expect(await deploy()).toMatchObject({ status: 'succeeded' })
    const check = await fixture.post<RepositoryCheck>(
      `/api/projects/${project.id}/repository_check`,
    )
    expect(check).toMatchObject({ reachable: true, error: null })
    // the key that the server saw first is deleted
    expect(existsSync(join(fixture.dir, 'agent', 'known-hosts', `p${project.id}`))).toBe(false)
    const rows = await fixture.get<AuditEntry[]>(
      `/api/organizations/${project.organization_id}/audit`,
    )
    expect(rows.find((row) => row.verb === 'project.trust_host_key')).toMatchObject({
      changes: { old: [fingerprint('one')], new: fingerprint('two') },
    })
    for (const name of ['one', 'three']) {
      await stopForge()
      await startForge(name)
      expect((await deploy()).failure?.message).toContain('berth project trust-host-key')
    }
  })
})
