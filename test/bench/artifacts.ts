// Artifacts fetched by the bundled client from the packaged agent, over SSH (the agent's own sshd) and through the
// control plane, each as a ratio to `scp` of the same bytes from a private sshd on loopback in the same run. Rounds
// alternate with a rotating start, so a busy machine slows all; the median round counts. All write the files to disk;
// the client also verifies digests and syncs.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { cpus, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Artifact, SshCertificate, Task } from '@berth/shared/api'
import { AGENT_ENV, AGENT_FLAGS } from '../../scripts/agent-flags.ts'
import { Fixture, until } from '../fixtures/server/installation.ts'
import { freePort } from '../fixtures/server/installation-docker.ts'
import { packaged } from './agent.ts'
import { percentile, round } from './figures.ts'
import { goalAtLeast } from './goals.ts'

const ROOT = join(import.meta.dirname, '../..')
const AGENT = join(ROOT, 'agent/src/main.ts')
const ANY_KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKTphRrBoRz3q2o0rCJtGWxFu9ZyPJHG1rsfXm4Lz1qD'
const SMALL_FILES = 1_000
const SMALL_BYTES = 4_096
const MiB = 1_024 * 1_024

const serviceFile = (bytes: number): string => `manual: { deploy: ['true'] }
actions:
  big:
    run: 'mkdir -p big && head -c ${bytes} /dev/urandom > big/file'
    artifacts: { paths: ['big/*'] }
  small:
    run: 'rm -rf small && mkdir small && cd small && for i in $(seq 1 ${SMALL_FILES}); do head -c ${SMALL_BYTES} /dev/urandom > $i; done'
    artifacts: { paths: ['small/*'] }
`

/** A private sshd that accepts one key. */
async function openSshd(dir: string): Promise<{ scp: string[]; close: () => Promise<void> }> {
  const at = (name: string): string => join(dir, name)
  for (const name of ['host', 'user']) {
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', at(name)])
  }
  const port = await freePort()
  const lines = [
    'ListenAddress 127.0.0.1',
    `Port ${port}`,
    `HostKey ${at('host')}`,
    'PidFile none',
    `AuthorizedKeysFile ${at('user.pub')}`,
    'StrictModes no',
    'UsePAM no',
    'PasswordAuthentication no',
    'PermitRootLogin prohibit-password',
    'Subsystem sftp internal-sftp',
  ]
  writeFileSync(at('sshd_config'), `${lines.join('\n')}\n`)
  const sshd: ChildProcess = spawn('/usr/sbin/sshd', ['-D', '-e', '-f', at('sshd_config')], {
    stdio: 'ignore',
  })
  const options = ['-F', 'none', '-q', '-P', String(port), '-i', at('user')]
  for (const option of [
    'StrictHostKeyChecking=no',
    'UserKnownHostsFile=/dev/null',
    'IdentitiesOnly=yes',
    'IdentityAgent=none',
    'BatchMode=yes',
  ]) {
    options.push('-o', option)
  }
  const scp = ['scp', ...options]
  writeFileSync(at('probe'), 'x')
  await until('sshd', async () => {
    const probe = run(scp[0] as string, [...scp.slice(1), from(at('probe')), at('probe.got')])
    return probe.then(
      () => true,
      () => undefined,
    )
  })
  return {
    scp,
    close: async () => {
      sshd.kill('SIGTERM')
      await once(sshd, 'exit')
    },
  }
}

const from = (path: string): string => `127.0.0.1:${path}`

/** Asynchronous, because this process must notice connections that close meanwhile. */
async function run(file: string, args: string[], env = process.env): Promise<void> {
  const child = spawn(file, args, { env, stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-2_000)
  })
  const [code] = (await once(child, 'close')) as [number | null]
  if (code !== 0) throw new Error(`${file} ended with ${code}: ${said}`)
}

async function timed(work: () => Promise<void>): Promise<number> {
  const began = performance.now()
  await work()
  return (performance.now() - began) / 1_000
}

async function runAction(
  fixture: Fixture,
  environmentId: number,
  name: string,
): Promise<Artifact[]> {
  const path = `/api/environments/${environmentId}/actions/${name}/tasks`
  const { id } = (await (await fixture.call('POST', path, {})).json()) as Task
  const task = await fixture.finished(id, 600_000)
  if (task.status !== 'succeeded') throw new Error(`${name}: ${task.failure?.message}`)
  return (await (await fixture.call('GET', `/api/tasks/${id}/artifacts`)).json()) as Artifact[]
}

type Way = 'ssh' | 'http' | 'scp'
type Rounds = Record<Way, number[]>

interface Place {
  fixture: Fixture
  dir: string
  /** Client and agent as they are shipped. */
  packages: string
  scp: string[]
}

/** The client's environment variables; for `http` its ssh finds no server. */
function surroundings({ fixture, dir }: Place, way: 'ssh' | 'http'): NodeJS.ProcessEnv {
  const env = { ...process.env, BERTH_URL: fixture.url, BERTH_TOKEN: fixture.token }
  if (way === 'ssh') return env
  const noWay = "#!/bin/sh\necho 'ssh: connect to host x: Connection refused' >&2\nexit 255\n"
  mkdirSync(join(dir, 'bin'), { recursive: true })
  writeFileSync(join(dir, 'bin', 'ssh'), noWay, { mode: 0o755 })
  return { ...env, PATH: `${join(dir, 'bin')}:${process.env.PATH}` }
}

async function compare(
  place: Place,
  artifacts: Artifact[],
  source: string,
  rounds: number,
): Promise<Rounds> {
  const { dir, scp } = place
  const task = String(artifacts[0]?.task_id)
  const download = [join(place.packages, 'berth.cjs'), 'artifacts', 'download', task, '-d']
  const berth = (way: 'ssh' | 'http', ...more: string[]): Promise<void> =>
    run(process.execPath, [...download, ...more], surroundings(place, way))
  const fetch: Record<Way, (target: string) => Promise<void>> = {
    ssh: (target) => berth('ssh', target, '--direct'),
    http: (target) => berth('http', target),
    scp: (target) => run(scp[0] as string, [...scp.slice(1), '-r', from(source), target]),
  }
  const taken: Rounds = { ssh: [], http: [], scp: [] }
  const ways = ['scp', 'ssh', 'http'] as const
  const made: string[] = []
  for (let i = 0; i < rounds * ways.length; i++) {
    const way = ways[(i + Math.floor(i / ways.length)) % ways.length] as Way
    const target = join(dir, `target-${i}`)
    made.push(target)
    mkdirSync(target)
    taken[way].push(await timed(() => fetch[way](target)))
    const all = readdirSync(target, { recursive: true, withFileTypes: true })
    const got = all.filter((one) => one.isFile())
    if (got.length !== artifacts.length) throw new Error(`${way}: ${got.length} files came`)
    // many files are removed at the end: after many removals ext4 takes a millisecond for a new file
    if (artifacts.length === 1) rmSync(target, { recursive: true })
  }
  for (const target of made) rmSync(target, { recursive: true, force: true })
  return taken
}

const WAYS = { ssh: 'over SSH', http: 'through the control plane' } as const

/** Prints the ratios to scp. */
function report(
  what: string,
  bytes: number,
  taken: Rounds,
  judged: readonly ('ssh' | 'http')[],
): void {
  const theirs = percentile(taken.scp, 50)
  const rate = (seconds: number): string => `${round(bytes / MiB / seconds, 0)} MiB/s`
  for (const way of ['ssh', 'http'] as const) {
    const ours = percentile(taken[way], 50)
    console.log(
      `${what} ${WAYS[way]}: ${round(ours)} s (${rate(ours)}), scp ${round(theirs)} s ` +
        `(${rate(theirs)}), throughput ${round(theirs / ours)} of scp`,
    )
    if (judged.includes(way)) goalAtLeast(`${what} ${WAYS[way]}`, theirs / ours, 0.8, 'of scp')
  }
}

/** A control plane, and an agent with an sshd of its own. */
async function openInstallation(dir: string): Promise<Fixture> {
  return Fixture.open({
    agent: packaged(dir),
    agentFlags: [...AGENT_FLAGS],
    agentEnv: {
      ...AGENT_ENV,
      BERTH_SSH: 'dedicated',
      BERTH_SSH_DIR: join(dir, 'ssh'),
      BERTH_SSH_LISTEN: `127.0.0.1:${await freePort()}`,
    },
  })
}

function removeSsh(fixture: Fixture): void {
  const env = { ...process.env, ...fixture.agentEnvironment }
  execFileSync(process.execPath, [AGENT, 'ssh', 'remove'], { env, stdio: 'pipe' })
}

/** Resolves when the control plane directs users to the agent's own sshd. */
async function sshReady(fixture: Fixture, environmentId: number): Promise<void> {
  const asked = { public_key: ANY_KEY, purpose: 'artifact', environment_id: environmentId }
  await until('the agent’s sshd', async () => {
    const { user } = await fixture.post<SshCertificate>(
      `/api/servers/${fixture.serverId}/ssh`,
      asked,
    )
    return user === fixture.accountPrefix.replace(/e$/, 'ssh') || undefined
  })
}

/** The goal counts for one large file both ways, and for many small ones over SSH. */
export async function benchArtifacts(megabytes: number, rounds: number): Promise<void> {
  // sshd trusts only files whose parent folders all belong to root alone, so not /tmp
  const sshDir = mkdtempSync('/var/lib/berth-bench-')
  chmodSync(sshDir, 0o755)
  const dir = mkdtempSync(join(tmpdir(), 'berth-bench-'))
  const fixture = await openInstallation(sshDir)
  const sshd = await openSshd(dir)
  const place = { fixture, dir, packages: sshDir, scp: sshd.scp }
  try {
    const bytes = megabytes * MiB
    const url = fixture.repository('files', { '.service.yml': serviceFile(bytes) })
    const project = await fixture.project('files', url)
    const environment = await fixture.environment(project.id, 'main')
    await fixture.finished((await fixture.deploy(environment.id)).id)
    await sshReady(fixture, environment.id)
    const store = (files: Artifact[]): string =>
      join(fixture.stateDir, 'artifacts', `e${environment.id}`, String(files[0]?.task_id))
    const big = await runAction(fixture, environment.id, 'big')
    if (statSync(join(store(big), big[0]?.file_id ?? '')).size !== bytes) throw new Error('size')
    const large = await compare(place, big, store(big), rounds)
    report(`one file of ${megabytes} MiB`, bytes, large, ['ssh', 'http'])
    const small = await runAction(fixture, environment.id, 'small')
    if (small.length !== SMALL_FILES) throw new Error(`${small.length} files were collected`)
    const many = await compare(place, small, store(small), rounds * 3)
    const what = `${SMALL_FILES} files of 4 KiB`
    report(what, SMALL_FILES * SMALL_BYTES, many, ['ssh'])
    console.log(
      `load average ${loadavg()
        .map((load) => round(load))
        .join(' ')} on ${cpus().length} cores`,
    )
  } finally {
    await sshd.close()
    fixture.agent?.kill('SIGTERM')
    removeSsh(fixture)
    await fixture.close()
    for (const one of [dir, sshDir]) rmSync(one, { recursive: true, force: true })
  }
}
