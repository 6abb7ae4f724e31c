// Caddy's side of the edge: whether it is there, which configuration it has, and the only `POST /load` there is. A new
// Caddy process gets the present configuration by itself. Invariant: what is on disk for Caddy's next start is the last
// configuration that a Caddy accepted.
import { chownSync, existsSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { PROXY } from '@berth/shared'
import { replaceFile } from '../../machine/atomic-files.ts'
import { EdgeError } from '../protocol.ts'
import { type CaddyAdmin, CaddyRefused } from './admin.ts'

export interface PushOptions {
  admin: CaddyAdmin
  /** Where the accepted configuration is kept. */
  file: string
  /** Group of Caddy's account, which reads that file and may be younger than this process; undefined: no account. */
  group: () => Promise<number | undefined>
  /** The configuration that should hold now. */
  wanted: () => string
  /** Why Caddy is not there, in the words of who starts it. */
  explain: () => string
  log: (message: string) => void
}

export class Pushes {
  readonly #o: PushOptions
  #accepted = ''
  /** The process that has it. */
  #instance = ''
  #lastPush = Number.NEGATIVE_INFINITY
  #refusal = ''
  #complaint = ''
  #isBusy = false
  #timer: NodeJS.Timeout | undefined

  constructor(options: PushOptions) {
    this.#o = options
  }

  async open(): Promise<void> {
    await this.#prepare()
    this.#timer = setInterval(() => void this.reconcile(), PROXY.supervisionMs)
    void this.reconcile()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  /** Caddy's first start needs something to start with. */
  async #prepare(): Promise<void> {
    if (!existsSync(this.#o.file)) await this.#keep(this.#o.wanted())
  }

  async #keep(configuration: string): Promise<void> {
    const group = await this.#o.group()
    replaceFile(this.#o.file, configuration, 0o640)
    if (group !== undefined) chownSync(this.#o.file, 0, group)
  }

  /** The present Caddy has exactly this. */
  has(configuration: string): boolean {
    return configuration === this.#accepted && this.#instance === this.#o.admin.instance()
  }

  /** Undefined: up, with the present configuration. */
  async findTrouble(): Promise<string | undefined> {
    const silence = await this.#o.admin.ping()
    if (silence !== undefined) return this.#o.explain() || `Caddy does not answer: ${silence}.`
    await this.reconcile()
    if (this.has(this.#o.wanted())) return undefined
    return this.#refusal || 'Caddy has not taken over the present configuration yet.'
  }

  /** Waits for a Caddy that is being restarted. */
  async ready(): Promise<void> {
    const end = performance.now() + PROXY.waitForCaddyMs
    for (;;) {
      const trouble = await this.findTrouble()
      if (trouble === undefined) return
      if (performance.now() >= end) throw new EdgeError('unavailable', trouble)
      await delay(PROXY.probePollMs)
    }
  }

  /** Waits until the next push is allowed. */
  async turn(): Promise<void> {
    const wait = this.#lastPush + PROXY.pushEveryMs - performance.now()
    if (wait > 0) await delay(wait)
  }

  /** Only one at a time: callers queue. Refused: EdgeError, and the old configuration goes on. */
  async push(configuration: string): Promise<void> {
    while (this.#isBusy) await delay(PROXY.probePollMs)
    this.#isBusy = true
    try {
      await this.#o.admin.load(configuration)
      this.#instance = this.#o.admin.instance()
      this.#accepted = configuration
      this.#refusal = ''
      await this.#keep(configuration)
    } catch (error) {
      if (!(error instanceof CaddyRefused)) {
        const why = this.#o.explain() || (error as Error).message
        throw new EdgeError('unavailable', why)
      }
      const why = `Caddy refused the configuration: ${error.message}`
      this.#refusal = why
      throw new EdgeError('refused', why)
    } finally {
      this.#lastPush = performance.now()
      this.#isBusy = false
    }
  }

  /** Once a reason: this is tried again and again. */
  #complain(reason: string): void {
    if (reason !== '' && reason !== this.#complaint) this.#o.log(reason)
    this.#complaint = reason
  }

  /** After a start of Caddy or of the edge, and for what could not be pushed when it was asked for. */
  async reconcile(): Promise<void> {
    const wanted = this.#o.wanted()
    if (this.#isBusy || this.has(wanted) || this.#o.admin.instance() === '') return
    if (performance.now() - this.#lastPush < PROXY.supervisionMs) return
    await this.push(wanted).then(
      () => this.#complain(''),
      (error: Error) => this.#complain(error.message),
    )
  }
}
