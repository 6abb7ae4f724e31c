// The SSH service of the daemon: accounts, files that sshd reads, sshd itself (ours or the server's), the session
// server, the host certificate. Slow work runs in sequence in the background; a problem is shown as a sentence beside
// the server's sshd and never ends the agent.
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { SSH_ACCOUNTS } from '@berth/shared'
import { formatPublicKey } from '@berth/shared/ssh'
import type { Clock } from '../clock.ts'
import type { Journal } from '../journal/journal.ts'
import { SSHD } from '../limits/ssh.ts'
import { readIdentity, readTrust, type Trust } from '../link/identity/identity.ts'
import { describeError, type Log } from '../log.ts'
import { locateProgram } from '../machine/process/programs.ts'
import { isRoot } from '../machine/users/users.ts'
import type { AgentSettings } from '../settings.ts'
import { relayAccount, sshPaths } from './paths.ts'
import { SshSessionServer } from './sessions/session-server.ts'
import { ensureRelayAccounts, removeRelayAccounts } from './sshd/accounts.ts'
import { expectedEffect, renderDropIn, renderHostDropIn } from './sshd/config.ts'
import { readEffect, readHostKeyFile, readListener, reload, type Sshd } from './sshd/control.ts'
import {
  type HostKeyFacts,
  isCurrent,
  readHostKey,
  renewHostCertificate,
} from './sshd/host-certificate.ts'
import { installDropIn, listOthers, removeDropIns } from './sshd/install.ts'
import { writeLauncher } from './sshd/launcher.ts'
import { keepOwnSshd, ownSshd, requireSshd, stopOwnSshd } from './sshd/own-daemon.ts'
import { logIn } from './sshd/own-login.ts'
import { readAuthorities, writeTrustFiles } from './sshd/trust-files.ts'

export const DROP_IN = '60-berth.conf'
export const HOST_DROP_IN = '61-berth-host.conf'

/** Shown on the server's page. */
export interface SshState {
  mode: 'drop-in' | 'dedicated' | 'off'
  /** Why it does not work, or why it uses the fallback. */
  reason: string
  port: number
  /** Unix names of the two roles. */
  accounts: string[]
}

/** Reported too, so that people do not search for a port where nothing listens. */
export const SSH_SWITCHED_OFF: SshState = {
  mode: 'off',
  reason:
    'SSH is switched off on this server (BERTH_SSH=off): berth logs, berth ssh and berth artifacts cannot connect to it.',
  port: 0,
  accounts: [],
}

interface SideOptions {
  settings: AgentSettings
  program: readonly string[]
  journal: Journal
  clock: Clock
  log: Log
  bootId: string
  onState: (state: SshState) => void
}

export class SshSide {
  readonly #o: SideOptions
  readonly #serverId: number
  readonly #sessionServer: SshSessionServer
  #queue: Promise<void> = Promise.resolve()
  #state: SshState
  #sign: ((publicKey: string) => Promise<string>) | undefined
  #retryAt = 0
  #timers: NodeJS.Timeout[] = []
  #isClosed = false

  constructor(options: SideOptions) {
    this.#o = options
    const { settings } = options
    this.#serverId = readIdentity(settings).serverId
    this.#sessionServer = new SshSessionServer({ ...options, serverId: this.#serverId })
    const accounts = SSH_ACCOUNTS.map((role) => relayAccount(settings, role))
    this.#state = { mode: 'off', reason: '', port: 0, accounts }
  }

  open(): void {
    void this.#enqueue(() => this.#setUp())
    const every = (ms: number, work: () => Promise<void>): void => {
      const timer = setInterval(() => void this.#enqueue(work), ms)
      timer.unref()
      this.#timers.push(timer)
    }
    every(SSHD.checkMs, () => this.#setUpSshd())
    every(SSHD.retryMs, async () => {
      if (this.#state.mode === 'off') await this.#setUp()
    })
    every(SSHD.supervisionMs, () => this.#care())
    every(SSHD.renewCheckMs, () => this.#renew())
  }

  close(): void {
    this.#isClosed = true
    for (const timer of this.#timers) clearInterval(timer)
    this.#sessionServer.close()
  }

  /** Called when there is a session with the control plane, which signs host keys. */
  connected(sign: (publicKey: string) => Promise<string>): void {
    this.#sign = sign
    this.#retryAt = 0
    void this.#enqueue(() => this.#renew())
  }

  /** Throws the sentence that the control plane shows. Revoked sessions have ended when it resolves. */
  async trust(): Promise<void> {
    await this.#enqueue(() => this.#applyTrust(), true)
    void this.#enqueue(() => this.#renew())
  }

  /** Resolves when all work queued so far is done. */
  settled(): Promise<void> {
    return this.#queue
  }

  /** Called when the server is removed from Berth: removes everything of ours from its sshd. */
  async remove(): Promise<void> {
    await this.#enqueue(async () => {
      await this.#sessionServer.endAll('server_removed')
      await removeFromServer(this.#o.settings)
    })
    this.close()
  }

  /** Runs work in sequence; a failure is shown and does not stop later work. */
  #enqueue(work: () => Promise<void>, throws = false): Promise<void> {
    const done = this.#queue.then(() => (this.#isClosed ? undefined : work()))
    this.#queue = done.catch((error: unknown) => {
      if (!throws) this.#o.log.warn(describeError(error), 'SSH')
    })
    return throws ? done : this.#queue
  }

  #show(state: Partial<SshState>): void {
    this.#state = { ...this.#state, ...state }
    this.#o.onState(this.#state)
  }

  async #setUp(): Promise<void> {
    const { settings, program } = this.#o
    try {
      if (!isRoot())
        throw new Error('The agent does not run as root, so SSH connections are not possible.')
      requireSshd()
      const gid = await ensureRelayAccounts(settings)
      await this.#applyTrust()
      await this.#sessionServer.open(gid)
      await writeLauncher(settings, program)
      await this.#setUpSshd()
    } catch (error) {
      this.#show({ mode: 'off', reason: (error as Error).message })
      throw error
    }
  }

  async #applyTrust(): Promise<void> {
    const { settings } = this.#o
    const trust = currentTrust(settings)
    if (isRoot()) {
      await writeTrustFiles(settings, this.#serverId, {
        generation: trust.generation,
        authorities: trust.sshUserCaKeys,
        revoked: trust.revokedSshSerials,
      })
    }
    await this.#sessionServer.trust({
      authorities: readAuthorities(trust.sshUserCaKeys),
      revoked: new Set(trust.revokedSshSerials),
    })
  }

  async #setUpSshd(): Promise<void> {
    const { settings } = this.#o
    const reason = settings.ssh.mode === 'auto' ? await this.#useServers() : ''
    if (reason === undefined) return
    await this.#useOwn(reason)
  }

  /** Undefined when it works. */
  async #useServers(): Promise<string | undefined> {
    const { settings, log } = this.#o
    const sshd: Sshd = { argv: [requireSshd()], ...settings.ssh }
    const { dropIns } = sshPaths(settings)
    if (!existsSync(sshd.config)) return `${sshd.config} does not exist.`
    const effect = await readEffect(sshd, 'root').catch(() => '')
    const listener = readListener(effect)
    const keyFile = readHostKeyFile(effect)
    if (effect !== '' && !(keyFile && existsSync(`${keyFile}.pub`)))
      return 'The server’s sshd has no Ed25519 host key.'
    const target = {
      sshd,
      dropIns,
      listener,
      expected: new Map(
        SSH_ACCOUNTS.map((role) => [relayAccount(settings, role), expectedEffect(settings, role)]),
      ),
      login: () => this.#logIn({ ...listener, keyFile: `${keyFile}.pub` }),
    }
    const others = await listOthers(this.#state.accounts)
    const outcome = await installDropIn(target, DROP_IN, renderDropIn(settings), others)
    if (outcome.kind === 'fallback') {
      await removeDropIns(sshd, dropIns, [DROP_IN, HOST_DROP_IN])
      return outcome.reason
    }
    if (existsSync(sshPaths(settings).hostCertificate)) {
      const text = renderHostDropIn(settings)
      const shown = await installDropIn(target, HOST_DROP_IN, text, [])
      if (shown.kind === 'fallback')
        log.warn({ reason: shown.reason }, 'no host certificate is shown')
    }
    await stopOwnSshd(settings)
    this.#show({ mode: 'drop-in', reason: '', port: listener.port })
    return undefined
  }

  async #useOwn(why: string): Promise<void> {
    const { settings } = this.#o
    const { ownHostKey } = sshPaths(settings)
    await keepOwnSshd(settings)
    const { address, port } = settings.ssh.own
    const at = { address: address === '0.0.0.0' ? '127.0.0.1' : address, port }
    const refused = await this.#logIn({ ...at, keyFile: `${ownHostKey}.pub` })
    if (refused) throw new Error(`ssh_unusable: a login with a certificate failed: ${refused}`)
    const reason = why && `Berth runs an sshd of its own on port ${port}: ${why} Open that port.`
    this.#show({ mode: 'dedicated', reason, port })
  }

  #logIn(at: { address: string; port: number; keyFile: string }): Promise<string | undefined> {
    const hostKey = formatPublicKey(readHostKey(at.keyFile))
    return logIn(this.#o.settings, this.#sessionServer, this.#serverId, { ...at, hostKey })
  }

  async #care(): Promise<void> {
    if (this.#state.mode === 'dedicated') await keepOwnSshd(this.#o.settings)
  }

  async #hostKeyFacts(): Promise<HostKeyFacts | undefined> {
    const { settings } = this.#o
    const { hostCertificate: certificateFile, ownHostKey } = sshPaths(settings)
    const authority = currentTrust(settings).sshHostCaKey
    const facts = { certificateFile, serverId: this.#serverId, authority: authority || undefined }
    if (this.#state.mode === 'dedicated') return { ...facts, keyFile: `${ownHostKey}.pub` }
    if (this.#state.mode === 'off') return undefined
    const sshd: Sshd = { argv: [requireSshd()], ...settings.ssh }
    const keyFile = readHostKeyFile(await readEffect(sshd, 'root'))
    return keyFile ? { ...facts, keyFile: `${keyFile}.pub` } : undefined
  }

  async #renew(): Promise<void> {
    const { clock, settings, log } = this.#o
    const facts = await this.#hostKeyFacts()
    if (!facts || !this.#sign || isCurrent(facts, clock.now())) return
    if (clock.mono() < this.#retryAt) return
    this.#retryAt = clock.mono() + SSHD.renewRetryMs
    await renewHostCertificate(facts, this.#sign)
    log.info({}, 'host certificate renewed')
    this.#retryAt = 0
    if (this.#state.mode === 'dedicated') {
      await keepOwnSshd(settings) // the configuration names it from now on
      await reload(ownSshd(settings))
    } else {
      await this.#setUpSshd()
      await reload({ pidFile: settings.ssh.pidFile })
    }
  }
}

/** What was trusted last, also before the first bundle arrived. */
function currentTrust(settings: AgentSettings): Trust {
  const { sshUserCaKeys } = readIdentity(settings)
  const none = { generation: 0, tlsCaPem: [], revokedSshSerials: [], sshHostCaKey: '' }
  return { ...none, ...readTrust(settings), sshUserCaKeys }
}

/** Restores files, daemon and accounts to the state before Berth. */
export async function removeFromServer(settings: AgentSettings): Promise<void> {
  const { dropIns } = sshPaths(settings)
  await stopOwnSshd(settings)
  const names = [DROP_IN, HOST_DROP_IN]
  const program = locateProgram('sshd')
  if (settings.ssh.mode === 'auto' && program) {
    await removeDropIns({ argv: [program], ...settings.ssh }, dropIns, names)
  } else if (settings.ssh.mode === 'auto') {
    for (const name of names) rmSync(join(dropIns, name), { force: true }) // sshd was uninstalled
  }
  await removeRelayAccounts(settings)
}
