// The certificate of this control plane for its peers. It is issued at the start, lives in memory only, and is replaced
// long before its end.
import type { Logger } from 'pino'
import { type Authority, issueReplicaCertificate, type KeyPair } from '../keys/authority.ts'
import { PEERS } from '../limits/peers.ts'

interface Parts {
  authority: Authority
  installationId: string
  replicaId: string
  log: Pick<Logger, 'error'>
}

export class OwnCertificate {
  readonly #parts: Parts
  readonly #listeners = new Set<() => void>()
  #current: KeyPair
  #timer: NodeJS.Timeout

  private constructor(parts: Parts, first: Issued) {
    this.#parts = parts
    this.#current = first
    this.#timer = this.#renewAt(first.renewAt)
  }

  static async issue(parts: Parts): Promise<OwnCertificate> {
    return new OwnCertificate(parts, await issue(parts))
  }

  get current(): KeyPair {
    return this.#current
  }

  get authorityPem(): string {
    return this.#parts.authority.certificatePem
  }

  get installationId(): string {
    return this.#parts.installationId
  }

  onRenewed(listener: () => void): void {
    this.#listeners.add(listener)
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#listeners.clear()
  }

  #renewAt(at: Date): NodeJS.Timeout {
    return setTimeout(() => void this.#renew(), at.getTime() - Date.now()).unref()
  }

  async #renew(): Promise<void> {
    try {
      const next = await issue(this.#parts)
      this.#current = next
      this.#timer = this.#renewAt(next.renewAt)
      for (const listener of this.#listeners) listener()
    } catch (error) {
      this.#parts.log.error({ err: error }, 'the certificate for other control planes stays old')
      this.#timer = this.#renewAt(new Date(Date.now() + PEERS.renewRetryMs))
    }
  }
}

type Issued = Awaited<ReturnType<typeof issueReplicaCertificate>>

/** By the machine's clock, because TLS judges by it. */
const issue = ({ authority, installationId, replicaId }: Parts): Promise<Issued> =>
  issueReplicaCertificate(authority, {
    installationId,
    replicaId,
    now: new Date(),
    lifeMs: PEERS.certificateMs,
  })
