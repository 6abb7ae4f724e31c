// Tracks what one session's server was asked to trust and refuse: everything at the start, and again when it changes.
// The answer is matched by its generation; an outdated one is ignored.
import { type TrustApplied, type TrustBundle, TrustBundleSchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { confirmServerTrust, readServerTrust, type ServerTrust } from '../../app/ssh/trust.ts'
import type { Context } from '../../context.ts'

export class TrustState {
  readonly #ctx: Context
  readonly #agentId: string
  readonly #send: (bundle: TrustBundle) => void
  #reported: ServerTrust | undefined

  constructor(ctx: Context, agentId: string, send: (bundle: TrustBundle) => void) {
    this.#ctx = ctx
    this.#agentId = agentId
    this.#send = send
  }

  /** A server ignores generations below the highest it has seen, so ours is raised above it. */
  async sendFirst(seenGeneration: number): Promise<void> {
    await this.#sendAfter(seenGeneration)
  }

  async sendChanges(): Promise<void> {
    await this.#sendAfter(0)
  }

  async #sendAfter(seenGeneration: number): Promise<void> {
    const trust = await readServerTrust(this.#ctx, this.#agentId, seenGeneration)
    if (!trust || trust.generation === this.#reported?.generation) return
    this.#reported = trust
    this.#send(
      create(TrustBundleSchema, {
        generation: BigInt(trust.generation),
        tlsCaPem: [Buffer.from(trust.tlsCaPem)],
        sshUserCaKeys: trust.authorities.map(({ publicKey }) => publicKey),
        revokedSshSerials: trust.revoked,
        sshHostCaKey: trust.hostCaKey,
      }),
    )
  }

  async confirm({ generation, error }: TrustApplied): Promise<void> {
    const reported = this.#reported
    if (reported && BigInt(reported.generation) === generation) {
      await confirmServerTrust(this.#ctx, this.#agentId, reported, error)
    }
  }
}
