// Derives and applies the packet rules: before a service with a port or a container starts, when an environment is
// removed, at the start of the daemon and once a minute (an administrator may have flushed the firewall). Invariant:
// facts are read under a lock, so the kernel never gets rules from an older state than the last one applied.
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { Ledger, ledgerFile } from '../journal/ledger.ts'
import { inTurn } from '../journal/turn.ts'
import { FIREWALL } from '../limits/machine.ts'
import { describeError, type Log } from '../log.ts'
import { findEngineGroup } from '../machine/docker/engine-group.ts'
import {
  applyRules,
  type FirewallState,
  forgetState,
  noteForce,
  noteProblem,
  readFirewallState,
  removeRules,
} from '../machine/firewall/apply.ts'
import type { FirewallFacts } from '../machine/firewall/rules.ts'
import { findAccount, isRoot, listEnvironmentAccounts } from '../machine/users/users.ts'
import { caddyAccount } from '../proxy/caddy/account.ts'
import { readTable } from '../proxy/table.ts'
import { type AgentSettings, environmentDir } from '../settings.ts'

type Facts = FirewallFacts & { enginePid: number | undefined }

async function readFacts(settings: AgentSettings, ledger: Ledger | undefined): Promise<Facts> {
  const accounts = listEnvironmentAccounts(settings.accountPrefix, (id) =>
    environmentDir(settings, id),
  )
  const engine = findEngineGroup(settings)
  const held = ledger?.listHeldPorts() ?? []
  return {
    stateDir: settings.stateDir,
    ports: held.flatMap(({ port, environmentId }) => {
      const uid = accounts.get(environmentId)?.uid
      return uid === undefined ? [] : [{ port, uid }]
    }),
    caddyUid: (await findAccount(caddyAccount(settings)))?.uid,
    edge: {
      dnsPort: settings.proxy.dnsPort,
      pagePort: readTable(settings).pagePort || undefined,
    },
    accounts: [...accounts.values()].map(({ uid }) => uid).sort((a, b) => a - b),
    pool: settings.networkPool,
    networks: ledger?.objects.takenSubnets().sort() ?? [],
    engineGroup: engine?.path,
    // a restarted engine has another cgroup of the same name, which the rules do not match
    enginePid: engine?.pid,
  }
}

const digestOf = (facts: Facts): string =>
  createHash('sha256').update(JSON.stringify(facts)).digest('hex').slice(0, 16)

const turnFile = ({ runDir }: AgentSettings): string => join(runDir, 'firewall.lock')

/**
 * Applies the rules that follow from the ledger and the accounts. Undefined without root, because then there are no
 * accounts and no rules. Never throws; the returned state reports a refusal. `isFresh`: apply even if nothing changed.
 */
export async function guardServer(
  settings: AgentSettings,
  ledger: Ledger | undefined,
  { isFresh = false } = {},
): Promise<FirewallState | undefined> {
  if (!isRoot()) return undefined
  if (settings.firewall === false) {
    return noteProblem(settings, 'Packet rules are switched off here (BERTH_FIREWALL=off).')
  }
  const known = readFirewallState(settings)
  try {
    if (!isFresh && known?.isInForce) {
      if (known.digest === digestOf(await readFacts(settings, ledger))) return known
    }
    return await inTurn(turnFile(settings), async () => {
      const facts = await readFacts(settings, ledger)
      const isBound = await applyRules(facts)
      const engine = facts.enginePid === undefined ? 'none' : isBound ? 'bound' : 'unbound'
      return noteForce(settings, { digest: digestOf(facts), engine })
    })
  } catch (error) {
    const why = (error as Error).message.replace(/\.$/, '')
    return noteProblem(settings, `Packet rules by account cannot be set: ${why}.`)
  }
}

/** For a server that is given up, and for tests: removes everything of this installation from the kernel. */
export async function unguardServer(settings: AgentSettings): Promise<void> {
  if (!isRoot() || settings.firewall === false) return
  await inTurn(turnFile(settings), async () => {
    const wasInForce = readFirewallState(settings)?.isInForce
    forgetState(settings)
    await removeRules(settings.stateDir).catch((error: unknown) => {
      if (wasInForce) throw error // where rules cannot be set there are none
    })
  })
}

interface FirewallParts {
  settings: AgentSettings
  log: Log
  /** The rules came into force or ceased to be. */
  onChange: () => void
}

/** Resolves when the rules are first applied, with a function that stops the upkeep; the rules stay. */
export async function keepFirewall({
  settings,
  log,
  onChange,
}: FirewallParts): Promise<() => void> {
  let reported: string | undefined
  const look = (): Promise<void> =>
    apply().catch((error: unknown) => log.warn(describeError(error), 'no packet rules'))
  const apply = async (): Promise<void> => {
    const ledger = existsSync(ledgerFile(settings)) ? new Ledger(settings) : undefined
    try {
      const state = await guardServer(settings, ledger, { isFresh: true })
      if (state && state.reason !== reported) {
        if (state.reason !== '') log.warn({ reason: state.reason }, 'no packet rules')
        if (reported !== undefined) onChange()
        reported = state.reason
      }
    } finally {
      ledger?.close()
    }
  }
  await look()
  const timer = setInterval(() => void look(), FIREWALL.supervisionMs)
  timer.unref()
  return () => clearInterval(timer)
}
