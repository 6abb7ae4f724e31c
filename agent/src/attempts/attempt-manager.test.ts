// The attempt manager with real processes: the real executor spawns a tiny runner, which is killed, left alone,
// stopped, or finishes while no daemon runs. The journal is real; the outbox shows what the control plane would
// receive.
import { randomBytes } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { failureWord } from '@berth/shared'
import {
  type Assignment,
  AssignmentSchema,
  AttemptState,
  Desired,
  Recipe,
} from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { type Duration, durationFromMs } from '@bufbuild/protobuf/wkt'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Clock, systemClock } from '../clock.ts'
import { readClaim } from '../journal/attempt-files.ts'
import { Journal } from '../journal/journal.ts'
import { decodeEvent } from '../journal/outbox.ts'
import { silentLog } from '../log.ts'
import {
  isSameProcess,
  listProcesses,
  readBootId,
  readStartTicks,
} from '../machine/process/processes.ts'
import { type AgentSettings, attemptDir, readSettings, scratchDir } from '../settings.ts'
import { AttemptManager } from './attempt-manager.ts'
import { createExecutor, type Executor } from './executor.ts'
import { Spools } from './spools.ts'

const PROGRAM = [process.execPath, join(import.meta.dirname, 'tiny-runner.testing.ts')]
const SECRET = 'correct-horse-battery-staple'
// unique to this run: processes are found by their attempt, and several tests may run concurrently
const run = randomBytes(4).toString('hex')
const id = (n: number): string => `${run}-0000-7000-8000-${String(n).padStart(12, '0')}`

interface Daemon {
  manager: AttemptManager
  journal: Journal
  /** As if the process had died. */
  die(): void
}
let settings: AgentSettings
let daemons: Daemon[]
let version: bigint

beforeEach(() => {
  const dir = mkdtempSync(join(tmpdir(), 'berth-attempts-'))
  settings = readSettings({ BERTH_STATE_DIR: dir })
  daemons = []
  version = 0n
})
afterEach(() => {
  for (const daemon of daemons) daemon.die()
  const attempts = join(settings.stateDir, 'attempts')
  for (const name of existsSync(attempts) ? readdirSync(attempts) : []) {
    const claim = readClaim(join(attempts, name))
    if (claim?.by === 'runner' && isSameProcess(claim.pid, claim.startTicks)) {
      process.kill(claim.pid, 'SIGKILL')
    }
  }
  rmSync(settings.stateDir, { recursive: true, force: true })
})

interface StartOptions {
  bootId?: string
  executor?: Executor
  clock?: Clock
  taskSlots?: number
}
function startDaemon(over: StartOptions = {}): Daemon {
  const bootId = over.bootId ?? readBootId()
  const fatal = (error: Error): void => {
    throw error
  }
  const journal = Journal.open(settings.stateDir, { bootId, fatal })
  const spools = new Spools(settings, journal)
  const executor = over.executor ?? createExecutor(settings, PROGRAM)
  const clock = over.clock ?? systemClock
  const rest = { settings, spools, log: silentLog, taskSlots: () => over.taskSlots ?? 4 }
  const manager = new AttemptManager({ journal, executor, clock, bootId, ...rest })
  const daemon: Daemon = {
    manager,
    journal,
    die() {
      manager.close()
      spools.close()
      if (journal.isOpen) journal.close()
    },
  }
  daemons.push(daemon)
  manager.open()
  return daemon
}

interface Over {
  desired?: Desired
  environmentId?: number
  startWithin?: Duration
  behaviour?: string
  described?: boolean
}
function assign(
  n: number,
  { behaviour = 'wait', described = true, ...over }: Over = {},
): Assignment {
  const spec = {
    kind: { case: 'deploy' as const, value: {} },
    recipe: Recipe.MANUAL,
    environment: { branch: behaviour },
  }
  const secrets = { variables: [{ key: 'TOKEN', value: Buffer.from(SECRET) }] }
  return create(AssignmentSchema, {
    attemptId: id(n),
    environmentId: 1,
    fence: BigInt(n),
    desired: Desired.RUNNING,
    ...(described ? { spec, secrets } : {}),
    ...over,
  })
}
function apply(daemon: Daemon, assignments: Assignment[], complete = false): void {
  daemon.manager.apply({ complete, version: ++version, assignments })
  daemon.manager.advance()
}

const acknowledge = ({ journal }: Daemon): void =>
  journal.transact(() => journal.outbox.drop(journal.outbox.range().last))

/** What the control plane would receive, in order: "<attempt number> <state or event>". */
function heard({ journal }: Daemon): string[] {
  return journal.outbox.read(0n, 1_000).map((row) => {
    const { attemptId, body } = decodeEvent(row)
    const n = Number(attemptId.slice(-12))
    if (body.case !== 'attempt') return `${n} ${body.case}`
    const { state, code, waitingFor } = body.value
    const why = code ? ` ${failureWord(code)}` : waitingFor ? ` for ${waitingFor}` : ''
    return `${n} ${STATES.get(state)}${why}`
  })
}
const STATES = new Map<number, string>(
  Object.entries(AttemptState).map(([name, number]) => [number, name.toLowerCase()]),
)
const stateOf = (d: Daemon, n: number): AttemptState | undefined =>
  d.journal.attempts.find(id(n))?.state

async function until(what: string, holds: () => boolean): Promise<void> {
  const deadline = Date.now() + 10_000
  while (!holds()) {
    if (Date.now() > deadline) {
      const reported = daemons.filter((d) => d.journal.isOpen).flatMap(heard)
      throw new Error(`never happened: ${what}; told: ${reported.join(', ')}`)
    }
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}
const untilState = (d: Daemon, n: number, state: AttemptState): Promise<void> =>
  until(`attempt ${n} is ${STATES.get(state)}`, () => stateOf(d, n) === state)
const dirOf = (n: number): string => attemptDir(settings, id(n))
const runnerOf = (n: number): number => readClaim(dirOf(n))?.pid ?? 0
const FINISHED = ['1 accepted', '1 starting', '1 running', '1 warning', '1 succeeded']

test('accept, start, run, succeed: every event once and in order, under its own name', async () => {
  const daemon = startDaemon()
  apply(daemon, [assign(1, { behaviour: 'succeed' })])
  await untilState(daemon, 1, AttemptState.SUCCEEDED)
  expect(heard(daemon)).toEqual(FINISHED)
  const events = daemon.journal.outbox.read(0n, 9).map(decodeEvent)
  expect(events.map((e) => [e.attemptId, e.fence])).toEqual(FINISHED.map(() => [id(1), 1n]))
  expect(events[3]?.body.value).toMatchObject({ message: '1 variables' })
  expect(events[4]?.body.value).toMatchObject({ finalLogSeq: 1n })
})

test('secrets reach the runner and nothing on disk, in its arguments or its environment', async () => {
  const daemon = startDaemon()
  apply(daemon, [assign(1)])
  await untilState(daemon, 1, AttemptState.RUNNING)
  const files = readdirSync(settings.stateDir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
  expect(files.some((file) => file.endsWith('spec.bin'))).toBe(true)
  const proc = `/proc/${runnerOf(1)}`
  for (const file of [...files, `${proc}/cmdline`, `${proc}/environ`]) {
    expect(readFileSync(file).includes(SECRET), file).toBe(false)
  }
  expect(readFileSync(`${proc}/environ`, 'latin1')).toContain(`BERTH_ATTEMPT_ID=${id(1)}`)
  expect(daemon.manager.holdsSecrets(id(1))).toBe(false)
})

test('a runner that is killed: failed, runner_died, with the log it left', async () => {
  const daemon = startDaemon()
  apply(daemon, [assign(1)])
  await untilState(daemon, 1, AttemptState.RUNNING)
  const scratch = scratchDir(settings, id(1))
  mkdirSync(join(scratch, 'git'), { recursive: true })
  writeFileSync(join(scratch, 'git', 'key'), SECRET)
  process.kill(runnerOf(1), 'SIGKILL')
  await untilState(daemon, 1, AttemptState.FAILED)
  expect(heard(daemon).at(-1)).toBe('1 failed runner_died')
  await until('its key is gone', () => !existsSync(scratch))
  const last = daemon.journal.outbox.read(0n, 99).map(decodeEvent).at(-1)
  expect(last?.body.value).toMatchObject({ finalLogSeq: 1n })
})

test('a runner that ends before its claim had no effect: refused, not_started', async () => {
  const daemon = startDaemon()
  apply(daemon, [assign(1, { behaviour: 'exit-before-claim' })])
  await untilState(daemon, 1, AttemptState.REFUSED)
  expect(heard(daemon)).toEqual(['1 accepted', '1 starting', '1 refused not_started'])
  expect(readClaim(dirOf(1))?.by).toBe('daemon')
})

test('a runner that cannot be spawned: refused, not_started', async () => {
  const daemon = startDaemon({ executor: createExecutor(settings, ['/nonexistent/node']) })
  apply(daemon, [assign(1)])
  await untilState(daemon, 1, AttemptState.REFUSED)
  expect(heard(daemon)).toEqual(['1 accepted', '1 starting', '1 refused not_started'])
})

test('the daemon died between the commit and the spawn: the claim proves that nothing happened', async () => {
  const dead: Executor = {
    ...createExecutor(settings, PROGRAM),
    spawnRunner: () => {
      throw new Error('killed here')
    },
  }
  const first = startDaemon({ executor: dead })
  first.manager.apply({ complete: false, version: 1n, assignments: [assign(1)] })
  first.manager.advance()
  first.die()
  const second = startDaemon()
  expect(heard(second)).toEqual(['1 accepted', '1 starting', '1 refused not_started'])
  // a runner that wakes up late finds the claim taken
  expect(readClaim(dirOf(1))?.by).toBe('daemon')
})

test('it finished while the daemon was away: imported, each event once', async () => {
  const first = startDaemon()
  apply(first, [assign(1)])
  await untilState(first, 1, AttemptState.RUNNING)
  const pid = runnerOf(1)
  first.die()
  writeFileSync(join(dirOf(1), 'finish'), '')
  await until('the runner ended', () => !existsSync(`/proc/${pid}/exe`))
  const second = startDaemon()
  expect(stateOf(second, 1)).toBe(AttemptState.SUCCEEDED)
  expect(heard(second)).toEqual(FINISHED)
})

test('a daemon restart does not touch the runner: adopted, and stopped when asked', async () => {
  const first = startDaemon()
  apply(first, [assign(1)])
  await untilState(first, 1, AttemptState.RUNNING)
  const pid = runnerOf(1)
  first.die()
  const second = startDaemon()
  expect(stateOf(second, 1)).toBe(AttemptState.RUNNING)
  expect(runnerOf(1)).toBe(pid)
  apply(second, [assign(1, { desired: Desired.STOPPED, described: false })])
  await untilState(second, 1, AttemptState.CANCELED)
  expect(heard(second)).toEqual([...FINISHED.slice(0, 4), '1 canceling', '1 canceled'])
})

test('another boot of the machine: failed, host_rebooted', async () => {
  const first = startDaemon()
  apply(first, [assign(1)])
  await untilState(first, 1, AttemptState.RUNNING)
  first.die()
  const second = startDaemon({ bootId: 'the-boot-after' })
  expect(heard(second).at(-1)).toBe('1 failed host_rebooted')
})

test('the runner died while the daemon was away: failed, runner_died', async () => {
  const first = startDaemon()
  apply(first, [assign(1)])
  await untilState(first, 1, AttemptState.RUNNING)
  const pid = runnerOf(1)
  first.die()
  process.kill(pid, 'SIGKILL')
  // its program exits a moment before the process disappears
  await until('it is gone', () => readStartTicks(pid) === undefined)
  const second = startDaemon()
  expect(heard(second).at(-1)).toBe('1 failed runner_died')
})

test('its folder vanished with what it said: failed, never called "not started"', async () => {
  const first = startDaemon()
  apply(first, [assign(1)])
  await untilState(first, 1, AttemptState.RUNNING)
  const pid = runnerOf(1)
  first.die()
  process.kill(pid, 'SIGKILL')
  rmSync(dirOf(1), { recursive: true })
  const second = startDaemon()
  expect(heard(second).at(-1)).toBe('1 failed runner_died')
})

for (const ahead of [false, true]) {
  const how = ahead ? 'started ahead' : 'started for it'
  test(`an attempt that is given up while its runner (${how}) lives: nothing of it goes on`, async () => {
    const executor = createExecutor(settings, PROGRAM)
    if (ahead) executor.prepare?.()
    const daemon = startDaemon({ executor })
    apply(daemon, [assign(1)])
    await untilState(daemon, 1, AttemptState.RUNNING)
    const pid = runnerOf(1)
    rmSync(dirOf(1), { recursive: true })
    await untilState(daemon, 1, AttemptState.FAILED)
    await until('the runner ended', () => !existsSync(`/proc/${pid}/exe`))
    executor.close?.()
  })
}

test('a runner started ahead that died unnoticed costs nothing: another one is started', async () => {
  const executor = createExecutor(settings, PROGRAM)
  const before = new Set(listProcesses().map(({ pid }) => pid))
  executor.prepare?.()
  const isNew = ({ pid, parent }: { pid: number; parent: number }) =>
    parent === process.pid && !before.has(pid)
  const pid = listProcesses().find(isNew)?.pid ?? 0
  expect(pid).toBeGreaterThan(0)
  const daemon = startDaemon({ executor })
  process.kill(pid, 'SIGKILL')
  // busy-wait without yielding to the event loop, so this process has not been notified yet
  for (let i = 0; i < 1e6 && readStartTicks(pid) !== undefined; i++);
  apply(daemon, [assign(1, { behaviour: 'succeed' })])
  await untilState(daemon, 1, AttemptState.SUCCEEDED)
  expect(heard(daemon)).toEqual(FINISHED)
  executor.close?.()
})

test('one deployment per environment: the older is stopped first, then the newer starts', async () => {
  const daemon = startDaemon()
  apply(daemon, [assign(1)])
  await untilState(daemon, 1, AttemptState.RUNNING)
  apply(daemon, [assign(2, { behaviour: 'succeed' })])
  await untilState(daemon, 2, AttemptState.SUCCEEDED)
  const states = heard(daemon).filter((line) => !line.endsWith('warning'))
  expect(states).toEqual([
    '1 accepted',
    '1 starting',
    '1 running',
    '2 accepted',
    '2 accepted for environment',
    '1 canceling',
    '1 canceled',
    '2 starting',
    '2 running',
    '2 succeeded',
  ])
})

test('nothing starts in an environment whose services are being brought back, and the other way round', async () => {
  const daemon = startDaemon()
  expect(daemon.manager.occupy(1)).toBe(true)
  apply(daemon, [assign(1)])
  expect(heard(daemon)).toEqual(['1 accepted', '1 accepted for environment'])
  daemon.manager.vacate(1)
  expect(stateOf(daemon, 1)).toBe(AttemptState.STARTING)
  expect(daemon.manager.occupy(1)).toBe(false)
  await untilState(daemon, 1, AttemptState.RUNNING)
})

test('a busy server makes other environments wait, and says so', async () => {
  const daemon = startDaemon({ taskSlots: 1 })
  apply(daemon, [assign(1), assign(2, { environmentId: 2, behaviour: 'succeed' })])
  expect(heard(daemon)).toContain('2 accepted for dispatch')
  await untilState(daemon, 1, AttemptState.RUNNING)
  writeFileSync(join(dirOf(1), 'finish'), '')
  await untilState(daemon, 2, AttemptState.SUCCEEDED)
})

test('the same assignment again starts nothing; a forgotten one is reported, never started', async () => {
  const daemon = startDaemon()
  apply(daemon, [assign(1, { behaviour: 'succeed' })])
  await untilState(daemon, 1, AttemptState.SUCCEEDED)
  apply(daemon, [assign(1, { behaviour: 'succeed' })], true)
  expect(heard(daemon)).toEqual(FINISHED) // already in the outbox
  acknowledge(daemon)
  apply(daemon, [assign(1, { behaviour: 'succeed' })], true)
  expect(heard(daemon)).toEqual(['1 succeeded'])
  apply(daemon, [assign(1, { desired: Desired.FORGOTTEN, described: false })])
  expect([existsSync(dirOf(1)), stateOf(daemon, 1)]).toEqual([false, undefined])
  acknowledge(daemon)
  apply(daemon, [assign(1, { behaviour: 'succeed' })])
  expect(heard(daemon)).toEqual(['1 succeeded'])
  expect(daemon.manager.liveIds()).toEqual([])
  acknowledge(daemon)
  daemon.die()
  const again = startDaemon()
  apply(again, [assign(1, { behaviour: 'succeed' })])
  expect(heard(again).at(-1)).toBe('1 succeeded')
  expect(again.manager.liveIds()).toEqual([])
})

test('canceled before it was seen: a late RUNNING starts nothing', () => {
  const daemon = startDaemon()
  apply(daemon, [assign(1, { desired: Desired.STOPPED, described: false })])
  acknowledge(daemon)
  apply(daemon, [assign(1)])
  expect(heard(daemon)).toEqual(['1 canceled'])
  expect(existsSync(dirOf(1))).toBe(false)
})

test('an old fence is refused after a newer one was seen, also over a restart', async () => {
  const first = startDaemon()
  apply(first, [assign(5, { behaviour: 'succeed' })])
  await untilState(first, 5, AttemptState.SUCCEEDED)
  first.die()
  const second = startDaemon()
  apply(second, [assign(4)])
  expect(heard(second).at(-1)).toBe('4 refused stale_fence')
})

test('a complete set that misses an attempt stops it, and does not forget it', async () => {
  const daemon = startDaemon()
  apply(daemon, [assign(1)])
  await untilState(daemon, 1, AttemptState.RUNNING)
  apply(daemon, [], true)
  await untilState(daemon, 1, AttemptState.CANCELED)
  expect(existsSync(dirOf(1))).toBe(true)
})

test('a stop that could not be written down is tried again', async () => {
  const daemon = startDaemon()
  apply(daemon, [assign(1)])
  await untilState(daemon, 1, AttemptState.RUNNING)
  const blocked = join(dirOf(1), `stop.${process.pid}.tmp`) // where the file is written first
  mkdirSync(blocked)
  apply(daemon, [assign(1, { desired: Desired.STOPPED, described: false })])
  rmSync(blocked, { recursive: true })
  await untilState(daemon, 1, AttemptState.CANCELED)
})

test('a waiting attempt keeps its place over a restart and starts when its secrets come again', async () => {
  const first = startDaemon({ taskSlots: 1 })
  apply(first, [assign(1, { environmentId: 2 }), assign(2, { behaviour: 'succeed' })])
  await untilState(first, 1, AttemptState.RUNNING)
  first.die()
  writeFileSync(join(dirOf(1), 'finish'), '')
  const second = startDaemon({ taskSlots: 1 })
  await untilState(second, 1, AttemptState.SUCCEEDED)
  expect([stateOf(second, 2), second.manager.holdsSecrets(id(2))]).toEqual([
    AttemptState.ACCEPTED,
    false,
  ])
  apply(second, [assign(2, { behaviour: 'succeed' })])
  await untilState(second, 2, AttemptState.SUCCEEDED)
})

test('waiting longer than start_within: refused, start_expired', () => {
  let ahead = 0
  const clock = { ...systemClock, mono: () => systemClock.mono() + ahead }
  const daemon = startDaemon({ clock, taskSlots: 0 })
  apply(daemon, [assign(1, { startWithin: durationFromMs(60_000) })])
  ahead = 59_000
  daemon.manager.advance()
  expect(stateOf(daemon, 1)).toBe(AttemptState.ACCEPTED)
  ahead = 60_001
  daemon.manager.advance()
  expect(heard(daemon).at(-1)).toBe('1 refused start_expired')
})

test('draining: a new attempt is refused, a waiting one does not start', () => {
  const daemon = startDaemon()
  daemon.manager.drain()
  apply(daemon, [assign(1)])
  expect(heard(daemon)).toEqual(['1 refused draining'])
})

test('folders that the journal does not know are removed at the start', () => {
  startDaemon().die()
  writeFileSync(join(settings.stateDir, 'attempts', id(9)), '')
  startDaemon()
  expect(readdirSync(join(settings.stateDir, 'attempts'))).toEqual([])
})
