// npm run chaos -- install [--release FOLDER] [--root FOLDER] [--pages]: one line makes a fresh Debian a control plane with HTTPS
// from an ACME authority, one line makes a second one a server, both examples are deployed, and uninstalling leaves
// nothing behind. Everything is typed as the guide says; the run counts lines and minutes.
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  BootedMachine,
  Bridge,
  makeDebianRoot,
  type Said,
} from '../fixtures/server/booted-machine.ts'
import { until } from '../fixtures/server/installation.ts'
import { FORGE, Outside, RELEASES } from './install-outside.ts'
import { STEPS } from './pages.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const DOMAIN = 'deploy.example.com'
const SERVER = 'fra-1.example.com'
const NETWORK = '10.213.77'

export interface InstallPlan {
  /** A signed release of this architecture with its public key beside it (`release.pub`); made if absent. */
  release?: string | undefined
  /** A folder of makeDebianRoot; made if absent. */
  base?: string | undefined
  /** Also types every line of docs/operations. */
  pages?: boolean
  say: (line: string) => void
}

export interface InstallResult {
  /** Lines that a person typed. */
  lines: number
  minutes: { control_plane: number; server: number; deployed: number }
  /** What was there after the uninstall and not before, or the reverse. */
  left: string[]
  failed: string[]
}

/** Prints and counts what a person types. */
export class Operator {
  lines = 0
  readonly failed: string[] = []
  readonly #say: (line: string) => void

  constructor(say: (line: string) => void) {
    this.#say = say
  }

  async type(machine: BootedMachine, line: string, shown = line): Promise<Said> {
    this.lines += 1
    this.#say(`${machine.name}# ${shown}`)
    const said = await machine.type(line)
    if (said.status !== 0) {
      this.failed.push(`${shown}: ended with ${said.status}`)
      for (const text of [said.stdout, said.stderr]) this.#say(text.trimEnd())
      throw new Error(`${shown}: ended with ${said.status}`)
    }
    return said
  }
}

/** Files, accounts, units, rules and routes, a line each. */
const LISTING = `
cd /
find . -xdev \\( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./tmp -o -path ./var/log -o -path ./var/cache -o -path ./var/lib/docker -o -path ./var/lib/containerd -o -path ./var/lib/systemd -o -path ./root/.bash_history \\) -prune -o -printf 'file %P %y %m %U:%G %l\\n'
sed 's/^/account /' etc/passwd etc/group etc/shadow etc/gshadow
systemctl list-unit-files --no-legend --no-pager | sed 's/^/unit /'
iptables-save | grep '^-' | sed 's/^/rule /'
ip6tables-save | grep '^-' | sed 's/^/rule6 /'
ip route | sed 's/^/route /'
ip -o link | sed -e 's/^[0-9]*: //' -e 's/ .*//' -e 's/^/link /'
docker ps --all --format 'container {{.Names}}'
docker image ls --format 'image {{.Repository}}:{{.Tag}}'
docker network ls --format 'network {{.Name}}'
docker volume ls --format 'volume {{.Name}}'
ps -eo user:20,comm --no-headers | grep -i -e berth -e caddy | sed 's/^/process /' || true
`
/** Backups that the system's own tools keep of account files, and what its units write by themselves. */
const OF_THE_SYSTEM =
  /^file (etc\/(passwd|group|shadow|gshadow|subuid|subgid)-|etc\/\.pwd\.lock|etc\/(machine-id|resolv\.conf|hosts)|var\/lib\/(dbus|private|apt|dpkg)\b|var\/tmp\b|root\/\.(cache|npm)\b)/

export const listing = async (machine: BootedMachine): Promise<string[]> =>
  (await machine.must('sh', '-c', LISTING))
    .split('\n')
    .filter((line) => line !== '' && !OF_THE_SYSTEM.test(line))

export function difference(name: string, before: string[], after: string[]): string[] {
  const [old, now] = [new Set(before), new Set(after)]
  return [
    ...after.filter((line) => !old.has(line)).map((line) => `${name}: left ${line}`),
    ...before.filter((line) => !now.has(line)).map((line) => `${name}: gone ${line}`),
  ]
}

/** Signed with a key of its own; takes minutes. */
export function buildSignedRelease(folder: string): void {
  const main = join(root, 'scripts/release/main.ts')
  const key = join(folder, '..', 'release-key')
  const run = (...args: string[]) =>
    execFileSync(process.execPath, [main, ...args], {
      env: { ...process.env, BERTH_RELEASE_KEY_FILE: key },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
  run('keygen', key)
  run('--arch', process.arch, '--out', folder)
  copyFileSync(`${key}.pub`, join(folder, 'release.pub'))
}

async function prepare(machine: BootedMachine, { authorities }: Outside): Promise<void> {
  for (const [n, pem] of authorities.entries()) {
    await machine.write(`/usr/local/share/ca-certificates/outside-${n}.crt`, pem)
  }
  await machine.must('update-ca-certificates')
}

export async function runInstall(plan: InstallPlan): Promise<InstallResult> {
  if (process.getuid?.() !== 0) throw new Error('namespaces and bridges need root')
  const folder = mkdtempSync(join(tmpdir(), 'berth-install-'))
  const closing: (() => Promise<void> | void)[] = [
    () => rmSync(folder, { recursive: true, force: true }),
  ]
  try {
    const base = plan.base ?? join(folder, 'base')
    if (!existsSync(join(base, 'bin/busybox'))) {
      plan.say('Making a root folder with debootstrap …')
      makeDebianRoot(base)
    }
    const release = plan.release ?? join(folder, 'release')
    if (!existsSync(join(release, 'SHA256SUMS'))) {
      plan.say('Building a release …')
      buildSignedRelease(release)
    }
    const bridge = new Bridge(NETWORK)
    closing.push(() => bridge.close())
    const outside = await Outside.open(folder, bridge, { release, base })
    closing.push(() => outside.close())
    const address = { [DOMAIN]: `${NETWORK}.2`, [SERVER]: `${NETWORK}.3` }
    const hosts = { ...address, [RELEASES]: `${NETWORK}.1`, [FORGE]: `${NETWORK}.1` }
    outside.pebble.names.records.set(DOMAIN, address[DOMAIN] ?? '')
    const boot = async (name: string, number: number): Promise<BootedMachine> => {
      const own = join(folder, name)
      mkdirSync(own)
      const machine = await BootedMachine.boot({ name, base, folder: own, bridge, number, hosts })
      closing.push(() => machine.close())
      await prepare(machine, outside)
      return machine
    }
    plan.say('Starting two machines …')
    const deploy = await boot('deploy', 2)
    const server = await boot('fra-1', 3)
    await deploy.write('/root/release.pub', readFileSync(join(release, 'release.pub'), 'utf8'))
    return await operate(plan, outside, deploy, server)
  } finally {
    for (const close of closing.toReversed()) await close()
  }
}

interface Run {
  say: (line: string) => void
  operator: Operator
  outside: Outside
  deploy: BootedMachine
  server: BootedMachine
}

const ADDRESS = `https://${DOMAIN}`
const SITE = `https://${RELEASES}`
const DROP_IN = '/etc/systemd/system/berth-agent.service.d'
const TRUST = 'export BERTH_CACERT=/etc/ssl/certs/ca-certificates.crt; '

async function operate(
  { say, pages = false }: InstallPlan,
  outside: Outside,
  deploy: BootedMachine,
  server: BootedMachine,
): Promise<InstallResult> {
  const before = { deploy: await listing(deploy), server: await listing(server) }
  const operator = new Operator(say)
  const run: Run = { say, operator, outside, deploy, server }
  const began = performance.now()
  const minutes = (): number => (performance.now() - began) / 60_000
  const setup = await installControlPlane(run)
  const after = { control_plane: minutes(), server: 0, deployed: 0 }
  await setUp(run, setup)
  await addServer(run)
  after.server = minutes()
  await deployExample(run, 'hello', 'manual')
  await deployExample(run, 'hello-docker', 'docker')
  after.deployed = minutes()
  const { lines } = operator
  say(`${lines} lines, ${after.deployed.toFixed(1)} minutes until both examples are served.`)
  if (pages) await typePages(run)
  await removeAll(run)
  const left = [
    ...difference('deploy', before.deploy, await listing(deploy)),
    ...difference('fra-1', before.server, await listing(server)),
  ]
  return { lines, minutes: after, left, failed: operator.failed }
}

/** Returns the token of the set-up link. */
async function installControlPlane({ say, operator, outside, deploy }: Run): Promise<string> {
  const line = `curl -fsSL ${SITE}/install-server.sh | sh -s -- --from ${SITE} --key release.pub --domain ${DOMAIN} --acme-directory ${outside.pebble.directory}`
  const { stderr } = await operator.type(deploy, `cd; ${line}`, line)
  for (const one of stderr.trimEnd().split('\n')) {
    say(`  ${one.replace(/berth_setup_\w+/, 'berth_setup_…')}`)
  }
  const [, url, token] = /(https:\/\/[\w.]+)\/setup#(berth_setup_\w+)/.exec(stderr) ?? []
  if (url !== ADDRESS || !token) throw new Error('the installer showed no set-up link')
  if (!stderr.includes(`HTTPS certificate of ${DOMAIN}: valid`)) {
    throw new Error('there is no certificate')
  }
  return token
}

const typeBerth = ({ operator, deploy }: Run, line: string): Promise<Said> =>
  operator.type(deploy, `${TRUST}${line}`, line)

/** The first administrator, and the client. */
async function setUp(run: Run, setup: string): Promise<void> {
  const { operator, deploy } = run
  // the set-up page, as the browser sends it
  const form = { token: setup, name: 'Ada', email: 'ada@example.com', organization: 'Acme' }
  await deploy.write('/tmp/form', JSON.stringify(form))
  const post = `curl -fsS -H 'content-type: application/json' -d @/tmp/form ${ADDRESS}/api/setup`
  const { token } = JSON.parse(await deploy.must('sh', '-c', post)) as { token: string }
  await deploy.write('/tmp/token', token)
  // the forge has a private address here
  await operator.type(
    deploy,
    `echo BERTH_PRIVATE_GIT_HOSTS=${FORGE} >>/etc/berth/server.env && systemctl restart berth-server`,
  )
  await until('the control plane', async () => {
    const { status } = await deploy.type(`curl -fsS ${ADDRESS}/health/ready`)
    return status === 0 || undefined
  })
  await operator.type(deploy, `curl -fsSL ${ADDRESS}/install-cli.sh | sh`)
  await typeBerth(run, `berth login --with-token --url ${ADDRESS} </tmp/token`)
}

async function addServer(run: Run): Promise<void> {
  const { say, operator, outside, deploy, server } = run
  const added = await typeBerth(run, `berth server add fra-1 --hostname ${SERVER} --no-wait`)
  const command = /curl -fsSLO .*--token-file -/.exec(added.stdout)?.[0]
  if (!command) throw new Error('the client showed no join command')
  const shown = command.replace(/berth_join_\S+/, 'berth_join_…')
  const joined = await operator.type(server, `cd /tmp; ${command}`, shown)
  for (const line of joined.stderr.trimEnd().split('\n')) say(`  ${line}`)
  // environments get certificates of the same authority, instead of a public one
  const setting = `printf '[Service]\\nEnvironment=BERTH_PROXY_TLS=%s\\n' ${outside.pebble.directory}`
  await operator.type(
    server,
    `mkdir ${DROP_IN} && ${setting} >${DROP_IN}/authority.conf && systemctl daemon-reload && systemctl restart berth-agent`,
  )
  await until('the server', async () => {
    const { stdout } = await deploy.type(`${TRUST}berth server list --json`)
    return stdout.includes('"online"') || undefined
  })
}

async function deployExample(run: Run, name: string, recipe: string): Promise<void> {
  const { say, operator, outside, deploy, server } = run
  const host = `main.${name}.example.com`
  outside.pebble.names.records.set(host, server.address)
  const from = `--repo https://${FORGE}/${name}/.git --domain ${name}.example.com`
  await typeBerth(run, `berth project create ${name} ${from} --server fra-1 --recipe ${recipe}`)
  await typeBerth(run, `berth env create main -p ${name} --branch main --deploy --wait`)
  const visit = `curl -fsS --resolve ${host}:443:${server.address} https://${host}/`
  const { status, stdout, stderr } = await deploy.type(visit)
  say(`  ${name}: ${status === 0 ? stdout.replaceAll(/\s+/g, ' ').slice(0, 120) : stderr}`)
  if (!stdout.includes('Hello from')) operator.failed.push(`${name} is not served`)
}

/** Types what docs/operations tells people to type. A wrong line does not hide the next one. */
async function typePages({ say, operator, deploy, server }: Run): Promise<void> {
  for (const step of STEPS) {
    if ('by' in step) continue
    const machine = step.on === 'deploy' ? deploy : server
    try {
      if (step.before !== undefined) await operator.type(machine, TRUST + step.before, step.before)
      const { as = step.line } = step
      const { stdout, stderr } = await operator.type(machine, TRUST + as, as)
      if (step.shows && !step.shows.test(stdout + stderr)) {
        operator.failed.push(`${as}: showed ${stdout}${stderr}`)
      }
      if (step.after !== undefined) await operator.type(machine, step.after)
    } catch (error) {
      say((error as Error).message) // the operator noted it
    }
  }
  await deploy.must('rm', '-rf', '/root/release', '/root/our-authority.crt')
  await deploy.must('rm', '-rf', '/backup', '/elsewhere', '/etc/berth/passphrase')
  await deploy.must('rm', '-f', '/usr/local/share/ca-certificates/our-authority.crt')
  await deploy.must('update-ca-certificates', '--fresh')
}

/** What a person made by hand goes by hand. */
async function removeAll({ operator, deploy, server }: Run): Promise<void> {
  await server.must('rm', '-r', DROP_IN)
  await operator.type(server, 'berth-agent uninstall --yes --purge')
  await operator.type(deploy, `curl -fsSL ${ADDRESS}/install-cli.sh | sh -s -- --uninstall`)
  await operator.type(deploy, `curl -fsSL ${SITE}/install-server.sh | sh -s -- --uninstall --purge`)
  await deploy.must('rm', '-r', '/root/.config', '/tmp/token', '/tmp/form')
}

export async function chaosInstall(plan: Omit<InstallPlan, 'say'>): Promise<number> {
  const say = (line: string): void => console.log(line)
  const { lines, minutes, left, failed } = await runInstall({ ...plan, say })
  for (const line of [...failed, ...left.slice(0, 100)]) say(line)
  const isFine = left.length + failed.length === 0
  say(
    `install: control plane with HTTPS after ${minutes.control_plane.toFixed(1)} min, server after ${minutes.server.toFixed(1)} min, ` +
      `both examples after ${minutes.deployed.toFixed(1)} min and ${lines} lines; ${left.length} traces left: ${isFine ? 'ok' : 'VIOLATED'}`,
  )
  return isFine ? 0 : 1
}
