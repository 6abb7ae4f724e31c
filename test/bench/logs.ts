// Lines from a program on the server to the control plane's disk, and from a write to a live reader. The floor is the
// same program read through a plain pipe by the same Node, in the same run. With PostgreSQL, which then syncs its writes
// as in production, the floor is also the disk: rate and download, in turns with a control plane that has log files.

import { spawn } from 'node:child_process'
import { get } from 'node:http'
import { LOGS } from '@berth/shared'
import type { LogLine, Task } from '@berth/shared/api'
import { locate } from '../fixtures/platform/components.ts'
import type { EngineName } from '../fixtures/platform/engines.ts'
import { createDatabase, startPostgres } from '../fixtures/platform/postgres.ts'
import { Fixture, until } from '../fixtures/server/installation.ts'
import { findProcesses, percentile, residentMiB, round, thousands } from './figures.ts'
import { goalAtLeast, goalAtMost } from './goals.ts'

const program = (lines: number): string =>
  `awk 'BEGIN { for (i = 0; i < ${lines}; i++) printf "%07d abcdefghijk\\n", i }'`

const STAMP_SECONDS = 10
const STAMP_RATE = 5_000
// 50 lines each 10 ms, each with its time of writing
const STAMPS = `import sys, time
start = time.monotonic()
n = 0
while n < ${STAMP_SECONDS * STAMP_RATE}:
    due = start + n / ${STAMP_RATE}
    now = time.monotonic()
    if due > now: time.sleep(due - now)
    for i in range(50):
        print("stamp %d %.6f" % (n, time.time()))
        n += 1
    sys.stdout.flush()
`

const serviceFile = (run: string): string => `manual:
  deploy:
    - name: Write
      run: ${JSON.stringify(run)}
`

/** Lines per second of the program through a pipe into a reader that only counts. */
async function pipeFloor(lines: number): Promise<number> {
  const began = performance.now()
  const child = spawn('/bin/sh', ['-c', program(lines)], { stdio: ['ignore', 'pipe', 'inherit'] })
  let seen = 0
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) seen += 1
  }
  if (seen !== lines) throw new Error(`the floor saw ${seen} of ${lines} lines`)
  return lines / ((performance.now() - began) / 1_000)
}

class MemoryWatch {
  readonly #peaks = new Map<string, number>()
  readonly #timer: NodeJS.Timeout

  constructor(fixture: Fixture) {
    this.#timer = setInterval(() => {
      this.#note('control plane', fixture.controlPlane?.pid)
      this.#note('agent', fixture.agent?.pid)
      for (const pid of findProcesses('agent/src/main.ts', 'runner')) this.#note('runner', pid)
    }, 100)
  }

  #note(name: string, pid: number | undefined): void {
    const now = pid === undefined ? 0 : residentMiB(pid)
    this.#peaks.set(name, Math.max(this.#peaks.get(name) ?? 0, now))
  }

  stop(): string {
    clearInterval(this.#timer)
    return [...this.#peaks].map(([name, mib]) => `${name} ${round(mib, 0)} MiB`).join(', ')
  }
}

async function deployProgram(
  fixture: Fixture,
  name: string,
  files: Record<string, string>,
): Promise<Task> {
  const project = await fixture.project(name, fixture.repository(name, files))
  const environment = await fixture.environment(project.id, 'main')
  return fixture.deploy(environment.id)
}

interface Passed {
  taskId: number
  /** Lines per second until all were durable. */
  rate: number
}

async function throughput(fixture: Fixture, lines: number, name = 'flood'): Promise<Passed> {
  const task = await deployProgram(fixture, name, {
    '.service.yml': serviceFile(program(lines)),
  })
  const memory = new MemoryWatch(fixture)
  const done = await until(
    'the whole log',
    async () => {
      const now = await fixture.get<Task>(`/api/tasks/${task.id}`)
      return now.log_complete ? now : undefined
    },
    600_000,
  )
  const ended = Date.now()
  const peaks = memory.stop()
  if (done.status !== 'succeeded') throw new Error(`task ${done.status}: ${done.failure?.message}`)
  const step = done.phases?.flatMap((p) => p.steps).find((s) => s.name === '1')
  const first = await firstLine(fixture, task.id, step?.first_line ?? 1)
  const stored = await countLines(fixture, task.id)
  if (stored !== lines) throw new Error(`${stored} of ${lines} lines were stored`)
  const rate = lines / ((ended - Date.parse(first.t)) / 1_000)
  console.log(`peak memory while ${thousands(lines)} lines passed: ${peaks}`)
  return { taskId: task.id, rate }
}

/** MB per second of the whole log to a reader that only counts. */
async function download(fixture: Fixture, taskId: number): Promise<number> {
  const began = performance.now()
  const bytes = await new Promise<number>((resolve, reject) => {
    const headers = { authorization: `Bearer ${fixture.token}` }
    get(`${fixture.url}/api/tasks/${taskId}/log`, { headers }, (answer) => {
      let seen = 0
      answer.on('data', (piece: Buffer) => {
        seen += piece.length
      })
      answer.on('end', () => resolve(seen))
      answer.on('error', reject)
    }).on('error', reject)
  })
  return bytes / 1_000 / (performance.now() - began)
}

const ROUNDS = 3
const DOWNLOADS = 7

/** In turns, so that a busy machine changes both sides. */
async function compareWithDisk(fixture: Fixture, lines: number): Promise<void> {
  const disk = await Fixture.open()
  const sides = [disk, fixture]
  const rates: number[][] = [[], []]
  const loads: number[][] = [[], []]
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const tasks: number[] = []
      for (const [side, one] of sides.entries()) {
        const { rate, taskId } = await throughput(one, lines, `round-${round}`)
        rates[side]?.push(rate)
        tasks.push(taskId)
      }
      for (let n = 0; n < DOWNLOADS; n++) {
        for (const [side, one] of sides.entries()) {
          loads[side]?.push(await download(one, tasks[side] ?? 0))
        }
      }
    }
  } finally {
    await disk.close()
  }
  const ratio = (what: string, unit: string, [files = [], blocks = []]: number[][]): void => {
    const [a, b] = [percentile(files, 50), percentile(blocks, 50)]
    console.log(`${what}: disk ${thousands(a)} ${unit}, PostgreSQL ${thousands(b)} ${unit}`)
    goalAtLeast(`${what} with PostgreSQL`, b / a, 0.8, 'of the disk')
  }
  ratio('durable lines', 'lines/s', rates)
  ratio('download', 'MB/s', loads)
}

async function firstLine(fixture: Fixture, taskId: number, line: number): Promise<LogLine> {
  const answer = await fetch(`${fixture.url}/api/tasks/${taskId}/log?from_line=${line}&lines=1`, {
    headers: { authorization: `Bearer ${fixture.token}`, accept: 'application/x-ndjson' },
  })
  return JSON.parse((await answer.text()).split('\n')[0] ?? '') as LogLine
}

/** Lines of the program in the stored log, counted from its bytes. */
async function countLines(fixture: Fixture, taskId: number): Promise<number> {
  const log = await fixture.log(taskId, '?step=1')
  let count = 0
  for (
    let at = log.indexOf(' abcdefghijk\n');
    at >= 0;
    at = log.indexOf(' abcdefghijk\n', at + 1)
  ) {
    count += 1
  }
  return count
}

/** Milliseconds from the write on the server to the arrival at a follower, line by line. */
async function liveDelays(fixture: Fixture): Promise<number[]> {
  const task = await deployProgram(fixture, 'stamps', {
    '.service.yml': serviceFile('exec python3 -u stamps.py'),
    'stamps.py': STAMPS,
  })
  const answer = await fetch(`${fixture.url}/api/tasks/${task.id}/log?follow=true`, {
    headers: { authorization: `Bearer ${fixture.token}` },
  })
  const delays: number[] = []
  let rest = ''
  for await (const chunk of answer.body as unknown as AsyncIterable<Uint8Array>) {
    const now = Date.now()
    const lines = (rest + Buffer.from(chunk).toString('latin1')).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const stamp = /^stamp \d+ (\d+\.\d+)/.exec(line)?.[1]
      if (stamp) delays.push(now - Number(stamp) * 1_000)
    }
  }
  const expected = STAMP_SECONDS * STAMP_RATE
  if (delays.length !== expected) throw new Error(`followed ${delays.length} of ${expected} lines`)
  return delays
}

/** How late a timer of the flush interval is on this machine now: p99 of its real length. */
async function tickFloor(): Promise<number> {
  const times: number[] = []
  for (let n = 0; n < 100; n++) {
    const began = performance.now()
    await new Promise((resolve) => setTimeout(resolve, LOGS.tickMs))
    times.push(performance.now() - began)
  }
  return percentile(times, 99)
}

export async function benchLogs(lines: number, engine: EngineName): Promise<void> {
  const postgres =
    engine === 'postgres'
      ? await startPostgres(locate('postgres') ?? 'postgres', { isDurable: true })
      : undefined
  if (postgres) process.env.BERTH_TEST_POSTGRES = postgres.folder
  const fixture = await Fixture.open(postgres ? { databaseUrl: await createDatabase() } : {})
  try {
    const floor = await pipeFloor(lines)
    const { rate } = await throughput(fixture, lines)
    const delays = await liveDelays(fixture)
    console.log(`plain pipe:            ${thousands(floor)} lines/s`)
    console.log(
      `durable through Berth: ${thousands(rate)} lines/s, ${round(rate / floor)} of the pipe`,
    )
    goalAtLeast('durable lines', rate / floor, 0.04, 'of a plain pipe')
    console.log(
      `live at ${thousands(STAMP_RATE)} lines/s: p50 ${round(percentile(delays, 50), 0)} ms, ` +
        `p99 ${round(percentile(delays, 99), 0)} ms`,
    )
    const tick = await tickFloor()
    goalAtMost(
      'delay of a live line, p99',
      percentile(delays, 99) / tick,
      5,
      `× a timer of ${LOGS.tickMs} ms (p99 ${round(tick, 0)} ms)`,
    )
    if (postgres) await compareWithDisk(fixture, lines)
  } finally {
    await fixture.close()
    await postgres?.stop()
  }
}
