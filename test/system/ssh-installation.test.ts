// SSH in a whole installation of real processes: the client asks the control plane, connects to the agent's sshd
// without a prompt, and is disconnected when the access ends; the audit log records all of it.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type {
  Artifact,
  AuditEntry,
  Environment,
  Server,
  SshCertificate,
  Task,
} from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { berth, startBerth } from '../../cli/src/testing/berth.ts'
import { missing } from '../fixtures/platform/components.ts'
import { Fixture, until } from '../fixtures/server/installation.ts'
import { freePort } from '../fixtures/server/installation-docker.ts'
import { AGENT_MAIN, copyForcedCommand } from '../fixtures/server/programs.ts'
import { isRoot } from '../fixtures/server/server.ts'

const SECRET = 'tr0ub4dor-and-3'
const SERVICE = `manual:
  deploy: [{ run: 'true' }]
  services: { web: { run: 'echo "token $TOKEN"; exec sleep 1000' } }
actions:
  export:
    run: 'mkdir -p out && head -c 3000000 /dev/urandom > out/large.bin && echo 1,2 > out/orders.csv && true > out/empty'
    artifacts: { paths: ['out/*'] }
`

describe.skipIf(missing('sshd') || !isRoot)('ssh in an installation', () => {
  let fixture: Fixture
  let dir: string
  let port: number
  let environment: Environment

  beforeAll(async () => {
    // sshd trusts only files whose parent folders all belong to root alone, so not /tmp
    dir = mkdtempSync('/var/lib/berth-ssh-test-')
    chmodSync(dir, 0o755)
    port = await freePort()
    fixture = await Fixture.open({
      agentEnv: {
        BERTH_SSH: 'dedicated',
        BERTH_SSH_DIR: join(dir, 'ssh'),
        BERTH_SSH_LISTEN: `127.0.0.1:${port}`,
        BERTH_SSH_COMMAND: copyForcedCommand(dir),
      },
    })
    const project = await fixture.project(
      'shop',
      fixture.repository('shop', { '.service.yml': SERVICE }),
    )
    environment = await fixture.environment(project.id, 'main', { TOKEN: SECRET })
    const task = await fixture.finished((await fixture.deploy(environment.id)).id)
    expect(task.failure).toBeNull()
    await until('sshd in the server’s parts', async () => {
      const { parts } = await fixture.get<Server>(`/api/servers/${fixture.serverId}`)
      const sshd = parts.find(({ name }) => name === 'sshd')
      if (sshd?.reason) throw new Error(sshd.reason)
      const { user } = await certify()
      return user.startsWith(fixture.accountPrefix.replace(/e$/, '')) || undefined
    })
  })
  afterAll(async () => {
    const env = { ...process.env, ...fixture.agentEnvironment }
    fixture.agent?.kill('SIGTERM')
    execFileSync(process.execPath, [AGENT_MAIN, 'ssh', 'remove'], { env, stdio: 'pipe' })
    await fixture.close()
    rmSync(dir, { recursive: true, force: true })
  })

  const certify = () =>
    fixture.post<SshCertificate>(`/api/servers/${fixture.serverId}/ssh`, {
      public_key:
        'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKTphRrBoRz3q2o0rCJtGWxFu9ZyPJHG1rsfXm4Lz1qD',
      purpose: 'logs',
      environment_id: environment.id,
    })
  const who = () => ({ env: { BERTH_URL: fixture.url, BERTH_TOKEN: fixture.token } })
  const where = ['-p', 'shop', '-e', 'main']
  const audit = async (verb: string): Promise<AuditEntry[]> => {
    const entries = await fixture.get<AuditEntry[]>('/api/admin/audit?per_page=100')
    return entries.filter((entry) => entry.verb === verb)
  }

  test('what the agent set up is what people are told', async () => {
    const reply = await certify()
    expect(reply).toMatchObject({ port, host: '127.0.0.1' })
    expect(reply.user).toBe(fixture.accountPrefix.replace(/e$/, 'ssh'))
  })

  test('berth ssh runs a command where the environment is, and its exit code comes back', async () => {
    const script = 'id -un; echo "$TOKEN"; exit 4'
    const done = await berth(['ssh', ...where, '--', 'sh', '-c', script], who())
    expect(done.code, done.stderr).toBe(4)
    expect(done.stdout).toBe(`${fixture.accountPrefix}${environment.id}\n***\n`)
  })

  test('berth artifacts download brings files straight from the server: whole, or none', async () => {
    const path = `/api/environments/${environment.id}/actions/export/tasks`
    const { id } = await fixture.post<Task>(path, {})
    expect((await fixture.finished(id)).failure).toBeNull()
    const listed = await fixture.get<Artifact[]>(`/api/tasks/${id}/artifacts`)
    const large = listed.find(({ name }) => name === 'large.bin')
    const out = join(dir, 'downloads')
    const download = (...words: string[]) =>
      berth(['artifacts', 'download', String(id), ...words, '-d', out, '--direct'], who())
    const sha256 = (file: string) => createHash('sha256').update(readFileSync(file)).digest('hex')
    const all = await download()
    expect(all, all.stderr).toMatchObject({ code: 0, stderr: '' })
    expect(listed).toHaveLength(3)
    for (const one of listed) expect(sha256(join(out, one.path))).toBe(one.sha256)
    rmSync(out, { recursive: true })
    const alone = await download('large.bin')
    expect(alone, alone.stderr).toMatchObject({ code: 0, stderr: '' })
    expect(sha256(join(out, 'out/large.bin'))).toBe(large?.sha256)
    rmSync(out, { recursive: true })
    rmSync(
      join(fixture.stateDir, 'artifacts', `e${environment.id}`, String(id), large?.file_id ?? ''),
    )
    const gone = await download('large.bin')
    expect([gone.code, gone.stderr]).toEqual([
      1,
      expect.stringContaining('no longer on the server'),
    ])
    const some = await download()
    expect([some.code, some.stderr]).toEqual([
      1,
      expect.stringContaining('no longer on the server'),
    ])
    // earlier files are complete; the missing one leaves no file
    expect(readdirSync(join(out, 'out'))).toEqual(['empty'])
  })

  test('berth logs -f shows more than a day, and ends when the environment does', async () => {
    const old = new Date(Date.now() - 25 * 3_600_000).toISOString()
    const folder = join(fixture.stateDir, 'logs', `e${environment.id}`, 'web')
    mkdirSync(folder, { recursive: true })
    const line = { t: old, s: 'out', task: 1, text: 'of yesterday' }
    writeFileSync(join(folder, `${old.slice(0, 10)}.ndjson`), `${JSON.stringify(line)}\n`)
    const running = startBerth(['logs', ...where, '-f', '--since', '26h'], who())
    await running.shows(/of yesterday[\s\S]*token \*\*\*/)
    expect(await audit('ssh.session.started')).not.toHaveLength(0)
    const answer = await fixture.call('DELETE', `/api/environments/${environment.id}?force=true`)
    expect(answer.ok, await answer.text()).toBe(true)
    const ended = await until('the end of the session in the audit log', async () => {
      const entries = await audit('ssh.session.ended')
      return entries.find(({ changes }) => changes.verb === 'logs')
    })
    expect(ended.changes).toMatchObject({ reason: 'environment_removed' })
    expect((await running.ended).code).not.toBe(0)
  })
})
