// Caddy's state as the edge sees it: whether it is up and which configuration it has; makes the only `POST /load`. A
// new Caddy process gets the current configuration automatically. Invariant: the file for Caddy's next start holds the
// last configuration that a Caddy of the present version accepted.
import { chownSync, existsSync, readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { PROXY } from '../../limits/proxy.ts'
import { replaceFile } from '../../machine/atomic-files.ts'
import { EdgeError } from '../protocol.ts'
import { type CaddyAdmin, CaddyRefused } from './admin.ts'

interface PushOptions {
  admin: CaddyAdmin
  /** Where the accepted configuration is kept. */
  file: string
  /** Group of Caddy's account, which reads that file; may be made after this process. Undefined without an account. */
  group: () => Promise<number | undefined>
  /** The configuration that should be active now. */
  wanted: () => string
  /** Why Caddy is not up, as recorded by the process that starts it. */
  explain: () => string
  log: (message: string) => void
}

/** Names the version of Caddy (render.ts); undefined in a file of an earlier build. */
function readId(configuration: string): unknown {
  try {
    return (JSON.parse(configuration) as Record<string, unknown>)['@id']
  } catch {
    return undefined
  }
}

export class Pushes {
  readonly #o: PushOptions
  #accepted = ''
  /** The process that has the configuration. */
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

  /** Writes a configuration for the first start of a Caddy, or of another version, which may refuse the kept one. */
  async #prepare(): Promise<void> {
    const wanted = this.#o.wanted()
    const kept = existsSync(this.#o.file) ? readFileSync(this.#o.file, 'utf8') : ''
    if (readId(kept) !== readId(wanted)) await this.#keep(wanted)
  }

  async #keep(configuration: string): Promise<void> {
    const group = await this.#o.group()
    replaceFile(this.#o.file, configuration, 0o640)
    if (group !== undefined) chownSync(this.#o.file, 0, group)
  }

  /** Whether the running Caddy has exactly this configuration. */
  has(configuration: string): boolean {
    return configuration === this.#accepted && this.#instance === this.#o.admin.instance()
  }

  /** Undefined when Caddy is up with the current configuration. */
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

  /** Runs one push at a time; callers queue. If Caddy refuses, throws an EdgeError and keeps the old configuration. */
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

  /** Logs each reason once, because this is retried often. */
  #complain(reason: string): void {
    if (reason !== '' && reason !== this.#complaint) this.#o.log(reason)
    this.#complaint = reason
  }

  /** After a start of Caddy or of the edge, and for earlier pushes that failed. */
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
