// npm run chaos -- upgrade --machine [--root FOLDER]: a Debian with systemd, the control plane from its package, data in
// PostgreSQL, releases at an address with HTTPS. apt upgrades it; a version that crashes is undone with the database, also
// if the upgrade is killed; a purge leaves nothing.
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer as createSite } from 'node:https'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { locate } from '../fixtures/platform/components.ts'
import { createDatabase, startPostgres } from '../fixtures/platform/postgres.ts'
import { BootedMachine, Bridge, makeDebianRoot } from '../fixtures/server/booted-machine.ts'
import { until } from '../fixtures/server/installation.ts'
import { type BuiltRelease, buildRelease, CRASHING_SERVER } from '../fixtures/server/releases.ts'
import { difference, listing, Operator } from './install.ts'
import { makeCertificate, RELEASES, sendFile } from './install-outside.ts'

const NETWORK = '10.213.78'
const SITE = `https://${RELEASES}`
const BOUND_MS = 60_000
const debArch = process.arch === 'x64' ? 'amd64' : 'arm64'
const debOf = ({ version }: BuiltRelease): string => `berth-server_${version}_${debArch}.deb`

interface Run {
  machine: BootedMachine
  operator: Operator
  say: (line: string) => void
  token: string
}

const HEALTH = 'curl -fsS http://127.0.0.1:7080/api/health'

async function ready({ machine }: Pick<Run, 'machine'>, version: string): Promise<void> {
  await until(`version ${version}`, async () => {
    const { stdout } = await machine.type(
      `curl -fsS http://127.0.0.1:7080/health/ready && ${HEALTH}`,
    )
    return stdout.includes(`"version":"${version}"`) || undefined
  })
}

function expectThat(what: string, holds: boolean, said: string): void {
  if (!holds) throw new Error(`${what}: ${said}`)
}

async function setUp(run: Run, old: BuiltRelease, database: string): Promise<void> {
  const { machine, operator } = run
  await operator.type(machine, `cd /root && curl -fsSO ${SITE}/${old.version}/${debOf(old)}`)
  await operator.type(machine, `apt-get install -y /root/${debOf(old)}`)
  await operator.type(
    machine,
    `echo DATABASE_URL=${database} >>/etc/berth/server.env && systemctl restart berth-server`,
  )
  await ready(run, old.version)
  const { stdout } = await machine.type(
    "journalctl -u berth-server -o cat | grep -o 'berth_setup_[[:alnum:]]*'",
  )
  const form = {
    token: stdout.trim().split('\n').at(-1),
    name: 'Ada',
    email: 'ada@example.com',
    organization: 'Acme',
  }
  await machine.write('/tmp/form', JSON.stringify(form))
  const post =
    "curl -fsS -H 'content-type: application/json' -d @/tmp/form http://127.0.0.1:7080/api/setup"
  run.token = (JSON.parse(await machine.must('sh', '-c', post)) as { token: string }).token
  const server = { name: 'kept', hostname: 'h' }
  await machine.write('/tmp/form', JSON.stringify(server))
  await machine.must(
    'sh',
    '-c',
    post
      .replace('/api/setup', '/api/servers')
      .replace('curl', `curl -H 'authorization: Bearer ${run.token}'`),
  )
}

/** What was written before is there, and what the version that failed made is not. */
async function expectKept({ machine, token }: Run): Promise<void> {
  const auth = `authorization: Bearer ${token}`
  const servers = await machine.must(
    'curl',
    '-fsS',
    '-H',
    auth,
    'http://127.0.0.1:7080/api/servers',
  )
  expectThat('the data', servers.includes('"kept"'), servers)
}

/** Returns how long it took. */
async function tryBroken(run: Run, broken: BuiltRelease, before: BuiltRelease): Promise<number> {
  const { machine, say } = run
  const line = `berth-server upgrade --from ${SITE}/${broken.version}`
  say(`${machine.name}# ${line}`)
  const { status, stdout, stderr } = await machine.type(
    `${line} | while IFS= read -r line; do echo "$(date +%s%N) $line"; done`,
  )
  const text = stdout + stderr
  expectThat('the upgrade', status === 1 && text.includes('had migrated the database'), text)
  const at = (words: string): number =>
    Number(new RegExp(`^(\\d+) .*${words}`, 'm').exec(stdout)?.[1] ?? Number.NaN) / 1e6
  await ready(run, before.version)
  await expectKept(run)
  const doctor = (await machine.type('berth-server doctor')).stdout
  expectThat('the doctor', /upgrade to \S+ was undone/.test(doctor), doctor)
  const state = await machine.must('dpkg', '-l', 'berth-server')
  expectThat('dpkg', /^ii +berth-server /m.test(state), state)
  return at('answers again') - at('Stopping version')
}

/** systemd's next start of the unit ends what was killed. */
async function killUpgrade(run: Run, broken: BuiltRelease, before: BuiltRelease): Promise<void> {
  const { machine, say } = run
  say(`${machine.name}# berth-server upgrade, killed after the switch`)
  const line = `berth-server upgrade >/tmp/said 2>&1 & pid=$!
for n in $(seq 600); do [ "$(readlink /opt/berth-server/current)" != ${broken.version} ] || break; sleep 0.1; done
kill -9 $pid && readlink /opt/berth-server/current`
  const { stdout, stderr } = await machine.type(line)
  expectThat('the switch', stdout.trim() === broken.version, `${stdout}${stderr}`)
  await ready(run, before.version)
  await expectKept(run)
  const left = await machine.must('ls', '/opt/berth-server')
  expectThat('the journal', !/upgrade\.json/.test(left), left)
}

export async function chaosUpgradeMachine(plan: { base?: string | undefined }): Promise<number> {
  if (process.getuid?.() !== 0) throw new Error('namespaces and bridges need root')
  const postgres = locate('postgres')
  if (!postgres) throw new Error('PostgreSQL is missing (sh scripts/host-packages.sh test)')
  const say = (line: string): void => console.log(line)
  const folder = mkdtempSync(join(tmpdir(), 'berth-upgrade-'))
  const closing: (() => Promise<unknown> | unknown)[] = [
    () => rmSync(folder, { recursive: true, force: true }),
  ]
  try {
    const base = plan.base ?? join(folder, 'base')
    if (!existsSync(join(base, 'bin/busybox'))) {
      say('Making a root folder with debootstrap …')
      makeDebianRoot(base)
    }
    say('Building three releases (kept in dist/.test-releases) …')
    const old = buildRelease({ from: 'tree', version: '1.90.0', counter: 1_000 })
    const next = buildRelease({ from: 'tree', version: '1.90.1', counter: 2_000 })
    const changes = CRASHING_SERVER
    const broken = buildRelease({ from: 'tree', version: '1.90.3', counter: 3_000, changes })
    const bridge = new Bridge(NETWORK)
    closing.push(() => bridge.close())
    const tls = makeCertificate(folder)
    const releases = new Map([old, next, broken].map((one) => [one.version, one.folder]))
    const site = createSite(tls, (asked, answer) => {
      const version = asked.url?.split('/')[1] ?? ''
      sendFile(releases.get(version) ?? folder, asked.url ?? '', answer)
    })
    await new Promise<void>((resolve) => site.listen(443, `${NETWORK}.1`, resolve))
    closing.push(() => site.close())
    const database = await startPostgres(postgres)
    closing.push(() => database.stop())
    process.env.BERTH_TEST_POSTGRES = database.folder
    const name = new URL(await createDatabase()).pathname.slice(1)
    const relay = createServer((socket) => {
      const to = connect(join(database.folder, '.s.PGSQL.5432'))
      socket.pipe(to).pipe(socket)
      for (const one of [socket, to]) one.on('error', () => one.destroy())
    })
    await new Promise<void>((resolve) => relay.listen(5432, `${NETWORK}.1`, resolve))
    closing.push(() => relay.close())
    const own = join(folder, 'deploy')
    mkdirSync(own)
    const hosts = { [RELEASES]: `${NETWORK}.1` }
    const machine = await BootedMachine.boot({
      name: 'deploy',
      base,
      folder: own,
      bridge,
      number: 2,
      hosts,
    })
    closing.push(() => machine.close())
    await machine.write('/usr/local/share/ca-certificates/outside.crt', tls.cert)
    await machine.must('update-ca-certificates')
    const before = await listing(machine)

    const run: Run = { machine, operator: new Operator(say), say, token: '' }
    await setUp(run, old, `postgres://berth@${NETWORK}.1/${name}`)
    await run.operator.type(
      machine,
      `cd /root && curl -fsSO ${SITE}/${next.version}/${debOf(next)}`,
    )
    const upgraded = await run.operator.type(machine, `apt-get install -y /root/${debOf(next)}`)
    const isReady = upgraded.stdout.includes(`Version ${next.version} is ready.`)
    expectThat('apt', isReady, upgraded.stdout + upgraded.stderr)
    await expectKept(run)
    const backMs = await tryBroken(run, broken, next)
    say(`Version ${next.version} is back after ${(backMs / 1_000).toFixed(1)} s.`)
    await killUpgrade(run, broken, next)
    await run.operator.type(machine, 'apt-get purge -y berth-server')
    await machine.must('sh', '-c', 'rm -rf /root/*.deb /tmp/form /tmp/said')
    const left = difference('deploy', before, await listing(machine))
    for (const line of left.slice(0, 50)) say(line)
    const isFine = left.length === 0 && backMs < BOUND_MS
    say(
      `upgrade of a package under systemd, with PostgreSQL: ready with apt; a build that crashes is undone after ` +
        `${(backMs / 1_000).toFixed(1)} s, and after a kill at the next start; ${left.length} traces left: ${isFine ? 'ok' : 'VIOLATED'}`,
    )
    return isFine ? 0 : 1
  } finally {
    for (const close of closing.toReversed()) await close()
  }
}
