// Certificates of a running control plane at a real sshd: a private one on loopback, with its own configuration and
// host key. The honest login comes first, because a matrix of refusals alone proves nothing.
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import type { SshCertificate } from '@berth/shared/api'
import { readCertificate } from '@berth/shared/ssh'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Actor } from '../../control-plane/src/app/core/audit.ts'
import {
  adoptSshAuthority,
  announceSshAuthority,
  publishSshAuthorities,
  retireSshAuthority,
} from '../../control-plane/src/app/ssh/authorities.ts'
import { signSshHostKey } from '../../control-plane/src/app/ssh/host-keys.ts'
import { listRevokedSerials } from '../../control-plane/src/store/ssh/certificates.ts'
import { locate, missing } from '../fixtures/platform/components.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'

const skipped = missing('sshd')
const BY: Actor = { type: 'system', name: 'test' }
const LOGIN_MS = 90_000 // an upper bound: on a busy machine a login may wait
const dir = mkdtempSync(join(tmpdir(), 'berth-sshd-'))
const f = (name: string): string => join(dir, name)
const read = (name: string): string => readFileSync(f(name), 'utf8')

let cp: TestControlPlane
let agent: WireAgent
let sshd: ChildProcess | undefined
let port = 0
let ids: { server: number; other: number; environment: number; elsewhere: number }

const makeKey = (name: string): void => {
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', name, '-f', f(name)])
}

/** What the agent will write: the authorities and the principal that this account accepts. */
async function trust(principal = `berth:server:${ids.server}`): Promise<void> {
  const keys = await publishSshAuthorities(cp.running.ctx, 'user')
  writeFileSync(f('user_ca_keys'), keys.map((a) => `${a.publicKey}\n`).join(''))
  writeFileSync(f('principals'), `${principal}\n`)
}

/** The server's revocation list, from the serials that the control plane lists. */
async function writeRevocations(): Promise<void> {
  const { ctx } = cp.running
  const serials = await listRevokedSerials(ctx.db, ids.server, ctx.clock.now())
  writeFileSync(f('serials'), serials.map((serial) => `serial: ${serial}\n`).join(''))
  const [authority] = await publishSshAuthorities(ctx, 'user')
  writeFileSync(f('revoking-ca.pub'), `${authority?.publicKey}\n`)
  const argv = ['-k', '-q', '-f', f('revoked_keys'), '-s', f('revoking-ca.pub'), f('serials')]
  execFileSync('ssh-keygen', argv)
}

async function startSshd(): Promise<void> {
  const { ctx } = cp.running
  makeKey('host')
  const host = await signSshHostKey(ctx, agent.identity.agentId, read('host.pub'))
  writeFileSync(f('host-cert.pub'), `${host.certificate}\n`)
  await writeRevocations()
  writeFileSync(
    f('sshd_config'),
    `ListenAddress 127.0.0.1
Port ${port}
HostKey ${f('host')}
HostCertificate ${f('host-cert.pub')}
PidFile none
TrustedUserCAKeys ${f('user_ca_keys')}
AuthorizedPrincipalsFile ${f('principals')}
AuthorizedKeysFile none
RevokedKeys ${f('revoked_keys')}
AuthenticationMethods publickey
PubkeyAcceptedAlgorithms *-cert-v01@openssh.com
ExposeAuthInfo yes
ForceCommand echo "forced: $SSH_ORIGINAL_COMMAND"; cat "$SSH_USER_AUTH"
DisableForwarding yes
PermitTTY no
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
LogLevel VERBOSE
`,
  )
  sshd = spawn(locate('sshd') as string, ['-D', '-E', f('sshd.log'), '-f', f('sshd_config')])
  await until('sshd', async () => (read('sshd.log').includes('listening') ? true : undefined))
}

interface Login {
  ok: boolean
  stdout: string
  stderr: string
  /** What sshd logged about it. */
  log: string
}

async function login(
  name: string,
  reply: SshCertificate,
  over: { certificate?: string; alias?: string; hostCa?: string[] } = {},
): Promise<Login> {
  const alias = over.alias ?? reply.host_alias
  const authorities = over.hostCa ?? reply.host_ca
  writeFileSync(
    f('known_hosts'),
    authorities.map((ca) => `@cert-authority ${alias} ${ca}\n`).join(''),
  )
  writeFileSync(f('used-cert.pub'), `${over.certificate ?? reply.certificate}\n`)
  const options = {
    IdentityFile: f(name),
    CertificateFile: f('used-cert.pub'),
    IdentitiesOnly: 'yes',
    IdentityAgent: 'none',
    UserKnownHostsFile: f('known_hosts'),
    GlobalKnownHostsFile: '/dev/null',
    StrictHostKeyChecking: 'yes',
    HostKeyAlias: alias,
    HostKeyAlgorithms: 'ssh-ed25519-cert-v01@openssh.com',
    PreferredAuthentications: 'publickey',
    BatchMode: 'yes',
    ConnectTimeout: '60',
  }
  const flags = Object.entries(options).flatMap(([key, value]) => ['-o', `${key}=${value}`])
  const to = `${userInfo().username}@127.0.0.1`
  const argv = ['-F', 'none', '-p', String(port), ...flags, '--', to, 'logs', 'web']
  const seen = read('sshd.log').length
  const log = (): string => read('sshd.log').slice(seen)
  const done = await new Promise<Omit<Login, 'log'>>((resolve) => {
    execFile('ssh', argv, { timeout: LOGIN_MS }, (error, stdout, stderr) =>
      resolve({ ok: error === null, stdout, stderr: stderr || (error?.signal ?? '') }),
    )
  })
  await until('sshd to log the end', async () =>
    /closed by|Disconnected|Connection reset/.test(log()) ? true : undefined,
  )
  return { ...done, log: log() }
}

const ask = async (
  name: string,
  over: object = {},
  server = ids.server,
): Promise<SshCertificate> => {
  const asked = { purpose: 'logs', environment_id: ids.environment, ...over }
  return cp.make(`/api/servers/${server}/ssh`, { public_key: read(`${name}.pub`), ...asked })
}
/** Issued as if the control plane's clock were off by so many minutes. */
async function askAt(minutes: number, name: string): Promise<SshCertificate> {
  cp.clock.offsetMs = minutes * 60_000
  const reply = await ask(name)
  cp.clock.offsetMs = 0
  return reply
}

beforeAll(async () => {
  if (skipped) return
  if (process.getuid?.() === 0) mkdirSync('/run/sshd', { recursive: true, mode: 0o755 })
  cp = await TestControlPlane.start('sqlite')
  await cp.setUp()
  const [one, two] = [await cp.server('one'), await cp.server('two')]
  const project = await cp.project('shop', one.id, { server_ids: [one.id, two.id] })
  const environment = await cp.environment(project.id, 'main', { server_id: one.id })
  const elsewhere = await cp.environment(project.id, 'two', { server_id: two.id })
  ids = { server: one.id, other: two.id, environment: environment.id, elsewhere: elsewhere.id }
  agent = await WireAgent.join(cp, one.id)
  ;(await WireAgent.join(cp, two.id)).close()
  for (const name of ['ada', 'bob']) makeKey(name)
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  port = (probe.address() as { port: number }).port
  probe.close()
  await trust()
  await startSshd()
})
afterAll(async () => {
  if (sshd && sshd.exitCode === null) {
    sshd.kill('SIGTERM')
    await once(sshd, 'exit')
  }
  agent?.close()
  await cp?.close()
  rmSync(dir, { recursive: true, force: true })
})

describe.skipIf(skipped)('at a real sshd', () => {
  beforeEach(() => trust())

  const refused = async (
    name: string,
    reply: SshCertificate,
    reason: RegExp,
    over: object = {},
  ) => {
    const tried = await login(name, reply, over)
    expect(tried.ok).toBe(false)
    expect(tried.stdout).toBe('')
    expect(tried.log).not.toContain('Accepted publickey')
    expect(tried.log + tried.stderr).toMatch(reason)
  }

  test('the honest certificate is let in, by name of its serial, with its grant, to the forced command', async () => {
    const reply = await ask('ada')
    const { ok, stdout, log, stderr } = await login('ada', reply)
    expect([ok, stderr]).toEqual([true, ''])
    expect(stdout).toMatch(/^forced: logs web\n/)
    expect(log).toContain(`Accepted certificate ID "${reply.key_id}" (serial ${reply.serial})`)
    const exposed = /publickey (\S+) (\S+)/.exec(stdout)
    expect(`${exposed?.[1]} ${exposed?.[2]}`).toBe(reply.certificate)
    const certificate = readCertificate(Buffer.from(exposed?.[2] ?? '', 'base64'))
    expect(JSON.parse(certificate.extensions.get('grant@berth.dev') ?? '{}')).toMatchObject({
      server: ids.server,
      environment: ids.environment,
      can: ['logs'],
    })
  })

  test('the shell’s certificate fits the shell’s account and no other', async () => {
    const shell = await ask('ada', { purpose: 'shell' })
    const logs = await ask('ada')
    await refused('ada', shell, /does not contain an authorized principal/)
    await trust(`berth:server:${ids.server}:shell`)
    expect((await login('ada', shell)).ok).toBe(true)
    await refused('ada', logs, /does not contain an authorized principal/)
  })

  test('expired, not yet valid', async () => {
    await refused('ada', await askAt(-6, 'ada'), /Certificate invalid: expired/)
    await refused('ada', await askAt(+6, 'ada'), /Certificate invalid: not yet valid/)
    expect((await login('ada', await askAt(-4, 'ada'))).ok).toBe(true)
    expect((await login('ada', await askAt(+0.9, 'ada'))).ok).toBe(true) // a server whose clock is late
  })

  test('for another server', async () => {
    const reply = await ask('ada', { environment_id: ids.elsewhere }, ids.other)
    const { host_alias } = await ask('ada')
    await refused('ada', { ...reply, host_alias }, /does not contain an authorized principal/)
  })

  // The client refuses these before it sends them; sshd reads with the same code.
  test('changed in any part', async () => {
    const reply = await ask('ada')
    const [type, text = ''] = reply.certificate.split(' ')
    const blob = Buffer.from(text, 'base64')
    const spots = {
      principal: blob.indexOf(`berth:server:${ids.server}`) + 12,
      keyId: blob.indexOf('user=') + 5,
      grant: blob.indexOf('"can"') + 8,
      signature: blob.length - 1,
      nonce: 50,
    }
    for (const spot of Object.values(spots)) {
      const changed = Buffer.from(blob)
      changed.writeUInt8(changed.readUInt8(spot) ^ 1, spot)
      const certificate = `${type} ${changed.toString('base64')}`
      await refused('ada', reply, /Permission denied/, { certificate })
    }
    expect((await login('ada', reply)).ok).toBe(true)
  })

  test('with another person’s key, without a certificate, and of another installation', async () => {
    const reply = await ask('ada')
    await refused('bob', reply, /Permission denied/)
    await refused('ada', reply, /Permission denied/, { certificate: '' })
    const foreign = await TestControlPlane.start('sqlite')
    const own = cp
    try {
      await foreign.setUp()
      const server = await foreign.server()
      const { id } = await foreign.environment((await foreign.project('shop', server.id)).id)
      ;(await WireAgent.join(foreign, server.id)).close()
      cp = foreign
      const { certificate } = await ask('ada', { environment_id: id }, server.id)
      expect(
        readCertificate(Buffer.from(certificate.split(' ')[1] ?? '', 'base64')).principals,
      ).toEqual([
        `berth:server:${ids.server}`, // the same principal: only the authority differs
      ])
      cp = own
      await refused('ada', reply, /CA .* not trusted|Permission denied/, { certificate })
    } finally {
      cp = own
      await foreign.close()
    }
  })

  test('revoked: refused at once, and only that one', async () => {
    const [ended, kept] = [await ask('ada'), await ask('ada')]
    expect((await login('ada', ended)).ok).toBe(true)
    await cp.call('DELETE', `/api/servers/${ids.server}/ssh/${ended.serial}`)
    await writeRevocations()
    await refused('ada', ended, /revoked by file/)
    expect((await login('ada', kept)).ok).toBe(true)
  })

  test('the client takes this server by its alias and authority alone', async () => {
    const reply = await ask('ada')
    await refused('ada', reply, /Host key verification failed|not listed/, {
      alias: 'server-999.berth.internal',
    })
    const [user] = await publishSshAuthorities(cp.running.ctx, 'user')
    await refused('ada', reply, /Host key verification failed/, { hostCa: [user?.publicKey] })
    await refused('ada', reply, /Host key verification failed/, { hostCa: [] })
  })

  test('rotation: nobody is locked out, and the old authority ends without a restart of sshd', async () => {
    const { ctx } = cp.running
    const before = await ask('ada')
    await announceSshAuthority(ctx, BY, 'user')
    await trust()
    expect((await login('ada', before)).ok).toBe(true)
    await adoptSshAuthority(ctx, BY, 'user', { force: true })
    await trust()
    const after = await ask('ada')
    expect((await login('ada', before)).ok).toBe(true)
    expect((await login('ada', after)).ok).toBe(true)
    await retireSshAuthority(ctx, BY, 'user', { force: true })
    await trust()
    await refused('ada', before, /CA .* is not trusted|Permission denied/)
    expect((await login('ada', after)).ok).toBe(true)
  })
})
