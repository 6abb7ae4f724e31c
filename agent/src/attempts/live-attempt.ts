// One attempt between STARTING and its end, as the daemon sees it: its folder, its event file, its process. A check is
// cheap and idempotent; hints (inotify, the child's exit) only make the next check sooner. The process is judged before
// the file is read, so everything that a runner wrote before it died is seen.
import { existsSync, type FSWatcher, watch } from 'node:fs'
import { DAEMON } from '@berth/shared'
import { AttemptState, type TaskSecrets } from '@berth/shared/wire'
import { attemptPaths, readClaim } from '../journal/attempt-files.ts'
import type { AttemptRow } from '../journal/attempt-table.ts'
import { EventFileError, EventFileReader } from '../journal/event-file.ts'
import { describeError, type Log } from '../log.ts'
import { type Adoption, decideAdoption } from './adoption.ts'
import type { Executor, RunnerProcess } from './executor.ts'
import { importEvents, type Records } from './records.ts'

export interface LiveContext extends Records {
  executor: Executor
  bootId: string
  log: Log
}

export class LiveAttempt {
  readonly id: string
  readonly dir: string
  /** When this daemon spawned it; undefined for an adopted attempt. */
  spawnedAt: number | undefined
  spawned: RunnerProcess | undefined
  /** Its exit event has arrived, after the reason. The kernel knows of the exit earlier. */
  isEnded = false
  stopAsked = false
  /** Why it could not start, or how its process ended. */
  trouble: string | undefined
  /** Used to mask the output of its process until it took its claim. */
  secrets: TaskSecrets | undefined
  readonly #context: LiveContext
  readonly #hint: () => void
  #events: EventFileReader | undefined
  #isDamaged = false
  #watcher: FSWatcher | undefined

  constructor(context: LiveContext, id: string, dir: string, hint: () => void) {
    this.#context = context
    this.id = id
    this.dir = dir
    this.#hint = hint
  }

  /** Imports what the runner wrote into the journal and decides what became of the attempt. */
  look(row: AttemptRow): { row: AttemptRow; verdict: Adoption } {
    this.#watch()
    const { executor, bootId, clock } = this.#context
    const claim = readClaim(this.dir)
    const runner = claim?.by === 'runner' ? claim : undefined
    if (runner) this.secrets = undefined
    const alive = runner !== undefined && executor.isAlive(runner)
    const starting =
      this.spawned !== undefined &&
      this.spawnedAt !== undefined &&
      clock.mono() - this.spawnedAt < DAEMON.claimMs &&
      (!this.isEnded || executor.isAlive(this.spawned))
    const folderLost = row.pid > 0 && !existsSync(attemptPaths(this.dir).spec)
    const now = folderLost ? row : this.#import(row)
    const verdict = decideAdoption({
      terminal: now.state >= AttemptState.SUCCEEDED,
      claim: claim?.by ?? 'none',
      sameBoot: claim?.bootId === bootId,
      alive,
      starting,
      folderLost,
    })
    return { row: now, verdict }
  }

  /** The process that took the claim, or the one that this daemon spawned. */
  process(): RunnerProcess | undefined {
    const claim = readClaim(this.dir)
    return claim?.by === 'runner' ? claim : undefined
  }

  close(): void {
    this.secrets = undefined
    this.#watcher?.close()
    this.#watcher = undefined
    this.#events?.close()
    this.#events = undefined
  }

  #import(row: AttemptRow): AttemptRow {
    if (this.#isDamaged) return row
    this.#events ??= EventFileReader.open(attemptPaths(this.dir).events, row.importedOrdinal)
    let current = row
    try {
      for (;;) {
        const events = this.#events.read()
        if (events.length === 0) return current
        current = importEvents(this.#context, this.id, events)
      }
    } catch (error) {
      if (!(error instanceof EventFileError)) throw error
      // the missing event cannot be known, so without a provable end the attempt ends as failed
      this.#isDamaged = true
      this.#context.log.error({ attemptId: this.id, ...describeError(error) }, 'event file')
      return current
    }
  }

  #watch(): void {
    if (this.#watcher) return
    try {
      const watcher = watch(this.dir, { persistent: false }, this.#hint)
      watcher.on('error', () => watcher.close())
      this.#watcher = watcher
    } catch {
      // no folder yet, or no inotify watch available: polling finds everything, only later
    }
  }
}
