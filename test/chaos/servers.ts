// npm run chaos -- servers: the way of a server on fresh systems. Each is a root folder that debootstrap makes once, and
// a machine of its own above it (test/fixtures/server/machine.ts). The join command installs agent and engine; a second
// run changes nothing; a deployment answers; the removal leaves files, accounts, units, rules and routes as before.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { createServer, type Server as ProxyServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import type { Server } from '@berth/shared/api'
import { InstalledServer, packageAgent } from '../fixtures/server/installed-server.ts'
import type { Listing } from '../fixtures/server/machine.ts'

interface System {
  /** Absent: the name is the suite's. */
  suite?: string
  /** Absent: what a server of a provider has. */
  packages?: string
  /** Absent: that of debootstrap. */
  mirror?: string
  /** Ubuntu's servers have both. */
  components?: string
  /** The script of debootstrap, where it has none of this name. */
  script?: string
  /** The package with the keys of the mirror, where this machine lacks them. */
  keys?: string
}

/** Debian's debootstrap knows no mirror of Ubuntu's. */
const UBUNTU = process.env.BERTH_TEST_UBUNTU_MIRROR
export const SYSTEMS: Record<string, System> = {
  bookworm: {},
  trixie: {},
  ...(UBUNTU === undefined
    ? {}
    : {
        noble: {
          mirror: UBUNTU,
          components: 'main,universe',
          script: 'gutsy',
          keys: `${UBUNTU}/pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb`,
        },
      }),
}

// what a server of a provider has
const PACKAGES = 'ca-certificates,curl,openssh-server,systemd,systemd-sysv,dbus,iproute2,procps'
const CACHE = fileURLToPath(new URL('../../node_modules/.cache/berth-roots', import.meta.url))

/** A root folder that debootstrap makes once. */
export function ensureRoot(name: string, system: System): string {
  const { suite = name, packages = PACKAGES, mirror, components, script, keys } = system
  const root = join(CACHE, name)
  if (existsSync(root)) return root
  const half = `${root}.half`
  rmSync(half, { recursive: true, force: true })
  mkdirSync(CACHE, { recursive: true })
  const signed: string[] = []
  if (keys) {
    const folder = `${root}.keys`
    execFileSync('curl', ['-fsS', '--create-dirs', '-o', `${folder}/keys.deb`, keys])
    execFileSync('dpkg-deb', ['-x', `${folder}/keys.deb`, folder])
    signed.push(`--keyring=${folder}/usr/share/keyrings/ubuntu-archive-keyring.gpg`)
  }
  const parts = `--components=${components ?? 'main'}`
  const from = [mirror, script].filter((one) => one !== undefined)
  const include = `--include=${packages}`
  const argv = ['--variant=minbase', parts, include, ...signed, suite, half, ...from]
  execFileSync('debootstrap', argv, { stdio: 'ignore' })
  renameSync(half, root)
  return root
}

/** The machine has only loopback; apt asks through this. */
async function startProxy(): Promise<ProxyServer> {
  const server = createServer((asked, answer) => {
    const { method, headers } = asked
    const out = request(asked.url ?? '', { method, headers }, (got) => {
      answer.writeHead(got.statusCode ?? 502, got.headers)
      got.pipe(answer)
    })
    out.on('error', () => answer.destroy())
    asked.pipe(out)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return server
}

function expectThat(what: string, holds: boolean, said: string): void {
  if (!holds) throw new Error(`${what}\n${said}`)
}

const difference = (a: Listing, b: Listing): string[] =>
  (Object.keys(a) as (keyof Listing)[]).flatMap((part) => [
    ...a[part].filter((line) => !b[part].includes(line)).map((line) => `- ${line}`),
    ...b[part].filter((line) => !a[part].includes(line)).map((line) => `+ ${line}`),
  ])

async function tryOne(root: string, dist: string, say: (line: string) => void): Promise<void> {
  const proxy = await startProxy()
  const { port } = proxy.address() as AddressInfo
  const at = await InstalledServer.open(dist, root)
  const { machine, fixture } = at
  try {
    await machine.forward(port)
    const set = `echo 'Acquire::http::Proxy "http://127.0.0.1:${port}";' >/etc/apt/apt.conf.d/99test`
    // the example serves files with busybox
    const apt = 'apt-get -qq update && apt-get -qq install -y busybox >/dev/null 2>&1'
    await machine.must(['sh', '-c', `${set}; ssh-keygen -A; mkdir -p /run/sshd; ${apt}`])
    at.start('/usr/sbin/sshd', '-D')
    const command = await at.joinCommand('fresh')
    const script = command.replace(/ {2}echo \S+ \| sh install\.sh.*$/, '  sh install.sh')

    // packages stay after a removal, so the listing is taken with them
    const began = performance.now()
    const first = await at.perform(`${script} --with-docker --no-start`)
    expectThat('the first run', first.status === 0 && !/NOT done/.test(first.said), first.said)
    expectThat('the engine', /done: installed .*docker\.io/.test(first.said), first.said)
    const gone = await at.perform('berth-agent uninstall --yes')
    expectThat('the removal', gone.status === 0 && /apt-get purge/.test(gone.said), gone.said)
    const before = await machine.list()
    const ours = Object.values(before)
      .flat()
      .filter((line) => /berth/i.test(line))
    expectThat('nothing of Berth is left', ours.length === 0, ours.join('\n'))

    const joined = await at.perform(`${command} --with-docker`)
    expectThat('the join', joined.status === 0 && /done: joined/.test(joined.said), joined.said)
    const minutes = ((performance.now() - began) / 60_000).toFixed(1)
    const again = await at.perform(`${command} --with-docker`)
    expectThat('the second run', /berth: nothing was changed/.test(again.said), again.said)
    const seen = await fixture.get<Server>(`/api/servers/${at.server?.id}`)
    const shown = `${seen.status}, ${seen.recipes.join(' and ')}, ${seen.facts?.os}`
    expectThat('both recipes', seen.recipes.length === 2, `${shown}\n${again.said}`)
    await at.deployHello()
    const doctor = await machine.run(['berth-agent', 'doctor'])
    expectThat('the doctor', doctor.status === 0, doctor.stdout)

    const left = await machine.run(['berth-agent', 'uninstall', '--yes', '--purge'])
    expectThat('the removal', left.status === 0, left.stdout + left.stderr)
    const after = await machine.list()
    expectThat(
      'the listings',
      isDeepStrictEqual(before, after),
      difference(before, after).join('\n'),
    )
    say(`${shown}: ok, ${minutes} minutes with packages`)
  } finally {
    await at.close()
    proxy.close()
  }
}

/** Returns the exit code. */
export async function chaosServers(
  names: readonly string[],
  say: (line: string) => void,
): Promise<number> {
  const { dist, remove } = packageAgent()
  let failures = 0
  try {
    for (const name of names) {
      const system = SYSTEMS[name]
      if (!system) throw new Error(`unknown system ${name}: ${Object.keys(SYSTEMS).join(', ')}`)
      say(`${name} …`)
      try {
        await tryOne(ensureRoot(name, system), dist, (line) => say(`${name}: ${line}`))
      } catch (error) {
        failures += 1
        say(`${name}: FAILED: ${(error as Error).message}`)
      }
    }
  } finally {
    remove()
  }
  say(`servers: ${names.length} systems, ${failures} failed: ${failures === 0 ? 'ok' : 'VIOLATED'}`)
  return failures === 0 ? 0 : 1
}
