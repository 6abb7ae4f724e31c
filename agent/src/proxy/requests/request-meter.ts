// Turns the proxy's access log into counts for the control plane. Position and counts are saved together once a minute, so
// after a crash the same lines give the same counts; a minute leaves only when it is whole, and stays until the control
// plane has stored it.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { REQUEST_LOG } from '../../limits/proxy.ts'
import { describeError, type Log } from '../../log.ts'
import { replaceUnsynced } from '../../machine/atomic-files.ts'
import type { AgentSettings } from '../../settings.ts'
import { edgePaths } from '../paths.ts'
import { listRoutes, readTable } from '../table.ts'
import { type LogPosition, LogTail } from './log-tail.ts'
import { type Minutes, ownersOf, Tally } from './tally.ts'

interface Saved {
  format: 1
  position?: LogPosition | undefined
  minutes: Minutes
  wholeUntil: number
}

export class RequestMeter {
  readonly #settings: AgentSettings
  readonly #log: Log
  readonly #now: () => number
  readonly #file: string
  readonly #tail: LogTail
  readonly #tally: Tally
  #savedUntil: number
  #timer: NodeJS.Timeout | undefined
  #round: Promise<void> | undefined

  constructor(settings: AgentSettings, log: Log, now: () => number = Date.now) {
    this.#settings = settings
    this.#log = log
    this.#now = now
    this.#file = join(settings.stateDir, 'requests.json')
    const saved = readSaved(this.#file)
    this.#tail = new LogTail(join(edgePaths(settings).caddy, 'access.log'), saved?.position)
    this.#tally = new Tally(saved?.minutes, saved?.wholeUntil)
    this.#savedUntil = this.#tally.wholeUntil
  }

  open(): void {
    if (!this.#settings.proxy.accessLog) return
    void this.look()
    this.#timer = setInterval(() => void this.look(), REQUEST_LOG.everyMs)
    this.#timer.unref()
  }

  close(): void {
    clearInterval(this.#timer)
    void (this.#round ?? Promise.resolve()).then(() => this.#tail.close())
  }

  /** One round at a time; a failure is logged and tried again with the next round. */
  look(): Promise<void> {
    this.#round ??= this.#count()
      .catch((error: unknown) =>
        this.#log.warn(describeError(error), 'the access log could not be counted'),
      )
      .finally(() => {
        this.#round = undefined
      })
    return this.#round
  }

  /** Undefined: no request was ever logged here. */
  whole(): ReturnType<Tally['whole']> | undefined {
    return this.#tail.position && this.#tally.wholeUntil > 0 ? this.#tally.whole() : undefined
  }

  /** The control plane has stored everything before this time. */
  stored(until: number): void {
    this.#tally.forget(until)
  }

  async #count(): Promise<void> {
    // lines of before may be on their way into the file
    const started = this.#now() - REQUEST_LOG.settleMs
    const owners = ownersOf(listRoutes(readTable(this.#settings)))
    const isAtEnd = await this.#tail.read((line) =>
      this.#tally.add(line.toString('latin1'), owners, this.#now()),
    )
    if (isAtEnd && this.#tail.position) this.#tally.readUntil(started)
    if (this.#tally.wholeUntil > this.#savedUntil) this.#save()
  }

  #save(): void {
    const saved: Saved = { format: 1, position: this.#tail.position, ...this.#tally.toJson() }
    replaceUnsynced(this.#file, JSON.stringify(saved))
    this.#savedUntil = this.#tally.wholeUntil
  }
}

/** Undefined: none yet, or unreadable; counting then starts with the log as it is. */
function readSaved(file: string): Saved | undefined {
  try {
    const saved = JSON.parse(readFileSync(file, 'utf8')) as Saved
    return saved.format === 1 ? saved : undefined
  } catch {
    return undefined
  }
}
