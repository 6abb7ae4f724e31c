// What tests look at: repositories made on the spot, and one deployment as its files, events and processes show it.
import { type ChildProcess, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import {
  type AttemptChanged,
  type Event,
  forEachRecord,
  type LogSource,
  type StepChanged,
} from '@berth/shared/wire'
import { hasMarker, listProcesses } from '../../agent/src/exec/processes.ts'
import { attemptPaths } from '../../agent/src/journal/attempt-files.ts'
import { EventFileReader } from '../../agent/src/journal/event-file.ts'
import { SpoolReader } from '../../agent/src/journal/spool-reader.ts'

export type Files = Record<string, string | { link: string } | null>

type Seen<T> = T | undefined | false

/** Looks until it is there; fails after a bound. */
export async function eventually<T>(
  look: () => Seen<T> | Promise<Seen<T>>,
  what: string,
): Promise<T> {
  const end = performance.now() + 120_000 // a bound, not a measure
  for (;;) {
    const seen = await look()
    if (seen !== undefined && seen !== false) return seen
    if (performance.now() > end) throw new Error(`waited in vain for ${what}`)
    await delay(20)
  }
}

export class Repository {
  readonly folder: string
  readonly url: string

  constructor(folder: string) {
    this.folder = folder
    this.url = `file://${folder}`
    mkdirSync(folder, { recursive: true, mode: 0o755 })
    this.git('init', '--quiet', '--initial-branch=main')
  }

  git(...args: string[]): string {
    const who = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com']
    return execFileSync('git', [...who, ...args], {
      cwd: this.folder,
      env: { PATH: process.env.PATH, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' },
      encoding: 'utf8',
    }).trim()
  }

  /** null removes a file. Returns the commit. */
  commit(files: Files, subject = 'Change'): string {
    for (const [path, content] of Object.entries(files)) {
      const file = join(this.folder, path)
      mkdirSync(dirname(file), { recursive: true })
      rmSync(file, { force: true })
      if (typeof content === 'string') writeFileSync(file, content)
      else if (content) execFileSync('ln', ['-s', content.link, file])
    }
    this.git('add', '--all')
    this.git('commit', '--quiet', '--allow-empty', '-m', subject)
    return this.git('rev-parse', 'HEAD')
  }
}

export interface LogLine {
  source: LogSource
  step: number
  data: Buffer
}

export class Deployment {
  readonly taskId: number
  readonly dir: string
  readonly child: ChildProcess
  readonly ended: Promise<number | null>

  constructor(taskId: number, dir: string, child: ChildProcess) {
    this.taskId = taskId
    this.dir = dir
    this.child = child
    this.ended = once(child, 'exit').then(([code]) => code as number | null)
  }

  events(): Event[] {
    const reader = EventFileReader.open(attemptPaths(this.dir).events)
    const events: Event[] = []
    for (let found = reader.read(); found.length > 0; found = reader.read()) {
      events.push(...found.map(({ event }) => event))
    }
    reader.close()
    return events
  }

  /** The bodies of one kind, in their order. */
  bodies<C extends NonNullable<Event['body']['case']>>(kind: C) {
    type Body = Extract<Event['body'], { case: C }>['value']
    return this.events().flatMap(({ body }) => (body.case === kind ? [body.value as Body] : []))
  }

  get attemptId(): string {
    return basename(this.dir)
  }

  /** How many processes of its commands live; the runner itself carries the same mark. */
  processes(): number {
    const marked = listProcesses().filter(({ pid }) =>
      hasMarker(pid, `BERTH_ATTEMPT_ID=${this.attemptId}`),
    )
    return marked.filter(({ pid }) => pid !== this.child.pid).length
  }

  attempts(): AttemptChanged[] {
    return this.bodies('attempt')
  }

  /** How each step ended, in the order of the plan. */
  steps(): Record<string, StepChanged> {
    return Object.fromEntries(this.bodies('step').map((step) => [step.stepId, step]))
  }

  async verdict(): Promise<AttemptChanged> {
    await this.ended
    const last = this.events().at(-1)?.body
    if (last?.case !== 'attempt') throw new Error(`no verdict; runner.log: ${this.runnerLog()}`)
    return last.value
  }

  /** The records of the log, in their order. */
  records(): LogLine[] {
    if (!existsSync(attemptPaths(this.dir).log)) return [] // it has not begun yet
    const reader = SpoolReader.open(attemptPaths(this.dir).log)
    const lines: LogLine[] = []
    for (let batch = reader.read(); batch; batch = reader.read()) {
      const { records } = batch
      forEachRecord(records, (_time, source, step, start, end) => {
        lines.push({ source, step, data: Buffer.from(records.subarray(start, end)) })
      })
    }
    return lines
  }

  log(): string {
    return Buffer.concat(this.records().map(({ data }) => data)).toString()
  }

  /** Also before its runner has begun. */
  hasSaid(text: string): boolean {
    return existsSync(attemptPaths(this.dir).log) && this.log().includes(text)
  }

  runnerLog(): string {
    return readFileSync(attemptPaths(this.dir).runnerLog, 'utf8')
  }

  stop(why: string): void {
    writeFileSync(attemptPaths(this.dir).stop, why)
    this.child.kill('SIGUSR2')
  }
}

/** Every byte of every file below, for a search. */
export function readTree(dir: string): Buffer {
  const parts: Buffer[] = []
  for (const entry of readdirSync(dir, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) parts.push(readFileSync(join(entry.parentPath, entry.name)))
  }
  return Buffer.concat(parts)
}
