// Gives the control plane access to repositories and forges: one guard, one git, and clients built from a project's own
// address. Closing it ends what is running.
import type { Sensitive } from '@berth/shared'
import type { Config } from '../config.ts'
import { createGuard, type Resolve } from './addresses.ts'
import type { ForgeClient, ForgeProvider } from './clients/forge.ts'
import { candidateProviders, forgeAddress, openForge } from './clients/open.ts'
import { Git } from './git.ts'
import { type OutgoingRequest, type Received, sendRequest } from './requests.ts'

export class Outbound {
  readonly git: Git
  readonly #guard
  readonly #stop = new AbortController()

  constructor(config: Config, resolve?: Resolve) {
    const allowLocal = config.allowLocalRepositories
    this.#guard = createGuard({
      privateHosts: config.privateGitHosts,
      allowLoopback: allowLocal,
      ...(resolve ? { resolve } : {}),
    })
    const rules = { allowFile: allowLocal, allowLoopbackHttp: allowLocal }
    this.git = new Git({ dataDir: config.dataDir, guard: this.#guard, rules })
  }

  /** Returns the clients that may fit: a single one if the kind of forge is known. */
  openHosts(repoUrl: string, learned: string | null, token: Sensitive<string>): ForgeClient[] {
    return candidateProviders(repoUrl, learned).flatMap((provider) => {
      const client = this.#openForge(repoUrl, provider, token)
      return client ? [client] : []
    })
  }

  #openForge(
    repoUrl: string,
    provider: ForgeProvider,
    token: Sensitive<string>,
  ): ForgeClient | undefined {
    const address = forgeAddress(repoUrl, provider)
    if (!address) return undefined
    const access = { ...address, guard: this.#guard, token, signal: this.#stop.signal }
    return openForge(provider, access)
  }

  /** Sends one request to the receiver of a notification, under the same rules as to a forge. */
  request(asked: Omit<OutgoingRequest, 'signal'>): Promise<Received> {
    return sendRequest(this.#guard, { ...asked, signal: this.#stop.signal })
  }

  /** Throws OutboundRefusal if a request to this host would not be sent. */
  async check(host: string): Promise<void> {
    await this.#guard.check(host)
  }

  close(): void {
    this.#stop.abort()
    this.git.close()
  }
}
