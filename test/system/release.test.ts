// A release as people get it: two builds with the same bytes, a signature that names a changed file, packages that
// install, start and leave nothing behind, and a client for machines with and without Node.js.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addLibraries, layOut } from '../fixtures/docker/images.ts'
import { until } from '../fixtures/server/installation.ts'
import { freePort } from '../fixtures/server/installation-docker.ts'
import { SystemRoot } from '../fixtures/server/system-root.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const isRoot = process.getuid?.() === 0
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const platform = `linux-${process.arch}`
const debArch = process.arch === 'x64' ? 'amd64' : 'arm64'
const main = join(root, 'scripts/release/main.ts')

/** A control plane that was started here, with what it said. */
interface Started {
  child: ChildProcess
  url: string
  said: () => string
}

async function start(program: string, argv: string[], env: NodeJS.ProcessEnv): Promise<Started> {
  const child = spawn(program, argv, { env, stdio: ['ignore', 'pipe', 'inherit'] })
  let said = ''
  child.stdout?.on('data', (chunk: Buffer) => {
    said += chunk.toString('utf8')
  })
  const url = await until('the control plane', () => {
    if (child.exitCode !== null) throw new Error('it ended')
    return /listens at (http\S+),[\s\S]*\1\/setup#berth_setup_\w+\n/.exec(said)?.[1]
  })
  return { child, url, said: () => said }
}

async function end({ child }: Started): Promise<void> {
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  expect(await ended).toEqual([0, null])
}

const QUIET = { BERTH_PORT: '0', BERTH_AGENT_PORT: '0', BERTH_AGENT_HOST: '127.0.0.1' }

describe.skipIf(!isRoot || process.platform !== 'linux')('a release', () => {
  const folder = mkdtempSync(join(tmpdir(), 'berth-release-'))
  const key = join(folder, 'key')
  const out = join(folder, 'one')
  const inRelease = (name: string): string => join(out, name)
  const release = (...argv: string[]) =>
    spawnSync(process.execPath, [main, ...argv], { encoding: 'utf8', cwd: folder })

  /** With another umask, time zone and folder each. */
  async function build(to: string, umask: string, zone: string): Promise<void> {
    const steps = `umask ${umask}; exec "$@"`
    const own = [process.execPath, main, '--arch', process.arch, '--out', to]
    const child = spawn('sh', ['-c', steps, 'sh', ...own], {
      cwd: folder,
      env: { ...process.env, BERTH_RELEASE_KEY_FILE: key, TZ: zone },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    expect(await once(child, 'exit')).toEqual([0, null])
  }

  beforeAll(async () => {
    expect(release('keygen', key)).toMatchObject({ status: 0, stderr: '' })
    chmodSync(folder, 0o755)
    await Promise.all([
      build(out, '022', 'UTC'),
      build(join(folder, 'sub/two'), '077', 'Asia/Tokyo'),
    ])
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  test('has the same bytes in every build', () => {
    const names = readdirSync(out)
    expect(names.toSorted()).toEqual(
      [
        'SHA256SUMS',
        'SHA256SUMS.sig',
        `berth-agent-${platform}.tar.gz`,
        `berth-agent_${version}_${debArch}.deb`,
        'berth-agents.json',
        'berth-agents.json.sig',
        `berth-docker-${version}.tar.gz`,
        `berth-kubernetes-${version}.tar.gz`,
        `berth-server-${version}-${platform}.tar.gz`,
        `berth-server_${version}_${debArch}.deb`,
        'berth.cjs',
        `berth_${version}_all.deb`,
        'install-server.sh',
      ].toSorted(),
    )
    const other = join(folder, 'sub/two')
    expect(readdirSync(other)).toEqual(names)
    const differing = names.filter(
      (name) => !readFileSync(inRelease(name)).equals(readFileSync(join(other, name))),
    )
    expect(differing).toEqual([])
  })

  test('is signed: a changed file, a changed list and another key are refused', () => {
    expect(release('verify', out, `${key}.pub`)).toMatchObject({ status: 0, stderr: '' })
    const openssl = ['pkeyutl', '-verify', '-pubin', '-inkey', `${key}.pub`, '-rawin']
    const files = ['-in', inRelease('SHA256SUMS'), '-sigfile', inRelease('SHA256SUMS.sig')]
    expect(spawnSync('openssl', [...openssl, ...files]).status).toBe(0)
    expect((statSync(key).mode & 0o777).toString(8)).toBe('400')
    expect(release('keygen', key).stderr).toContain('EEXIST')

    const bad = join(folder, 'bad')
    mkdirSync(bad)
    for (const name of ['SHA256SUMS', 'SHA256SUMS.sig'])
      copyFileSync(inRelease(name), join(bad, name))
    for (const name of readdirSync(out).filter((one) => !one.startsWith('SHA'))) {
      if (name !== 'install-server.sh') cpSync(inRelease(name), join(bad, name))
    }
    appendFileSync(join(bad, 'berth.cjs'), '\n')
    expect(release('verify', bad, `${key}.pub`)).toMatchObject({
      status: 1,
      stderr: 'berth.cjs was changed.\ninstall-server.sh is missing.\n',
    })
    release('keygen', join(folder, 'stranger'))
    const stranger = release('verify', out, join(folder, 'stranger.pub'))
    expect(stranger).toMatchObject({ status: 1, stderr: expect.stringContaining('not made with') })
    appendFileSync(join(bad, 'SHA256SUMS'), '\n')
    expect(release('verify', bad, `${key}.pub`)).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('SHA256SUMS was changed'),
    })
    rmSync(bad, { recursive: true })
  })

  test('has Debian packages that name what they need and what they install', () => {
    const deb = (option: string, name: string): string =>
      execFileSync('dpkg-deb', [option, inRelease(name)], { encoding: 'utf8', maxBuffer: 1 << 24 })
    const server = `berth-server_${version}_${debArch}.deb`
    expect(deb('-I', server)).toMatch(/^ Depends: libc6 .*\bgit\b/m)
    expect(deb('-I', server)).toContain(` Version: ${version}\n Architecture: ${debArch}\n`)
    const files = deb('-c', server)
    for (const path of [
      'usr/lib/berth-server/bin/node',
      `usr/lib/berth-server/packages/berth-agent-${platform}.tar.gz`,
      'usr/lib/berth-server/packages/berth.cjs',
      'usr/bin/berth-server -> /opt/berth-server/current/bin/berth-server',
      'etc/berth/server.toml',
    ]) {
      expect(files).toContain(` ./${path}\n`)
    }
    expect(
      files
        .trimEnd()
        .split('\n')
        .filter((line) => !/^\S{10} 0\/0 /.test(line)),
    ).toEqual([])
    const agent = deb('-c', `berth-agent_${version}_${debArch}.deb`)
    expect(agent).toContain(` ./opt/berth/${version}/bin/caddy\n`)
    expect(agent).toContain(' ./usr/lib/systemd/system/berth-agent.service\n')
    const client = `berth_${version}_all.deb`
    expect(deb('-I', client)).toContain(' Depends: nodejs (>= 18)\n')
    expect(deb('-c', client)).toMatch(/^-rwxr-xr-x 0\/0 .* \.\/usr\/bin\/berth$/m)
    expect(deb('-c', client)).toContain(' ./usr/share/bash-completion/completions/berth\n')
  })

  test('has an agent whose prebuilt terminal works', () => {
    const agent = join(folder, 'agent')
    mkdirSync(agent)
    execFileSync('tar', ['-xzf', inRelease(`berth-agent-${platform}.tar.gz`), '-C', agent])
    const prebuilt = join(agent, 'lib/node_modules/node-pty')
    expect(existsSync(join(prebuilt, 'build'))).toBe(false)
    const ask = `const t = require(${JSON.stringify(prebuilt)}).spawn('sh', ['-c', 'test -t 0 && echo terminal'], {})
      t.onData((text) => process.stdout.write(text))`
    const said = spawnSync(join(agent, 'bin/node'), ['-e', ask], { encoding: 'utf8' })
    expect(said.stdout).toContain('terminal')
    rmSync(agent, { recursive: true })
  })

  describe('its server', () => {
    const unpacked = join(folder, `berth-server-${version}`)
    let server: Started
    beforeAll(async () => {
      const archive = inRelease(`berth-server-${version}-${platform}.tar.gz`)
      execFileSync('tar', ['-xzf', archive, '-C', folder])
      const env = { PATH: process.env.PATH, ...QUIET, BERTH_DATA_DIR: join(folder, 'data') }
      server = await start(join(unpacked, 'bin/berth-server'), ['serve'], env)
    }, 60_000)
    afterAll(() => end(server))

    test('answers, with the dashboard, the agent and the client', async () => {
      const health = await fetch(`${server.url}/api/health`)
      expect([health.status, await health.json()]).toMatchObject([200, { status: 'ok' }])
      expect(await (await fetch(server.url)).text()).toContain('<script')
      for (const path of ['/install.sh', '/install-cli.sh', '/cli/berth.cjs']) {
        expect((await fetch(server.url + path)).status, path).toBe(200)
      }
    })

    /** Almost empty: busybox and, for programs of the distribution, the C library. */
    function bareRoot(name: string, node: string | undefined): string {
      const bare = join(folder, name)
      layOut(bare)
      addLibraries(bare, [process.execPath])
      symlinkSync('../../bin/env', join(bare, 'usr/bin/env'))
      if (node) copyFileSync(node, join(bare, 'usr/bin/node'))
      for (const path of ['usr/share/bash-completion', 'root/.config/fish', 'home']) {
        mkdirSync(join(bare, path), { recursive: true })
      }
      mkdirSync(join(bare, 'home/app/.config/fish'), { recursive: true })
      execFileSync('chown', ['-R', '1000:1000', join(bare, 'home/app')])
      return bare
    }

    /** In `bare`, as an account; `input` is the script of a pipe. */
    function shell(bare: string, id: number, command: string, input?: string) {
      const steps =
        'mount --rbind /dev "$1/dev"; mount -t proc proc "$1/proc"; exec chroot "--userspec=$2" "$1" /bin/sh -c "$3"'
      const argv = ['-m', 'sh', '-euc', steps, 'sh', bare, `${id}:${id}`, command]
      const HOME = id === 0 ? '/root' : '/home/app'
      const env = { PATH: '/usr/local/bin:/usr/sbin:/usr/bin:/bin', HOME }
      return spawnSync('unshare', argv, { env, encoding: 'utf8', input, timeout: 60_000 })
    }

    test('installs the client on a machine without Node.js, as root, and removes it', () => {
      const bare = bareRoot('without-node', undefined)
      const list = (): string =>
        shell(bare, 0, 'find / -xdev | grep -v -e ^/proc -e ^/dev -e ^/tmp').stdout
      const before = list()
      const line = `wget -q -O - ${server.url}/install-cli.sh | sh`
      for (const _ of ['first', 'again']) {
        const { status, stderr } = shell(bare, 0, line)
        expect([status, stderr]).toEqual([
          0,
          expect.stringContaining(`berth login --url ${server.url}`),
        ])
        expect(stderr).toContain('downloading one for berth alone')
        expect(stderr).toContain('berth mcp install')
      }
      expect(shell(bare, 0, 'berth --version')).toMatchObject({
        status: 0,
        stdout: `berth ${version}\n`,
      })
      const completion = '/usr/local/share/bash-completion/completions/berth'
      expect(readFileSync(join(bare, completion), 'utf8')).toContain('complete ')
      expect(shell(bare, 0, `${line} -s -- --uninstall`).status).toBe(0)
      const left = list()
        .split('\n')
        .filter((path) => !before.includes(`${path}\n`))
      // only empty folders that other programs share
      expect(left.filter((path) => /berth/.test(path) || !path.startsWith('/usr/local'))).toEqual(
        [],
      )
    }, 60_000)

    test('installs the client for a person with Node.js 18, and refuses a changed one', async () => {
      const node = join(root, 'test/node_modules', `node18-${platform}`, 'bin/node')
      const bare = bareRoot('with-node', node)
      const script = await (await fetch(`${server.url}/install-cli.sh`)).text()
      const { status, stderr } = shell(bare, 1000, 'sh', script)
      expect([status, stderr]).toEqual([
        0,
        expect.stringContaining('/home/app/.local/bin is not in your PATH'),
      ])
      expect(stderr).not.toContain('downloading one')
      expect(stderr).toContain('completion for fish: /home/app/.config/fish/completions/berth.fish')
      const said = shell(bare, 1000, '"$HOME/.local/bin/berth" --version')
      expect(said).toMatchObject({ status: 0, stdout: `berth ${version}\n`, stderr: '' })

      const client = join(unpacked, 'packages/berth.cjs')
      const before = readFileSync(client)
      appendFileSync(client, '\n')
      rmSync(join(bare, 'home/app/.local'), { recursive: true })
      const refused = shell(bare, 1000, 'sh', script)
      writeFileSync(client, before)
      expect(refused).toMatchObject({
        status: 1,
        stderr: expect.stringContaining('nothing was changed'),
      })
      expect(existsSync(join(bare, 'home/app/.local'))).toBe(false)
    }, 60_000)
  })

  describe('installed on a system', () => {
    let system: SystemRoot
    beforeAll(async () => {
      const place = join(folder, 'system')
      mkdirSync(place)
      system = await SystemRoot.open(place, out)
      expect(system.changes()).toEqual([])
    })
    afterAll(() => system?.close())

    const boot = (): Promise<Started> => {
      const [program, args] = system.argv(['berth-server', 'serve'])
      return start(program, args, { ...system.env, ...QUIET })
    }
    const DATA = /^(etc\/berth(\/server\.(toml|env))?|var\/lib\/berth-server(\/.*)?)$/

    test('from its archive: own account, own key, and nothing is left after it', async () => {
      const install = (...argv: string[]) => system.run('sh', '/mnt/install-server.sh', ...argv)
      expect(install('--url', 'deploy.example.com')).toMatchObject({ status: 1 })
      expect(system.changes()).toEqual([])
      const first = install('--url', 'https://deploy.example.com')
      expect([first.status, first.stderr]).toEqual([
        0,
        expect.stringContaining('systemd does not run here'),
      ])
      const server = await boot()
      expect(server.said()).toContain('Berth listens at https://deploy.example.com')
      const account = system.run('id', '-u', 'berth-server').stdout.trim()
      const owner = execFileSync('ps', ['-o', 'uid=', '-p', String(server.child.pid)]).toString()
      expect([owner.trim(), account]).toEqual([account, expect.stringMatching(/^[1-9]\d*$/)])
      const modes = system.run(
        'stat',
        '-c',
        '%a %U %n',
        '/var/lib/berth-server',
        '/var/lib/berth-server/kek',
        '/etc/berth/server.env',
      )
      expect(modes.stdout).toBe(
        '700 berth-server /var/lib/berth-server\n400 berth-server /var/lib/berth-server/kek\n640 root /etc/berth/server.env\n',
      )
      await end(server)
      system.run('sh', '-c', 'echo BERTH_LOG=warn >>/etc/berth/server.env')
      const again = install()
      expect([again.status, again.stderr]).toEqual([
        0,
        expect.stringContaining(`berth-server ${version} is installed`),
      ])
      expect(system.run('cat', '/etc/berth/server.env').stdout).toMatch(
        /BERTH_URL=https:\S+\nBERTH_LOG=warn\n$/,
      )
      expect(system.run('berth-server', '--version').stdout).toBe(`${version}\n`)

      expect(install('--uninstall').status).toBe(0)
      const kept = system.changes()
      expect(kept).toContain('var/lib/berth-server/berth.db')
      expect(kept.filter((path) => !DATA.test(path))).toEqual([])
      expect(install('--uninstall', '--purge').status).toBe(0)
      expect(system.changes()).toEqual([])
      expect(system.run('id', 'berth-server').status).toBe(1)
    }, 120_000)

    test('from an address, signed, with a domain: it may open the ports that HTTPS needs', async () => {
      const port = await freePort()
      const site = spawn('busybox', ['httpd', '-f', '-p', `127.0.0.1:${port}`, '-h', out])
      try {
        const from = `http://127.0.0.1:${port}`
        await until('the site', async () => (await fetch(`${from}/SHA256SUMS`)).ok || undefined)
        system.run('sh', '-c', `curl -fsS ${from}/install-server.sh >/tmp/install-server.sh`)
        const install = (...argv: string[]) =>
          system.run('sh', '-c', 'sh -s -- "$@" </tmp/install-server.sh', 'sh', ...argv)
        release('keygen', join(out, 'stranger'))
        copyFileSync(`${key}.pub`, join(out, 'release.pub'))
        const domain = ['--domain', 'deploy.example.com']
        const wrong: [string[], string][] = [
          [['--from', from, '--key', '/mnt/stranger.pub', ...domain], 'is not signed with'],
          [['--from', `${from}/none`, ...domain], 'could not be downloaded'],
          [['--domain', 'https://deploy.example.com'], '--domain must be a name'],
          [['--url', 'https://deploy.example.com', ...domain], 'exclude each other'],
        ]
        for (const [argv, reason] of wrong) {
          expect(install(...argv)).toMatchObject({
            status: 1,
            stderr: expect.stringContaining(reason),
          })
        }
        expect(system.changes()).toEqual([])
        const said = install('--from', from, '--key', '/mnt/release.pub', ...domain)
        expect([said.status, said.stderr]).toEqual([
          0,
          expect.stringContaining(`berth-server ${version} is installed`),
        ])
        const [program, args] = system.argv(['berth-server', 'serve'])
        const ports = { BERTH_PORT: '843', BERTH_HTTP_PORT: '842', BERTH_AGENT_PORT: '0' }
        const authority = { BERTH_ACME_DIRECTORY: 'https://127.0.0.1:1/dir' }
        const server = await start(program, args, { ...system.env, ...ports, ...authority })
        expect(server.url).toBe('https://deploy.example.com:843')
        await until(
          'the certificate',
          () => server.said().includes('none new, 127.0.0.1:1 could not be reached') || undefined,
        )
        const sent = await fetch('http://127.0.0.1:842/a?b', { redirect: 'manual' })
        expect(sent.headers.get('location')).toBe('https://deploy.example.com:843/a?b')
        await end(server)
        expect(install('--url', 'https://other.example.com', '--from', from).status).toBe(0)
        expect(system.run('cat', '/etc/berth/server.env').stdout).not.toMatch(/^BERTH_DOMAIN=/m)
        expect(install('--uninstall', '--purge').status).toBe(0)
        expect(system.changes()).toEqual([])
      } finally {
        site.kill()
      }
    }, 240_000)

    test('from its Debian package', async () => {
      const deb = `/mnt/berth-server_${version}_${debArch}.deb`
      const installed = system.run('dpkg', '--force-depends', '--install', deb)
      expect([installed.status, installed.stderr]).toEqual([
        0,
        expect.stringContaining(`berth-server ${version} is installed`),
      ])
      expect(system.run('sh', '/mnt/install-server.sh').stderr).toContain('installed as a package')
      expect(system.run('berth-server', '--version').stdout).toBe(`${version}\n`)
      const unit = '/opt/berth-server/current/berth-server.service'
      const verified = system.run('systemd-analyze', 'verify', unit)
      expect([verified.status, verified.stderr]).toEqual([0, ''])
      const purged = system.run('dpkg', '--purge', 'berth-server')
      expect([purged.status, purged.stderr]).toEqual([0, ''])
      expect(system.changes().filter((path) => path !== 'var/lib/dpkg/status')).toEqual([])
    }, 120_000)
  })
})
