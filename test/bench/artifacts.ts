// Files of an action, fetched by the real client through the control plane from a real agent, as a ratio to `scp` of the
// same bytes from a private sshd on loopback in the same run. Rounds alternate, so that a busy machine slows both; the
// median round counts. Both end with the file on disk; the client's is also compared with its digest.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Artifact, Task } from '@berth/shared/rest'
import { Lab, until } from '../lab.ts'
import { freePort } from '../lab-docker.ts'
import { percentile, round } from './figures.ts'

const CLIENT = join(import.meta.dirname, '../../cli/src/main.ts')
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

/** A private sshd that lets one key in. */
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
  await until('sshd', () => {
    try {
      execFileSync(scp[0] as string, [...scp.slice(1), from(at('probe')), at('probe.got')])
      return true
    } catch {
      return undefined
    }
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

function timed(work: () => void): number {
  const began = performance.now()
  work()
  return (performance.now() - began) / 1_000
}

async function runAction(lab: Lab, environmentId: number, name: string): Promise<Artifact[]> {
  const path = `/api/environments/${environmentId}/actions/${name}/tasks`
  const { id } = (await (await lab.call('POST', path, {})).json()) as Task
  const task = await lab.finished(id, 600_000)
  if (task.status !== 'succeeded') throw new Error(`${name}: ${task.failure?.message}`)
  return (await (await lab.call('GET', `/api/tasks/${id}/artifacts`)).json()) as Artifact[]
}

interface Rounds {
  berth: number[]
  scp: number[]
}

function compare(
  lab: Lab,
  dir: string,
  scp: string[],
  artifacts: Artifact[],
  source: string,
  rounds: number,
): Rounds {
  const taken: Rounds = { berth: [], scp: [] }
  const env = { ...process.env, BERTH_URL: lab.url, BERTH_TOKEN: lab.token }
  for (let i = 0; i < rounds; i++) {
    const target = join(dir, 'target')
    mkdirSync(target)
    const task = String(artifacts[0]?.task_id)
    taken.berth.push(
      timed(() => {
        execFileSync(process.execPath, [CLIENT, 'artifacts', 'download', task, '-d', target], {
          env,
          stdio: ['ignore', 'ignore', 'inherit'],
        })
      }),
    )
    const got = readdirSync(target, { recursive: true, withFileTypes: true }).filter((e) =>
      e.isFile(),
    )
    if (got.length !== artifacts.length) throw new Error(`${got.length} files came`)
    rmSync(target, { recursive: true })
    mkdirSync(target)
    taken.scp.push(
      timed(() => {
        execFileSync(scp[0] as string, [...scp.slice(1), '-r', from(source), target])
      }),
    )
    rmSync(target, { recursive: true })
  }
  return taken
}

function tell(what: string, bytes: number, { berth, scp }: Rounds, goal: string): number {
  const ours = percentile(berth, 50)
  const theirs = percentile(scp, 50)
  const ratio = theirs / ours
  const rate = (seconds: number): string => `${round(bytes / MiB / seconds, 0)} MiB/s`
  console.log(
    `${what}: berth ${round(ours)} s (${rate(ours)}), scp ${round(theirs)} s (${rate(theirs)}), ` +
      `throughput ${round(ratio)} of scp${goal}`,
  )
  return ratio
}

/** True: the goal is met. */
export async function benchArtifacts(megabytes: number, rounds: number): Promise<boolean> {
  const dir = mkdtempSync(join(tmpdir(), 'berth-bench-'))
  const lab = await Lab.open()
  const sshd = await openSshd(dir)
  try {
    const bytes = megabytes * MiB
    const url = lab.repository('files', { '.service.yml': serviceFile(bytes) })
    const project = await lab.project('files', url)
    const environment = await lab.environment(project.id, 'main')
    await lab.finished((await lab.deploy(environment.id)).id)
    const store = (files: Artifact[]): string =>
      join(lab.stateDir, 'artifacts', `e${environment.id}`, String(files[0]?.task_id))
    const big = await runAction(lab, environment.id, 'big')
    if (statSync(join(store(big), big[0]?.file_id ?? '')).size !== bytes) throw new Error('size')
    const large = compare(lab, dir, sshd.scp, big, store(big), rounds)
    const ratio = tell(`one file of ${megabytes} MiB`, bytes, large, ' (goal: 0.80)')
    const small = await runAction(lab, environment.id, 'small')
    if (small.length !== SMALL_FILES) throw new Error(`${small.length} files were collected`)
    const many = compare(lab, dir, sshd.scp, small, store(small), rounds)
    tell(`${SMALL_FILES} files of 4 KiB`, SMALL_FILES * SMALL_BYTES, many, '')
    return ratio >= 0.8
  } finally {
    await sshd.close()
    await lab.close()
    rmSync(dir, { recursive: true, force: true })
  }
}
