// Manages the attempts of this server: takes assignments, starts and watches runners, judges what is left when one is
// dead, and forgets what the control plane has stored. The journal is the only memory, except for secrets (which may be
// nowhere else) and open files. Order at a start: commit STARTING, write spec.bin, spawn.
import { existsSync, mkdirSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import { totalmem } from 'node:os'
import { join } from 'node:path'
import { DAEMON } from '@berth/shared'
import { AssignmentSchema, AttemptState, FailureCode, TaskSecretsSchema } from '@berth/shared/wire'
import { fromBinary, toBinary } from '@bufbuild/protobuf'
import { attemptPaths, takeClaim } from '../journal/attempt-files.ts'
import type { AttemptRow } from '../journal/attempt-table.ts'
import { describeError } from '../log.ts'
import { replaceFile, syncFolder } from '../machine/atomic-files.ts'
import { listSlotProcesses } from '../machine/process/slots.ts'
import { type AgentSettings, attemptDir } from '../settings.ts'
import { appendTailAfterDeath } from '../spool/tail.ts'
import { type Applied, type AssignmentSet, applyAssignments } from './assignments.ts'
import { LiveAttempt, type LiveContext } from './live-attempt.ts'
import { endNotStarted } from './not-started.ts'
import { changeAttempt } from './records.ts'
import type { Spools } from './spools.ts'
import { decideStarts, mostBuilders } from './starts.ts'

interface AttemptManagerOptions extends LiveContext {
  settings: AgentSettings
  spools: Spools
  /** Attempts that run together; asked each time, because people change it. */
  taskSlots: () => number
}

/** Something about this attempt changed: its state, events or log. */
type AttemptManagerListener = (attemptId: string) => void

const isLive = ({ state }: AttemptRow): boolean =>
  state >= AttemptState.STARTING && state < AttemptState.SUCCEEDED

const isDeployment = ({ state, assignment }: AttemptRow): boolean =>
  state === AttemptState.ACCEPTED &&
  fromBinary(AssignmentSchema, assignment).spec?.kind.case === 'deploy'

export class AttemptManager {
  readonly #builders = mostBuilders(totalmem())
  readonly #options: AttemptManagerOptions
  readonly #live = new Map<string, LiveAttempt>()
  readonly #secrets = new Map<string, Buffer>()
  readonly #listeners = new Set<AttemptManagerListener>()
  readonly #hinted = new Set<string>()
  readonly #occupied = new Map<number, number>()
  #poll: NodeJS.Timeout | undefined
  #soon: NodeJS.Timeout | undefined
  #waiting = false
  #draining = false
  #advancedAt = 0

  constructor(options: AttemptManagerOptions) {
    this.#options = options
  }

  /** Re-adoption: judges everything that was under way when the previous daemon ended. */
  open(): void {
    const { journal, settings } = this.#options
    mkdirSync(join(settings.stateDir, 'attempts'), { recursive: true, mode: 0o700 })
    journal.transact(() => journal.attempts.expireTombstones(this.#options.clock.now()))
    this.#removeOrphans()
    for (const row of journal.attempts.list()) if (isLive(row)) this.#watch(row.id)
    for (const id of this.liveIds()) this.#guard(id, () => this.#look(id))
    this.advance()
    this.#poll = setInterval(() => this.#tick(), DAEMON.pollMs)
  }

  close(): void {
    clearInterval(this.#poll)
    clearTimeout(this.#soon)
    for (const live of this.#live.values()) live.close()
    this.#live.clear()
    this.#secrets.clear()
    this.#listeners.clear()
  }

  onChange(listener: AttemptManagerListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Committed when it returns; `advance` starts attempts later, so that the acknowledgement does not wait for them. */
  apply(set: AssignmentSet): void {
    const { settings } = this.#options
    const freeBytes = (): number => {
      const { bavail, bsize } = statfsSync(settings.stateDir)
      return bavail * bsize
    }
    const context = { ...this.#options, draining: this.#draining, freeBytes }
    const applied: Applied = applyAssignments(context, set)
    for (const { attemptId, secrets } of applied.secrets) {
      this.#secrets.set(attemptId, Buffer.from(toBinary(TaskSecretsSchema, secrets)))
    }
    for (const id of applied.forgotten) this.#forget(id)
  }

  /** Accepts and starts no new attempts; running ones continue. */
  drain(): void {
    this.#draining = true
  }

  holdsSecrets(attemptId: string): boolean {
    return this.#secrets.has(attemptId)
  }

  liveIds(): string[] {
    return [...this.#live.keys()]
  }

  /** A runner works in this environment. */
  isBusy(environmentId: number): boolean {
    const rows = this.#options.journal.attempts.list()
    return rows.some((row) => row.environmentId === environmentId && isLive(row))
  }

  /**
   * For work on an environment outside of attempts: false while an attempt is live there. No attempt starts until every
   * caller that occupies it has called `vacate`.
   */
  occupy(environmentId: number): boolean {
    if (this.isBusy(environmentId)) return false
    this.#occupied.set(environmentId, (this.#occupied.get(environmentId) ?? 0) + 1)
    return true
  }

  vacate(environmentId: number): void {
    const others = (this.#occupied.get(environmentId) ?? 1) - 1
    if (others > 0) this.#occupied.set(environmentId, others)
    else this.#occupied.delete(environmentId)
    if (this.#waiting) this.#guard('', () => this.advance())
  }

  /** Starts, stops and expires what is due. */
  advance(): void {
    const { journal, clock, bootId, taskSlots } = this.#options
    const rows = new Map(journal.attempts.list().map((row) => [row.id, row]))
    const building = this.#listBuilding([...rows.values()])
    const isCrowded = building.size >= this.#builders
    const candidates = [...rows.values()].map((row) => ({
      ...row,
      isBuilding: building.has(row.id),
      mayBuild: isCrowded && isDeployment(row),
      secretsHeld: this.#secrets.has(row.id),
      waitedMs: row.receivedBootId === bootId ? clock.mono() - row.receivedMonoMs : clock.mono(),
    }))
    const builders = this.#builders
    const limits = {
      taskSlots: taskSlots(),
      builders,
      draining: this.#draining,
      occupied: this.#occupied,
    }
    const starts = decideStarts(candidates, limits)
    let isDone = true
    const each = <T>(
      list: T[],
      idOf: (item: T) => string,
      act: (row: AttemptRow, item: T) => void,
    ) => {
      for (const item of list) {
        const row = rows.get(idOf(item))
        if (row && !this.#guard(row.id, () => act(row, item))) isDone = false
      }
    }
    each(
      starts.cancel,
      (c) => c.id,
      (row, { why }) => this.#cancel(row, why),
    )
    each(
      starts.expire,
      (id) => id,
      (row) => this.#expire(row),
    )
    each(
      starts.stop,
      (s) => s.id,
      (row, { why }) => this.#stop(row, why),
    )
    each(
      starts.waiting,
      (w) => w.id,
      (row, { waitingFor }) => {
        if (row.waitingFor === waitingFor) return
        changeAttempt(
          this.#options,
          row,
          { state: AttemptState.ACCEPTED, waitingFor },
          { waitingFor },
        )
        this.#report(row.id)
      },
    )
    each(
      starts.start,
      (id) => id,
      (row) => this.#start(row),
    )
    this.#waiting = starts.waiting.length > 0 || !isDone
    this.#advancedAt = clock.mono()
  }

  /** Live attempts that build or wait for a build slot. The files of their processes say it, also after a restart. */
  #listBuilding(rows: readonly AttemptRow[]): Set<string> {
    if (!rows.some(({ state }) => state === AttemptState.ACCEPTED)) return new Set() // nothing waits for a slot
    const processes = listSlotProcesses(this.#options.settings, 'build')
    const isBuilding = ({ pid, startTicks }: AttemptRow) => processes.has(`${pid}:${startTicks}`)
    return new Set(rows.filter((row) => isLive(row) && isBuilding(row)).map(({ id }) => id))
  }

  #start(row: AttemptRow): void {
    const { executor, settings, clock, log, journal } = this.#options
    const bytes = this.#secrets.get(row.id)
    if (!bytes) return
    const secrets = fromBinary(TaskSecretsSchema, bytes)
    const started = changeAttempt(
      this.#options,
      row,
      { state: AttemptState.STARTING },
      { waitingFor: '' },
    )
    this.#secrets.delete(row.id)
    const dir = attemptDir(settings, row.id)
    const live = this.#watch(row.id)
    live.secrets = secrets
    try {
      mkdirSync(dir, { recursive: true, mode: 0o700 })
      replaceFile(attemptPaths(dir).spec, row.assignment)
      syncFolder(join(settings.stateDir, 'attempts'))
      const onExit = (): void => {
        live.isEnded = true
        this.#hint(row.id)
      }
      const onTrouble = (reason: string): void => {
        live.trouble = reason
      }
      live.spawned = executor.spawnRunner({ dir, attemptId: row.id, secrets, onExit, onTrouble })
      live.spawnedAt = clock.mono()
      log.info({ attemptId: row.id, pid: live.spawned.pid }, 'runner spawned')
      const { pid, startTicks } = live.spawned
      journal.transact(() => journal.attempts.update({ ...started, pid, startTicks }))
    } catch (error) {
      // without a claim, the next check proves that nothing happened
      live.trouble ??= (error as Error).message
      log.error({ attemptId: row.id, ...describeError(error) }, 'the runner could not be spawned')
    }
    this.#hint(row.id)
    this.#report(row.id)
  }

  #stop(row: AttemptRow, why: 'asked' | 'superseded'): void {
    const live = this.#live.get(row.id)
    if (!live || live.stopAsked) return
    const { executor, settings, log } = this.#options
    replaceFile(attemptPaths(attemptDir(settings, row.id)).stop, `${STOP_WORDS[why]}\n`)
    live.stopAsked = true
    // before its first step a runner may not handle signals yet; it polls the file itself
    const runner = row.state >= AttemptState.RUNNING ? live.process() : undefined
    if (runner) executor.poke(runner)
    log.info({ attemptId: row.id, why }, 'the runner was asked to stop')
  }

  #cancel(row: AttemptRow, why: 'asked' | 'superseded'): void {
    this.#finish(row, { state: AttemptState.CANCELED, message: STOP_WORDS[why] })
  }

  #expire(row: AttemptRow): void {
    const minutes = Math.round(row.startWithinMs / 60_000)
    this.#finish(row, {
      state: AttemptState.REFUSED,
      code: FailureCode.START_EXPIRED,
      message: `It waited ${minutes} min on the server and was not started. Deploy again.`,
      platformCheck: true,
    })
  }

  #finish(row: AttemptRow, change: Parameters<typeof changeAttempt>[2]): void {
    changeAttempt(this.#options, row, change)
    this.#ended(row.id)
  }

  #ended(id: string): void {
    this.#secrets.delete(id)
    this.#live.get(id)?.close()
    this.#live.delete(id)
    this.#report(id)
  }

  #watch(id: string): LiveAttempt {
    const dir = attemptDir(this.#options.settings, id)
    const live = new LiveAttempt(this.#options, id, dir, () => this.#hint(id))
    this.#live.set(id, live)
    return live
  }

  #look(id: string): void {
    const live = this.#live.get(id)
    const before = live && this.#options.journal.attempts.find(id)
    if (!live || !before) return
    const { row, verdict } = live.look(before)
    switch (verdict) {
      case 'adopt':
      case 'wait':
        if (row.state !== before.state) this.#report(id)
        return
      case 'finished':
        this.#options.log.info({ attemptId: id, state: row.state }, 'attempt ended')
        this.#ended(id)
        break
      case 'abandon':
        mkdirSync(live.dir, { recursive: true, mode: 0o700 })
        // another process was faster; the next check finds its claim
        if (!takeClaim(live.dir, 'daemon', this.#options.bootId)) {
          this.#hint(id)
          return
        }
        if (live.spawned && this.#options.executor.isAlive(live.spawned)) live.trouble = TOO_SLOW
        this.#options.executor.killRest(id, live.spawned)
        this.#finish(row, endNotStarted(live.dir, this.#options.clock.now(), live))
        break
      case 'not_started':
        this.#finish(row, endNotStarted(live.dir, this.#options.clock.now(), live))
        break
      case 'runner_died':
      case 'host_rebooted':
        this.#fail(live, row, verdict)
        break
    }
    this.advance()
  }

  #fail(live: LiveAttempt, row: AttemptRow, verdict: 'runner_died' | 'host_rebooted'): void {
    const { executor, log, bootId } = this.#options
    const runner = row.receivedBootId === bootId ? row : undefined // a pid of another boot means nothing
    executor.killRest(row.id, runner)
    const { log: folder } = attemptPaths(live.dir)
    const tail = existsSync(folder) ? appendTailAfterDeath(folder) : NO_LOG
    log.warn({ attemptId: row.id, verdict }, 'attempt ended without a result')
    this.#finish(row, {
      ...DEATHS[verdict],
      state: AttemptState.FAILED,
      finalLogSeq: BigInt(tail.finalSeq),
      logBytesTotal: BigInt(tail.bytesTotal),
      logBytesDropped: BigInt(tail.bytesDropped),
    })
  }

  #forget(id: string): void {
    this.#ended(id)
    this.#options.spools.forget(id)
    rmSync(attemptDir(this.#options.settings, id), { recursive: true, force: true })
  }

  /** Folders of attempts that are missing from the journal because they were forgotten just before a crash. */
  #removeOrphans(): void {
    const { settings, journal, executor } = this.#options
    for (const id of readdirSync(join(settings.stateDir, 'attempts'))) {
      if (journal.attempts.find(id)) continue
      const runner = new LiveAttempt(
        this.#options,
        id,
        attemptDir(settings, id),
        () => {},
      ).process()
      if (runner && executor.isAlive(runner)) continue
      rmSync(attemptDir(settings, id), { recursive: true, force: true })
    }
  }

  #hint(id: string): void {
    this.#hinted.add(id)
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined
      const ids = [...this.#hinted]
      this.#hinted.clear()
      for (const hinted of ids) {
        this.#guard(hinted, () => this.#look(hinted))
      }
    }, DAEMON.hintMs)
  }

  #tick(): void {
    for (const id of this.liveIds()) this.#guard(id, () => this.#look(id))
    const due = this.#options.clock.mono() - this.#advancedAt >= DAEMON.sweepMs
    if (this.#waiting && due) this.#guard('', () => this.advance())
  }

  /** A problem of one attempt (a full disk, a broken folder) is logged and retried, and does not block the others. */
  #guard(attemptId: string, act: () => void): boolean {
    try {
      act()
      return true
    } catch (error) {
      this.#options.log.error(
        { attemptId, ...describeError(error) },
        'attempt could not be looked at',
      )
      return false
    }
  }

  #report(id: string): void {
    for (const listener of this.#listeners) listener(id)
  }
}

const STOP_WORDS = {
  asked: 'Canceled.',
  superseded: 'A newer deployment of this environment took its place.',
}
const NO_LOG = { finalSeq: 0, bytesTotal: 0, bytesDropped: 0 }
const TOO_SLOW = `its process did not begin within ${DAEMON.claimMs / 1_000} s`
const DEATHS = {
  runner_died: {
    code: FailureCode.RUNNER_DIED,
    message:
      'The process that ran this deployment died without a result (killed, or out of memory). How far it came is in the log; deploy again.',
  },
  host_rebooted: {
    code: FailureCode.HOST_REBOOTED,
    message:
      'The server was restarted while this ran. How far it came is in the log; deploy again.',
  },
}
