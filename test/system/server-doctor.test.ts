// `berth-agent doctor` on a server of real processes: nothing to complain about while all is well, and a sentence with a
// remedy for each part that is broken here. It changes nothing.
import { spawnSync } from 'node:child_process'
import { chmodSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Finding } from '@berth/shared/findings'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { Fixture, until } from '../fixtures/server/installation.ts'
import { AGENT_MAIN } from '../fixtures/server/programs.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const engine = dockerEngine()
const isRoot = process.getuid?.() === 0

describe.skipIf(!engine || !isRoot || missing('caddy'))('the doctor of a server', () => {
  let fixture: Fixture
  const ask = (env: Record<string, string> = {}, ...words: string[]) =>
    spawnSync(process.execPath, [AGENT_MAIN, 'doctor', ...words], {
      cwd: root,
      env: { ...process.env, ...fixture.agentEnvironment, ...env },
      encoding: 'utf8',
      timeout: 60_000,
    })
  const examine = (env: Record<string, string> = {}) => {
    const { status, stdout } = ask(env, '--json')
    const { findings } = JSON.parse(stdout) as { findings: Finding[] }
    const of = (subject: string): Finding | undefined =>
      findings.find((one) => one.subject === subject)
    const problems = findings.filter((one) => one.status === 'problem')
    return { status, findings, of, problems }
  }

  beforeAll(async () => {
    if (!engine) return
    fixture = await Fixture.open({ docker: engine })
    await until('Caddy', () => examine().of('Caddy')?.status === 'ok' || undefined)
  })
  afterAll(() => fixture?.close())

  test('finds no problem on a server that works', () => {
    const { status, problems, of } = examine()
    expect([status, problems]).toEqual([0, []])
    expect(of('Docker engine')?.message).toMatch(/^Docker \d+\.\S+ as root at \//)
    expect(of('control plane')?.message).toBe(`${fixture.url}/ knows this server`)
    expect(of(`agents' listener 127.0.0.1:${fixture.agentPort}`)?.status).toBe('ok')
    expect(of('clock')?.status).toBe('ok')
    expect(of('packet rules')).toMatchObject({ status: 'ok', message: 'in force' })
    expect(of(`port ${fixture.proxyPort}`)?.message).toBe('served by Berth')
    const text = ask()
    expect([text.status, text.stderr]).toEqual([0, ''])
    expect(text.stdout).toMatch(/^ok {11}account: root$/m)
    expect(ask({}, '--problems').stdout).not.toMatch(/^ok /m)
    expect(ask({}, '--loud').status).toBe(2)
  })

  test('says how to fix what is broken', async () => {
    const key = join(fixture.stateDir, 'identity/current/key.pem')
    chmodSync(key, 0o644)
    const open = examine()
    chmodSync(key, 0o600)
    expect(open.status).toBe(1)
    expect(open.of('identity')).toMatchObject({ status: 'problem', fix: `Run: chmod 0600 ${key}` })

    const none = examine({ DOCKER_HOST: 'unix:///nonexistent/docker.sock' })
    expect(none.of('Docker engine')).toMatchObject({
      status: 'warning',
      fix: expect.stringContaining('--with-docker'),
    })
    const off = examine({ BERTH_FIREWALL: 'off', BERTH_PROXY: 'off' })
    expect(off.of('packet rules')?.status).toBe('warning')
    expect(off.of('Caddy')?.status).toBe('skipped')
  })

  test('sees a revoked server, a dead daemon and a control plane that is away', async () => {
    fixture.agent?.kill('SIGKILL')
    await until(
      'the daemon to end',
      () => examine().of('daemon')?.status === 'problem' || undefined,
    )
    await fixture.post(`/api/servers/${fixture.serverId}/revoke_agent`)
    expect(examine().of('control plane')).toMatchObject({
      status: 'problem',
      message: expect.stringContaining('unknown or revoked'),
      fix: expect.stringContaining('berth server join-token'),
    })
    fixture.controlPlane?.kill('SIGKILL')
    await until('the control plane to end', () => {
      const { of } = examine()
      const isAway = of('control plane')?.message.startsWith('Nothing listens at')
      return (isAway && of('clock')?.status === 'skipped') || undefined
    })
    const listener = examine().of(`agents' listener 127.0.0.1:${fixture.agentPort}`)
    expect(listener).toMatchObject({
      status: 'problem',
      message: 'nothing listens there',
      fix: expect.stringContaining(`port ${fixture.agentPort}`),
    })
  })

  test('names the program that holds a port, and a server that never joined', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => other.once('listening', resolve))
    const { port } = other.address() as { port: number }
    const fresh = { BERTH_STATE_DIR: join(fixture.dir, 'fresh') }
    const { of } = examine({ ...fresh, BERTH_PROXY_HTTP: `127.0.0.1:${port}` })
    other.close()
    expect(of(`port ${port}`)?.message).toMatch(new RegExp(`^held by .* \\(pid ${process.pid}\\)$`))
    expect(of('identity')?.message).toBe('this server has not joined a control plane')
  })
})
