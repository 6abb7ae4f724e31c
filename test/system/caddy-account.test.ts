// Caddy never runs as root. Without its account nothing is routed and the reason is reported everywhere. A server on
// which it did run as root is migrated with its certificates, logs, configuration and copies of files.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  linkSync,
  lstatSync,
  mkdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import { FailureCode } from '@berth/shared/wire'
import { afterEach, describe, expect, it } from 'vitest'
import {
  isSameProcess,
  readOwner,
  readStartTicks,
} from '../../agent/src/machine/process/processes.ts'
import { findAccount } from '../../agent/src/machine/users/users.ts'
import { caddyAccount, handOver, openToCaddy } from '../../agent/src/proxy/caddy/account.ts'
import { setUpProxy } from '../../agent/src/proxy/caddy/setup.ts'
import { edgePaths } from '../../agent/src/proxy/paths.ts'
import { writeProxyProcess } from '../../agent/src/proxy/process-files.ts'
import { ensureProxy } from '../../agent/src/proxy/supervision.ts'
import { settingsEnvironment } from '../../agent/src/settings.ts'
import { locate, missing } from '../fixtures/platform/components.ts'
import { AGENT_PROGRAM, EdgeFixture } from '../fixtures/server/edge.ts'
import { until } from '../fixtures/server/installation.ts'
import { freeDatagramPort, freePort } from '../fixtures/server/installation-docker.ts'
import { ProxyHost } from '../fixtures/server/proxy-server.ts'
import { isRoot } from '../fixtures/server/server.ts'

const REFUSAL = /^Caddy never runs as root, and its account \S+-caddy is missing\. /

describe.skipIf(missing('caddy') || !isRoot)('Caddy and root', () => {
  const closers: (() => unknown)[] = []
  afterEach(async () => {
    for (const close of closers.splice(0).reverse()) await close()
  })

  it('without its account Caddy is not started, and a deployment that is routed says why', async () => {
    const host = new ProxyHost()
    closers.push(() => host.close())
    host.settings.proxy.http.port = await freePort()
    host.settings.proxy.dnsPort = await freeDatagramPort()
    await expect(ensureProxy(host.settings, AGENT_PROGRAM)).rejects.toThrow(REFUSAL)
    const { caddy } = await host.edge.describe()
    expect(caddy).toMatchObject({ up: false, reason: expect.stringMatching(REFUSAL) })
    const repository = host.repository()
    const yaml = 'manual: { deploy: [echo x], services: { web: { root: public } } }\n'
    repository.commit({ 'public/index.html': 'files', '.service.yml': yaml })
    const refused = await host.deploy(repository, { environmentId: 1 })
    const verdict = await refused.verdict()
    expect(verdict).toMatchObject({
      code: FailureCode.PROXY_UNAVAILABLE,
      failedStepId: 'claim-hosts', // before any command of the repository
      message: expect.stringContaining('Caddy never runs as root, and its account'),
    })
    expect(verdict.message).toContain('berth-agent setup proxy')
    await host.startProxy()
    const served = await host.deploy(repository, { environmentId: 1 })
    expect((await served.verdict()).message, served.log()).toBe('')
  })

  it('without setpriv it is not started either', async () => {
    const fixture = await EdgeFixture.prepare()
    closers.push(() => fixture.close())
    const script = `import { becomeCaddy } from ${JSON.stringify(join(import.meta.dirname, '../../agent/src/proxy/caddy/account.ts'))}
import { readSettings } from ${JSON.stringify(join(import.meta.dirname, '../../agent/src/settings.ts'))}
process.stdout.write(await becomeCaddy(readSettings(process.env)).then(String, (error) => error.message))`
    const becoming = (before: string): string =>
      spawnSync(
        'unshare',
        [
          '-m',
          'sh',
          '-euc',
          `${before}exec "$@"`,
          'sh',
          process.execPath,
          '--input-type=module',
          '-e',
          script,
        ],
        {
          encoding: 'utf8',
          env: { PATH: process.env.PATH, ...settingsEnvironment(fixture.settings) },
        },
      ).stdout
    expect(becoming('')).toContain(`--reuid,${caddyAccount(fixture.settings)}`)
    expect(becoming('mount --bind /dev/null "$(readlink -f "$(command -v setpriv)")"; ')).toMatch(
      /^Caddy never runs as root, and setpriv, .* is not installed\./,
    )
  })

  it('a Caddy of root’s is ended, and its account goes on with what it left', async () => {
    const https = await freePort()
    const tls = { BERTH_PROXY_HTTPS: `127.0.0.1:${https}`, BERTH_PROXY_TLS: 'internal' }
    const fixture = await EdgeFixture.prepare(tls, { hasAccount: false })
    closers.push(() => fixture.close())
    const { settings, paths } = fixture
    await expect(ensureProxy(settings, AGENT_PROGRAM)).rejects.toThrow(REFUSAL)
    const former = startRootCaddy(fixture)
    await until(
      'the Caddy of root’s',
      async () => (await fixture.edge.describe()).caddy.up || undefined,
    )
    expect(readOwner(former.pid)).toBe(0)
    // a copy of files as a deployment without the group left it
    const copy = join(settings.stateDir, 'static', 'e1')
    mkdirSync(join(copy, 'web', '1'), { recursive: true, mode: 0o755 })
    chmodSync(copy, 0o750)
    writeFileSync(join(copy, 'web', '1', 'index.html'), 'files')
    const target = { kind: 'static' as const, root: join(copy, 'web', '1') }
    await fixture.route(1, [{ host: 'a.localhost', target }])
    await fixture.route(2, [{ host: 'shop.example.test', target }])
    expect((await fixture.ask({ host: 'a.localhost' })).text).toBe('files')
    const certificate = await certificateOf(https, 'shop.example.test')
    const log = join(paths.caddy, 'access.log')
    await until(
      'its log',
      () => statSync(log, { throwIfNoEntry: false }) !== undefined || undefined,
    )
    expect([statSync(log).uid, statSync(paths.configuration).gid]).toEqual([0, 0])

    // the current daemon ends it even without the account
    await expect(ensureProxy(settings, AGENT_PROGRAM)).rejects.toThrow(REFUSAL)
    await until('its end', () => !former.isAlive() || undefined)
    const second = startRootCaddy(fixture)
    await until('another one', async () => (await fixture.edge.describe()).caddy.up || undefined)

    const said: string[] = []
    expect(await setUpProxy(settings, (line) => said.push(line))).toBe(0)
    expect(said).toContain('Caddy ran as root: it was ended.')
    expect(second.isAlive()).toBe(false)
    await ensureProxy(settings, AGENT_PROGRAM)
    await until('Caddy', async () => (await fixture.edge.describe()).caddy.up || undefined)
    const account = await findAccount(caddyAccount(settings))
    expect(readOwner(fixture.pidOf('caddy'))).toBe(account?.uid)
    expect((await fixture.ask({ host: 'a.localhost' })).text).toBe('files')
    expect(await certificateOf(https, 'shop.example.test')).toBe(certificate)
    expect([statSync(log).uid, statSync(log).size > 0]).toEqual([account?.uid, true])
    // a push by an edge that predates the account
    const before = fixture.configuration()
    await fixture.route(3, [{ host: 'b.localhost', target }])
    expect(fixture.configuration()).not.toBe(before)
    const { uid, gid, mode } = statSync(paths.configuration)
    expect([uid, gid, mode & 0o777]).toEqual([0, account?.gid, 0o640])
  })

  it('a program below a closed folder is offered where its account reaches it', async () => {
    const fixture = await EdgeFixture.prepare()
    closers.push(() => fixture.close())
    const closed = join(fixture.folder, 'closed')
    mkdirSync(closed, { mode: 0o700 })
    const file = join(closed, 'caddy')
    writeFileSync(file, 'a program', { mode: 0o755 })
    const { program } = edgePaths(fixture.settings)
    expect(await openToCaddy(fixture.settings, '/usr/bin/env')).toBe('/usr/bin/env')
    for (const content of ['a program', 'its next version']) {
      rmSync(file)
      writeFileSync(file, content, { mode: 0o755 })
      expect(await openToCaddy(fixture.settings, file)).toBe(program)
      const name = caddyAccount(fixture.settings)
      const read = ['--reuid', name, '--regid', name, '--init-groups', 'cat', program]
      expect(execFileSync('setpriv', read, { encoding: 'utf8' })).toBe(content)
    }
  })

  it('nothing that is not its own is handed over', async () => {
    const fixture = await EdgeFixture.prepare()
    closers.push(() => fixture.close())
    const { caddy } = edgePaths(fixture.settings)
    const account = await findAccount(caddyAccount(fixture.settings))
    if (!account) throw new Error('no account')
    const outside = ['linked', 'named twice'].map((name) => join(fixture.folder, name))
    for (const file of outside) writeFileSync(file, 'root’s')
    const [linked = '', twice = ''] = outside
    const foreign = join(caddy, 'data', 'foreign')
    mkdirSync(join(caddy, 'data', 'deep'), { recursive: true })
    writeFileSync(join(caddy, 'data', 'deep', 'key'), 'left by root')
    writeFileSync(foreign, 'of somebody else')
    chownSync(foreign, 54_321, 54_321)
    chownSync(caddy, account.uid, account.gid) // where an earlier version had changed the owner of the folder alone
    symlinkSync(linked, join(caddy, 'data', 'link'))
    symlinkSync(fixture.folder, join(caddy, 'folder'))
    linkSync(twice, join(caddy, 'data', 'twice'))
    await handOver(fixture.settings, account)
    const owner = (file: string): number => lstatSync(file).uid
    expect([join(caddy, 'data'), join(caddy, 'data', 'deep', 'key')].map(owner)).toEqual([
      account.uid,
      account.uid,
    ])
    expect([linked, twice, fixture.folder, foreign].map(owner)).toEqual([0, 0, 0, 54_321])
  })
})

/** As an earlier version did. */
function startRootCaddy({ paths }: EdgeFixture): { pid: number; isAlive: () => boolean } {
  for (const folder of [paths.caddy, paths.adminDir]) mkdirSync(folder, { recursive: true })
  const child = spawn(locate('caddy') ?? 'caddy', ['run', '--config', paths.configuration], {
    detached: true,
    stdio: 'ignore',
    env: {
      PATH: process.env.PATH,
      HOME: paths.caddy,
      XDG_DATA_HOME: join(paths.caddy, 'data'),
      XDG_CONFIG_HOME: join(paths.caddy, 'config'),
    },
  })
  const pid = child.pid ?? 0
  const ticks = readStartTicks(pid) ?? ''
  writeProxyProcess(paths.caddyProcess, pid)
  return { pid, isAlive: () => isSameProcess(pid, ticks) }
}

/** The certificate's fingerprint. */
function certificateOf(port: number, servername: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connectTls({ host: '127.0.0.1', port, servername, rejectUnauthorized: false })
    socket.setTimeout(20_000, () => socket.destroy(new Error('no answer in 20 s')))
    socket.on('error', reject)
    socket.on('secureConnect', () => {
      resolve(socket.getPeerCertificate().fingerprint256)
      socket.destroy()
    })
  })
}
