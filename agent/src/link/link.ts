// The daemon's life on the network: session after session, with back-off between them. A certificate that expired while
// the server was off is renewed before dialing. Stops for good only on REVOKED or DUPLICATE_IDENTITY: then an operator
// has to act, and the service manager must not restart the daemon.
import { type ClaimHostsResponse, GoodbyeReason } from '@berth/shared/wire'
import { describeError } from '../log.ts'
import { decideNext, type SessionEnd, waitBeforeTry } from './backoff.ts'
import { newInstanceId } from './hello.ts'
import { isExpired, readIdentity } from './identity/identity.ts'
import { Session, type SessionOptions } from './session.ts'
import type { Phase } from './session-rules.ts'

export type LinkPhase = 'idle' | 'backoff' | Phase | 'stopped'

type LinkOptions = Omit<
  SessionOptions,
  'identity' | 'endpoint' | 'instanceId' | 'previousSessionId' | 'renewal' | 'onPhase'
> & {
  onPhase: (phase: LinkPhase, endpoint: string) => void
  /** The control plane locked this agent out. */
  onStopped: (exitCode: number, message: string, isRevoked: boolean) => void
}

export class Link {
  readonly #o: LinkOptions
  readonly #instanceId = newInstanceId()
  readonly #ending = new AbortController()
  readonly #renewal = { notBefore: 0 }
  #session: Session | undefined
  #previousSessionId = ''
  #phase: LinkPhase = 'idle'
  #endpoint = ''
  #tries = 0
  #spreadMs = 0

  constructor(options: LinkOptions) {
    this.#o = options
  }

  get phase(): LinkPhase {
    return this.#phase
  }

  get sessionId(): string {
    return this.#session?.sessionId ?? ''
  }

  /** Runs until `close` or `kill`, or until the control plane stops it for good. */
  async run(): Promise<void> {
    let n = 0
    let dial: 'at_once' | 'in_window' = 'at_once' // nothing has failed yet
    while (!this.#ending.signal.aborted) {
      const windowFrom = this.#o.clock.mono()
      if (dial === 'in_window') {
        await this.#sleep(waitBeforeTry(n, this.#o.clock.random(), this.#spreadMs))
      }
      if (this.#ending.signal.aborted) return
      const end = await this.#tryOnce()
      if (this.#ending.signal.aborted) return
      const since = this.#o.clock.mono() - windowFrom
      this.#spreadMs = end.spreadMs ?? this.#spreadMs
      const next = decideNext(end, n, since, this.#o.clock.random(), this.#spreadMs)
      if (next.do === 'stop') {
        this.#setPhase('stopped')
        const isRevoked = end.goodbye?.reason === GoodbyeReason.REVOKED
        this.#o.onStopped(next.exitCode, end.message, isRevoked)
        return
      }
      const waitMs = Math.round(next.waitMs)
      const isUnknown = end.goodbye?.reason === GoodbyeReason.UNKNOWN_AGENT // an operator has to act
      const ended = { reason: end.message, waitMs, window: next.n }
      this.#o.log[isUnknown ? 'error' : 'info'](ended, 'session ended')
      this.#setPhase('backoff')
      await this.#sleep(next.waitMs)
      n = next.n
      dial = next.dial
    }
  }

  claimHosts(attemptId: string, fence: bigint, hosts: string[]): Promise<ClaimHostsResponse> {
    const asked = this.#session?.claimHosts(attemptId, fence, hosts)
    return asked ?? Promise.reject(new Error('there is no session'))
  }

  signSshHostKey(publicKey: string): Promise<string> {
    const asked = this.#session?.signSshHostKey(publicKey)
    return asked ?? Promise.reject(new Error('there is no session'))
  }

  /** Drains, flushes and says goodbye; runners continue. */
  async close(): Promise<void> {
    this.#ending.abort()
    await this.#session?.drain()
  }

  kill(): void {
    this.#ending.abort()
    this.#session?.kill()
  }

  async #tryOnce(): Promise<SessionEnd> {
    try {
      let identity = readIdentity(this.#o.settings)
      if (isExpired(identity, this.#o.clock.now())) {
        const { renewExpired } = await import('./identity/renewal.ts')
        await renewExpired(this.#o.settings, identity)
        identity = readIdentity(this.#o.settings)
        this.#o.log.info({ generation: identity.generation }, 'expired certificate renewed')
      }
      if (this.#ending.signal.aborted) return { message: 'stopped', activeMs: 0 }
      const { endpoints } = identity
      this.#endpoint = endpoints[this.#tries++ % endpoints.length] ?? ''
      this.#session = new Session({
        ...this.#o,
        identity,
        endpoint: this.#endpoint,
        instanceId: this.#instanceId,
        previousSessionId: this.#previousSessionId,
        renewal: this.#renewal,
        onPhase: (phase) => this.#setPhase(phase),
      })
      this.#setPhase('dialing')
      const end = await this.#session.run()
      this.#previousSessionId = this.#session.sessionId || this.#previousSessionId
      return end
    } catch (error) {
      this.#o.log.warn(describeError(error), 'no session could be started')
      return { message: (error as Error).message, activeMs: 0 }
    } finally {
      this.#session = undefined
    }
  }

  #setPhase(phase: LinkPhase): void {
    if (phase === this.#phase) return
    this.#phase = phase
    this.#o.onPhase(phase, this.#endpoint)
  }

  #sleep(ms: number): Promise<void> {
    const { signal } = this.#ending
    if (ms <= 0 || signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, Math.ceil(ms))
      signal.addEventListener('abort', done)
    })
  }
}
