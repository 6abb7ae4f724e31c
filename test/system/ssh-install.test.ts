// Berth in the configuration of a server's own sshd: a private one with a main file, a drop-in folder and a user who
// logs in as root with a plain key. In every case that user can still log in, and sshd keeps its process.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { runProgram } from '../../agent/src/machine/process/programs.ts'
import { relayAccount, sshPaths } from '../../agent/src/ssh/paths.ts'
import { removeFromServer } from '../../agent/src/ssh/ssh-service.ts'
import { expectedEffect, renderDropIn } from '../../agent/src/ssh/sshd/config.ts'
import { awaitGreeting, reload } from '../../agent/src/ssh/sshd/control.ts'
import { includesDropIns, installDropIn, listOthers } from '../../agent/src/ssh/sshd/install.ts'
import { keepOwnSshd } from '../../agent/src/ssh/sshd/own-daemon.ts'
import { locate, missing } from '../fixtures/platform/components.ts'
import { isRoot } from '../fixtures/server/server.ts'
import { freePort, SshFixture } from '../fixtures/sshd/server.ts'

test.each([
  ['Include /x/d/*.conf\nPort 22\n', true],
  ['# Include /x/d/*.conf\n', false],
  ['Port 22\n  include   "/x/d/*.conf"\nMatch User a\n', true],
  ['Match User a\n  PermitTTY no\nInclude /x/d/*.conf\n', false],
  ['Include /y/*.conf /x/d/*.conf\n', true],
  ['Include /x/d/other/*.conf\n', false],
])('%j includes the folder for everybody: %s', (main, includes) => {
  expect(includesDropIns(main, '/x/d')).toBe(includes)
})

describe.skipIf(missing('sshd') || !isRoot)("in the server's own sshd", () => {
  let dir: string
  let fixture: SshFixture
  let sshd: ChildProcess
  let port: number
  const f = (name: string): string => join(dir, name)
  const own = (name = '60-berth.conf') => f(`sshd_config.d/${name}`)
  let main = ''

  const asRoot = async (): Promise<string> => {
    const options = ['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'BatchMode=yes']
    const flags = [...options, 'LogLevel=ERROR', 'IdentitiesOnly=yes', 'IdentityAgent=none']
    const argv = ['ssh', '-F', 'none', '-i', f('owner'), '-p', String(port)]
    argv.push(...flags.flatMap((option) => ['-o', option]), 'root@127.0.0.1', 'echo root is in')
    const { stdout, stderr } = await runProgram(argv)
    return stdout.toString() || stderr
  }

  beforeAll(async () => {
    dir = mkdtempSync('/var/lib/berth-sshd-test-')
    chmodSync(dir, 0o755)
    mkdirSync(f('sshd_config.d'))
    mkdirSync('/run/sshd', { recursive: true })
    for (const name of ['ssh_host_ed25519_key', 'owner']) {
      execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', f(name)])
    }
    port = await freePort()
    main = `Include ${dir}/sshd_config.d/*.conf
Port ${port}
ListenAddress 127.0.0.1
HostKey ${f('ssh_host_ed25519_key')}
PidFile ${f('sshd.pid')}
AuthorizedKeysFile ${f('owner.pub')}
AllowUsers root
PermitRootLogin prohibit-password
UsePAM no
Subsystem sftp internal-sftp
`
    writeFileSync(f('sshd_config'), main)
    sshd = spawn(locate('sshd') as string, ['-D', '-E', f('log'), '-f', f('sshd_config')])
    expect(await awaitGreeting({ address: '127.0.0.1', port })).toBe(true)
    fixture = await SshFixture.open({
      mode: 'auto',
      config: f('sshd_config'),
      pidFile: f('sshd.pid'),
    })
  })
  afterEach(async () => expect(await asRoot()).toBe('root is in\n'))
  afterAll(async () => {
    await fixture.close()
    const gone = once(sshd, 'exit')
    sshd.kill('SIGTERM')
    await gone // it removes its pid file
    rmSync(dir, { recursive: true, force: true })
  })

  const restart = async () => {
    fixture.kill()
    await fixture.start()
    return fixture.state
  }
  const login = async () =>
    (await fixture.login({ certificate: await fixture.honest(), words: ['id'] })).code

  test('it is set up with a host certificate, and the process stays the same', async () => {
    expect(fixture.state).toMatchObject({ mode: 'drop-in', reason: '', port })
    expect(readFileSync(own(), 'utf8')).toBe(renderDropIn(fixture.settings))
    expect(readFileSync(f('sshd.pid'), 'utf8').trim()).toBe(String(sshd.pid))
    expect(await login(), 'let in, and refused by our command').toBe(77)
  })

  test('a second look changes nothing, and an edited file is put right', async () => {
    appendFileSync(own(), '# mine\n')
    expect(await restart()).toMatchObject({ mode: 'drop-in' })
    expect(readFileSync(own(), 'utf8')).toBe(renderDropIn(fixture.settings))
  })

  test('a reload is over when the port is open again, not before', async () => {
    for (let round = 0; round < 5; round++) {
      const before = listeningSocket(port)
      expect(await reload({ pidFile: f('sshd.pid') })).toBe(true)
      const after = listeningSocket(port)
      expect([before, after].every(Number)).toBe(true)
      expect(after).not.toBe(before)
    }
  })

  test('a daemon of our own does not take another one for itself', async () => {
    const ssh = { ...fixture.settings.ssh, dir: f('own'), own: { address: '127.0.0.1', port } }
    const starting = keepOwnSshd({ ...fixture.settings, ssh })
    await expect(starting).rejects.toThrow(/does not answer on port \d+: .*(bind|listen)/i)
  })

  test('a broken revocation list locks out ours alone', async () => {
    writeFileSync(sshPaths(fixture.settings).revoked, 'garbage\n')
    expect(await login()).toBe(255)
    await fixture.trust([fixture.ca])
    expect(await login()).toBe(77)
  })

  test.each([
    ['a typo', (text: string) => `${text}Nonsense yes\n`, /refuses our configuration/],
    ['something for everybody', (text: string) => `PermitTunnel yes\n${text}`, /would change/],
    ['settings that are not ours', () => '# nothing\n', /not in force/],
  ])('%s is taken back before sshd sees it', async (_, spoil, why) => {
    const before = readFileSync(own(), 'utf8')
    const roles = ['berth-ssh', 'berth-shell'] as const
    const target = {
      sshd: { argv: [locate('sshd') as string], ...fixture.settings.ssh },
      dropIns: f('sshd_config.d'),
      listener: { address: '127.0.0.1', port },
      expected: new Map(
        roles.map((role) => [
          relayAccount(fixture.settings, role),
          expectedEffect(fixture.settings, role),
        ]),
      ),
      login: async () => undefined,
    }
    const others = (await listOthers(fixture.state?.accounts ?? [])).slice(0, 3)
    const outcome = await installDropIn(target, '60-berth.conf', spoil(before), others)
    expect(outcome).toMatchObject({ kind: 'fallback', reason: expect.stringMatching(why) })
    expect(readFileSync(own(), 'utf8')).toBe(before)
    const refused = { ...target, login: async () => 'no way in' }
    const tried = await installDropIn(refused, '60-berth.conf', `${before}# 2\n`, others)
    expect(tried).toMatchObject({ kind: 'fallback', reason: expect.stringMatching(/no way in/) })
    expect(readFileSync(own(), 'utf8')).toBe(before)
  })

  test.each([
    [
      'nothing includes our folder',
      () => writeFileSync(f('sshd_config'), main.replace(/^.*\n/, '')),
      /does not include/,
    ],
    [
      'it is broken already',
      () => writeFileSync(f('sshd_config'), `${main}Broken yes\n`),
      /not touched/,
    ],
    [
      'somebody else matches first',
      () => writeFileSync(own('10-owner.conf'), 'Match User *\n  ForceCommand none\nMatch all\n'),
      /another Match comes first/,
    ],
  ])('where %s, a daemon of our own serves', async (_, spoil, why) => {
    spoil()
    const state = await restart()
    const own2 = fixture.settings.ssh.own.port
    expect(state).toMatchObject({ mode: 'dedicated', port: own2 })
    expect(state?.reason).toMatch(why)
    expect(await login()).toBe(77)
    writeFileSync(f('sshd_config'), main)
    rmSync(own('10-owner.conf'), { force: true })
    expect(await restart()).toMatchObject({ mode: 'drop-in', port })
    expect(await awaitGreeting({ address: '127.0.0.1', port: own2 }), 'it is gone').toBe(false)
  })

  test('and when the server is given up nothing of it stays', async () => {
    await fixture.side.remove()
    expect([existsSync(own()), existsSync(own('61-berth-host.conf'))]).toEqual([false, false])
    const names = fixture.state?.accounts ?? []
    const passwd = readFileSync('/etc/passwd', 'utf8')
    expect(names.filter((name) => passwd.includes(`${name}:`))).toEqual([])
    expect(await login()).toBe(255)
    await removeFromServer(fixture.settings) // idempotent
  })
})

/** The inode of the listening socket on loopback, which changes when sshd opens its port again. */
function listeningSocket(port: number): string | undefined {
  const local = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const rows = readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
  return rows.find(([, at, , state]) => at === local && state === '0A')?.[9]
}
