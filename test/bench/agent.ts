// npm run bench -- agent [--environments 5] [--seconds 60]
//
// The agent's cost on a server: share of one core and memory of a real daemon, first with nothing deployed, then with
// environments of both recipes that run and write occasional lines. It is the packaged agent with its launcher's flags
// (sources would add the compiler's memory). Processor time is the kernel's count for the daemon and its children, so a
// busy machine does not change it.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { listProcesses } from '../../agent/src/machine/process/processes.ts'
import { AGENT_ENV, AGENT_FLAGS } from '../../scripts/agent-flags.ts'
import {
  deployed,
  dockerEnvironment,
  openDockerFixture,
} from '../fixtures/docker/docker-fixture.ts'
import type { Fixture } from '../fixtures/server/installation.ts'
import { MB_PER_MIB, proportionalMB, residentMiB, round } from './figures.ts'
import { goalAtMost } from './goals.ts'

const root = join(import.meta.dirname, '../..')
const GOALS = { idlePercent: 0.5, memoryMB: 90, busyPercent: 1 }
const TICKS_PER_SECOND = 100
/** Covers the first checks, and compiled code that is being written. */
const SETTLE_MS = 20_000

/** Seconds of processor time of the process and its ended children. */
function processorSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0)
  return ticks / TICKS_PER_SECOND
}

interface Footprint {
  percent: number
  residentMB: number
  proportionalMB: number
}

async function measure(pid: number, seconds: number): Promise<Footprint> {
  await delay(SETTLE_MS)
  const before = processorSeconds(pid)
  const startedAt = performance.now()
  const memory: number[] = []
  for (let i = 0; i < seconds; i += 1) {
    await delay(1_000)
    memory.push(residentMiB(pid) * MB_PER_MIB)
  }
  const span = (performance.now() - startedAt) / 1_000
  return {
    percent: (100 * (processorSeconds(pid) - before)) / span,
    residentMB: Math.max(...memory),
    proportionalMB: proportionalMB(pid),
  }
}

const dockerFiles = {
  Dockerfile: 'FROM berth-test/busybox\nCMD ["/bin/sh", "-c", "while :; do date; sleep 5; done"]\n',
  '.service.yml': 'docker: { services: { web: { build: . } } }\n',
}
const manualFiles = {
  '.service.yml':
    'manual: { deploy: ["true"], services: { web: { run: "while :; do date; sleep 5; done" } } }\n',
}

/** Packages the agent into `folder`, beside the client; returns what its launcher starts. */
export function packaged(folder: string): string {
  const env = { ...process.env, BERTH_DIST: folder }
  execFileSync(process.execPath, ['scripts/bundle.ts'], { cwd: root, env, stdio: 'ignore' })
  const archive = readdirSync(folder).find((name) => /^berth-agent-.*\.tar\.gz$/.test(name)) ?? ''
  execFileSync('tar', ['-xzf', join(folder, archive), '-C', folder])
  return join(folder, 'lib/berth-agent.cjs')
}

async function deployAll(fixture: Fixture, count: number): Promise<void> {
  const manual = await fixture.project('manual', fixture.repository('manual', manualFiles))
  const environments = [await dockerEnvironment(fixture, 'docker', dockerFiles)]
  for (let i = 1; i < count; i += 1) {
    const { project_id: projectId } = environments[0] as { project_id: number }
    const body = { identifier: `docker-${i}`, branch: 'main', auto_deploy: false }
    environments.push(await fixture.post(`/api/projects/${projectId}/environments`, body))
  }
  for (let i = 0; i < count; i += 1) {
    const body = { identifier: `manual-${i}`, branch: 'main', auto_deploy: false }
    environments.push(await fixture.post(`/api/projects/${manual.id}/environments`, body))
  }
  for (const { id } of environments) await deployed(fixture, id)
}

export async function benchAgent(count: number, seconds: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'berth-bench-agent-'))
  const agent = packaged(folder)
  const made = await openDockerFixture({
    fixture: { agent, agentFlags: [...AGENT_FLAGS], agentEnv: AGENT_ENV },
  })
  try {
    const { fixture } = made
    const pid = fixture.agent?.pid ?? 0
    console.log(`daemon of the agent, nothing deployed, ${seconds} s:`)
    const idle = await measure(pid, seconds)
    goalAtMost('processor', idle.percent, GOALS.idlePercent, '% of one core')
    goalAtMost('resident memory', idle.residentMB, GOALS.memoryMB, 'MB')
    console.log(`  ${'proportional memory (PSS)'.padEnd(34)} ${round(idle.proportionalMB)} MB`)
    await deployAll(fixture, count)
    const all = 2 * count
    console.log(`with ${count} containers and ${count} processes, ${seconds} s:`)
    const busy = await measure(pid, seconds)
    goalAtMost('processor', busy.percent, GOALS.busyPercent, '% of one core')
    goalAtMost('resident memory', busy.residentMB, GOALS.memoryMB, 'MB')
    const each = (a: number, b: number): string => round((b - a) / all, 3)
    console.log(
      `  cost of one environment in the daemon: processor ${each(idle.percent, busy.percent)} %,`,
    )
    console.log(`    memory ${each(idle.residentMB, busy.residentMB)} MB`)
    printOthers(fixture)
  } finally {
    await made.close()
    rmSync(folder, { recursive: true })
  }
}

/** The processes beside the daemon: supervisors, the edge, a warm runner. */
function printOthers(fixture: Fixture): void {
  for (const verb of ['supervise', 'edge', 'runner']) {
    const found = listProcesses().filter(({ pid }) => isOf(fixture, pid, verb))
    if (found.length === 0) continue
    const sizes = found.map(({ pid }) => proportionalMB(pid))
    const mean = sizes.reduce((a, b) => a + b, 0) / sizes.length
    console.log(`  ${found.length} × ${verb}: ${round(mean)} MB each (PSS)`)
  }
}

function isOf(fixture: Fixture, pid: number, verb: string): boolean {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0')
    const isOurs = readFileSync(`/proc/${pid}/environ`, 'latin1').includes(fixture.dir)
    return isOurs && words.includes(verb)
  } catch {
    return false
  }
}
