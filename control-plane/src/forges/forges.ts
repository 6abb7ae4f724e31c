// Gives the control plane access to repositories and forges: one guard, one git, and clients built from a project's own
// address. Closing it ends what is running.
import type { Sensitive } from '@berth/shared'
import type { Config } from '../config.ts'
import { createGuard, type Resolve, resolveByHost } from './addresses.ts'
import type { ForgeAccount, ForgeClient, ForgeProvider } from './clients/forge.ts'
import {
  candidateProviders,
  forgeAddress,
  openAccount,
  openForge,
  repositoryPath,
} from './clients/open.ts'
import { lookAtTls, resolveName, type TlsLook } from './domain-look.ts'
import { Git } from './git.ts'
import { type OutgoingRequest, type Received, sendRequest } from './requests.ts'

/** The API of a forge, and the token for it. */
export interface ForgePlace {
  provider: ForgeProvider
  base: string
  token: Sensitive<string>
}

export class Outbound {
  readonly git: Git
  readonly #guard
  readonly #resolve: Resolve
  readonly #stop = new AbortController()

  constructor(config: Config, resolve?: Resolve) {
    const allowLocal = config.allowLocalRepositories
    this.#resolve = resolve ?? resolveByHost
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

  /** A client for a repository behind a connection, whose API address may have nothing in common with `repoUrl`. */
  openRepository(at: ForgePlace, repoUrl: string): ForgeClient | undefined {
    const path = repositoryPath(repoUrl, at.provider, at.base)
    return path === undefined ? undefined : this.openPath(at, path)
  }

  /** The same by the repository's path at the forge. */
  openPath({ provider, ...at }: ForgePlace, path: string): ForgeClient {
    return openForge(provider, { ...at, path, guard: this.#guard, signal: this.#stop.signal })
  }

  openAccount({ provider, ...at }: ForgePlace): ForgeAccount {
    return openAccount(provider, { ...at, guard: this.#guard, signal: this.#stop.signal })
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

  /** Every address of a name, for comparison only; empty if it has none. */
  resolve(host: string): Promise<string[]> {
    return resolveName(this.#resolve, host)
  }

  /** The certificate that answers at a name. */
  lookAtTls(host: string): Promise<TlsLook> {
    return lookAtTls(this.#guard, host, { signal: this.#stop.signal })
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
