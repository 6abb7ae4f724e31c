// A control plane that was installed as a Debian package, on a system of its own: dpkg and `berth-server upgrade` have the
// gate and the way back, apt stays usable after a failure, and a purge leaves nothing.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../fixtures/server/installation.ts'
import { freePort } from '../fixtures/server/installation-docker.ts'
import { type BuiltRelease, buildRelease, CRASHING_SERVER } from '../fixtures/server/releases.ts'
import { SystemRoot } from '../fixtures/server/system-root.ts'
import { Service } from '../fixtures/server/upgradable.ts'

const isRoot = process.getuid?.() === 0
const debArch = process.arch === 'x64' ? 'amd64' : 'arm64'

describe.skipIf(!isRoot || process.platform !== 'linux')('a Debian package', () => {
  const folder = mkdtempSync(join(tmpdir(), 'berth-package-'))
  let old: BuiltRelease
  let next: BuiltRelease
  let broken: BuiltRelease
  let system: SystemRoot
  let service: Service
  let url = ''

  beforeAll(async () => {
    old = buildRelease({ from: 'tree', version: '1.90.0', counter: 1_000 })
    next = buildRelease({ from: 'tree', version: '1.90.1', counter: 2_000 })
    const changes = CRASHING_SERVER
    broken = buildRelease({ from: 'tree', version: '1.90.3', counter: 3_000, changes })
    const place = join(folder, 'system')
    mkdirSync(place)
    system = await SystemRoot.open(place, dirname(old.folder))
    // what an image of a server has, and this machine may lack
    system.run('mkdir', '-p', '/etc/systemd/system')
  }, 900_000)
  afterAll(async () => {
    await service?.stop()
    await system?.close()
    rmSync(folder, { recursive: true, force: true })
  }, 60_000)

  const inside = ({ folder: at }: BuiltRelease): string => `/mnt/${basename(at)}`
  const debOf = (release: BuiltRelease): string =>
    `${inside(release)}/berth-server_${release.version}_${debArch}.deb`
  /** The service goes on meanwhile. */
  async function run(...words: string[]): Promise<{ code: number; text: string }> {
    const [program, args] = system.argv(words)
    const env = { ...system.env, DEBIAN_FRONTEND: 'noninteractive' }
    const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
    let text = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        text += chunk
      })
    }
    const [code] = await once(child, 'close')
    return { code, text }
  }
  const dpkg = (...words: string[]) => run('dpkg', '--force-depends', ...words)
  const version = async (): Promise<string> =>
    ((await (await fetch(`${url}/api/health`)).json()) as { version: string }).version
  const status = async (): Promise<string> => {
    const [, state, found] =
      /^(\w\w) +berth-server +(\S+)/m.exec((await run('dpkg', '-l', 'berth-server')).text) ?? []
    return `${state} ${found}`
  }
  const doctor = async (): Promise<string> =>
    /^.* version: .*$/m.exec((await run('berth-server', 'doctor')).text)?.[0] ?? ''

  test('is replaced without a try while nothing runs, as in an image that is being built', async () => {
    const before = system.changes()
    expect(await dpkg('--install', debOf(old))).toMatchObject({ code: 0 })
    const { code, text } = await dpkg('--install', debOf(next))
    expect([code, text]).toEqual([0, expect.stringContaining('so version 1.90.1 was not tried')])
    expect(system.run('berth-server', '--version').stdout).toBe('1.90.1\n')
    expect(system.run('readlink', '/opt/berth-server/previous').stdout).toBe('1.90.0\n')
    const back = await dpkg('--install', debOf(old))
    expect([back.code, back.text]).toEqual([1, expect.stringContaining('1.90.0 is older')])
    expect(await status()).toBe('ii 1.90.1')
    expect(await dpkg('--purge', 'berth-server')).toMatchObject({ code: 0 })
    const left = system.changes().filter((path) => !before.includes(path))
    expect(left.filter((path) => path !== 'var/lib/dpkg/status')).toEqual([])
  }, 300_000)

  test('installs, and runs', async () => {
    expect(await dpkg('--install', debOf(old))).toMatchObject({ code: 0 })
    const port = await freePort()
    url = `http://127.0.0.1:${port}`
    const settings = `BERTH_PORT=${port}\\nBERTH_AGENT_PORT=0\\nBERTH_URL=${url}\\n`
    system.run('sh', '-c', `printf '${settings}' >>/etc/berth/server.env`)
    const [program, args] = system.argv(['berth-server', 'serve'])
    service = new Service(program, args, { ...system.env }, join(folder, 'server.log'))
    service.start()
    await until('the control plane', async () => (await version()) === '1.90.0' || undefined)
  }, 180_000)

  test('of a version that breaks is undone, and dpkg, doctor and apt know it', async () => {
    const { code, text } = await dpkg('--install', debOf(broken))
    expect([code, text]).toEqual([1, expect.stringContaining('had migrated the database')])
    expect(text).toContain('berth: version 1.90.3 was not taken over, and version 1.90.0 runs')
    expect(await version()).toBe('1.90.0')
    expect(await status()).toBe('iF 1.90.3')
    expect(await doctor()).toMatch(/the upgrade to 1\.90\.3 was undone \(.*\), so 1\.90\.0 runs/)
    // apt does this before everything else; it must not stop the control plane again
    const { pid } = service
    const again = await dpkg('--configure', '--pending')
    expect([again.code, again.text]).toEqual([
      0,
      expect.stringContaining('Try again: berth-server upgrade'),
    ])
    expect([await status(), service.pid]).toEqual(['ii 1.90.3', pid])
  }, 300_000)

  test('is upgraded by the command too, which checks the signature and leaves apt usable', async () => {
    const refused = await run('berth-server', 'upgrade', '--from', `${inside(next)}/SHA256SUMS`)
    expect([refused.code, refused.text]).toEqual([1, expect.stringContaining('Take the package')])
    const failed = await run('berth-server', 'upgrade', '--from', inside(broken))
    expect([failed.code, failed.text]).toEqual([
      1,
      expect.stringContaining('had migrated the database'),
    ])
    expect([await version(), await status()]).toEqual(['1.90.0', 'ii 1.90.3'])
    // the package again, without a release
    const retried = await run('berth-server', 'upgrade', '--wait', '30')
    expect([retried.code, await version()]).toEqual([1, '1.90.0'])
    const done = await run('berth-server', 'upgrade', '--from', debOf(next))
    expect([done.code, done.text]).toEqual([0, expect.stringContaining('Version 1.90.1 is ready.')])
    expect([await version(), await status()]).toEqual(['1.90.1', 'ii 1.90.1'])
    expect(await doctor()).toMatch(/^ok +version: 1\.90\.1$/)
    const kept = system.run('ls', '-d', '/opt/berth-server/1.90.0', '/opt/berth-server/1.90.3')
    expect(kept.stdout).toBe('/opt/berth-server/1.90.0\n')
  }, 300_000)

  test('leaves its data when it is removed, and nothing when it is purged', async () => {
    await service.stop()
    expect(await dpkg('--remove', 'berth-server')).toMatchObject({ code: 0 })
    const DATA =
      /^(etc\/berth(\/.*)?|var\/lib\/(berth-server(\/.*)?|dpkg\/(status|info\/berth-server\.(list|postrm))))$/
    const left = system.changes()
    expect(left).toContain('var/lib/berth-server/berth.db')
    expect(left.filter((path) => !DATA.test(path))).toEqual([])
    expect(await dpkg('--purge', 'berth-server')).toMatchObject({ code: 0 })
    expect(system.changes().filter((path) => path !== 'var/lib/dpkg/status')).toEqual([])
    expect(system.run('id', 'berth-server').status).toBe(1)
  }, 180_000)
})
