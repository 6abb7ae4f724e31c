// A server from nothing and back: the join command on a machine of its own, a second run that changes nothing, a
// deployment, and an uninstallation after which files, accounts, units, rules and routes are as before. The machine has
// this machine's programs and no systemd; `npm run chaos -- servers` does the same on Debian 12, 13 and Ubuntu 24.04.
import type { Server } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { missing } from '../fixtures/platform/components.ts'
import { until } from '../fixtures/server/installation.ts'
import { InstalledServer, packageAgent } from '../fixtures/server/installed-server.ts'
import type { Listing } from '../fixtures/server/machine.ts'

const isRoot = process.getuid?.() === 0

describe.skipIf(!isRoot || missing('sshd'))('a machine', () => {
  const { dist, remove } = isRoot ? packageAgent() : { dist: '', remove: () => undefined }
  let at: InstalledServer
  let command = ''
  let before: Listing
  beforeAll(async () => {
    at = await InstalledServer.open(dist)
    // a server that people reach: keys and a daemon of its own
    await at.machine.must(['sh', '-c', 'ssh-keygen -A; mkdir -p /run/sshd'])
    at.start('/usr/sbin/sshd', '-D')
    await until(
      'sshd',
      async () => (await at.machine.run(['test', '-e', '/run/sshd.pid'])).status === 0 || undefined,
    )
    before = await at.machine.list()
    command = await at.joinCommand('two')
  })
  afterAll(async () => {
    await at?.close()
    remove()
  })
  const status = async () => (await at.fixture.get<Server>(`/api/servers/${at.server?.id}`)).status

  test('becomes a server with one line, which says what it did', async () => {
    const { status: code, said } = await at.perform(command)
    expect([code, said]).toEqual([0, expect.stringContaining('berth: done: joined http')])
    for (const line of [
      'done: the program is in /opt/berth/',
      "done: Caddy's account, berth-caddy",
      'done: berth-agent runs, with its log in /var/lib/berth/agent.log',
      'NOT done: systemd does not run here',
    ]) {
      expect(said).toContain(line)
    }
    expect(said).not.toContain('berth_join_')
    expect(await status()).toBe('online')
    const drop = '/etc/ssh/sshd_config.d/60-berth.conf'
    await until(
      'sshd',
      async () => (await at.machine.run(['test', '-e', drop])).status === 0 || undefined,
    )
  }, 180_000)

  test('a second run changes nothing and says so', async () => {
    const pid = await at.machine.must(['cat', '/run/berth/agent.json'])
    const { status: code, said } = await at.perform(command)
    expect([code, said]).toEqual([0, expect.stringContaining('berth: nothing was changed.')])
    expect(said).toContain('as before: joined to')
    expect(said).not.toContain('berth: done:')
    expect(said).not.toContain('downloading')
    expect(await at.machine.must(['cat', '/run/berth/agent.json'])).toBe(pid)
  }, 120_000)

  test('never touches an engine that is there', async () => {
    const { said } = await at.perform(command.replace(/--token-file -$/, '--with-docker'))
    expect(said).toContain('--with-docker never changes one')
  }, 120_000)

  test('deploys, and its doctor finds no problem', async () => {
    const { machine } = at
    await at.deployHello()
    const doctor = await machine.run(['berth-agent', 'doctor'])
    expect([doctor.status, doctor.stdout]).toEqual([0, expect.stringMatching(/^ok +sshd: \/etc/m)])
  }, 180_000)

  test('an uninstallation leaves files, accounts, units, rules and routes as before', async () => {
    const { machine } = at
    const refused = await machine.run(['berth-agent', 'uninstall', '--yes'])
    expect([refused.status, refused.stdout]).toEqual([
      1,
      expect.stringMatching(/main \(environment \d+\): 1 service/),
    ])
    expect((await machine.list()).accounts).not.toEqual(before.accounts)
    const { status: code, stdout } = await machine.run([
      'berth-agent',
      'uninstall',
      '--yes',
      '--purge',
    ])
    expect([code, stdout]).toEqual([0, expect.stringContaining('Berth is removed')])
    expect(await machine.list()).toEqual(before)
    // this machine's first process collects no dead ones
    const running = await machine.must(['ps', '-e', '-o', 'stat=,args='])
    expect(running.replaceAll(/^Z.*$/gm, '')).not.toMatch(/berth|caddy/)
    expect(await status()).toBe('uninstalled')
    const ssh = await machine.run(['/usr/sbin/sshd', '-t'])
    expect(ssh.status).toBe(0)
  }, 180_000)

  test('half an installation can be removed by the same script', async () => {
    const half = 'mkdir -p /var/lib/berth/environments/e7 /opt/berth && useradd -M berth-git'
    await at.machine.must(['sh', '-c', `${half} --home-dir /var/lib/berth`])
    const script = command.replace(/ echo \S+ \| sh install\.sh .*$/, ' sh install.sh --uninstall')
    const kept = await at.perform(`${script} --yes`)
    expect([kept.status, kept.said]).toEqual([1, expect.stringContaining('environment 7:')])
    const { status: code, said } = await at.perform(`${script} --yes --purge`)
    expect([code, said]).toEqual([0, expect.stringContaining('Berth is removed')])
    expect(await at.machine.list()).toEqual(before)
  }, 180_000)
})
