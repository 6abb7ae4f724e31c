// `berth-agent uninstall`: takes everything of Berth from this server. It refuses while environments are here, unless
// their loss is asked for. Every step is repeatable and independent of the others: a dead daemon, a control plane that
// is away and half an installation are ordinary. A problem is said at the end and makes the exit code 1.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { SSH_ACCOUNTS } from '@berth/shared'
import { UNINSTALL } from '../../limits/maintenance.ts'
import { isJoined, readIdentity } from '../../link/identity/identity.ts'
import { leave, NotKnown } from '../../link/identity/leave.ts'
import { type Engine, isEngineUp, openEngine } from '../../machine/docker/engine.ts'
import { removeAllGroups } from '../../machine/process/cgroups.ts'
import { isRoot } from '../../machine/users/users.ts'
import { resetUnaccepted } from '../../proxy/caddy/unaccepted.ts'
import { stopProxy } from '../../proxy/supervision.ts'
import { unguardServer } from '../../resources/firewall.ts'
import type { AgentSettings } from '../../settings.ts'
import { relayAccount } from '../../ssh/paths.ts'
import { removeFromServer } from '../../ssh/ssh-service.ts'
import { stopAllServices } from '../../supervise/control.ts'
import {
  type EngineObject,
  listObjects,
  nameObject,
  removeCache,
  removeObjects,
  removePulled,
} from './engine.ts'
import { isInstalled, isPackaged } from './installed.ts'
import {
  describeEnvironment,
  listEnvironmentIds,
  listEnvironments,
  openLedger,
} from './inventory.ts'
import {
  endEnvironments,
  endRelays,
  listLeft,
  removeAccounts,
  removeFiles,
  removeProgram,
  removeUnits,
} from './machine.ts'
import { endAll, listOwnProcesses, listRunners, stopDaemon, stopUnit } from './processes.ts'

export const UNINSTALL_USAGE = `Usage: berth-agent uninstall [--yes] [--purge] [--leave-engine]

  --yes            Ask no question
  --purge          Also remove environments that are here, with their data
  --leave-engine   Go on although the Docker engine does not answer; what Berth made in it stays
`

interface Asked {
  isSure: boolean
  purges: boolean
  leavesEngine: boolean
}

function readArguments(args: readonly string[]): Asked | undefined {
  const known = ['--yes', '--purge', '--leave-engine']
  if (args.some((one) => !known.includes(one))) return undefined
  return {
    isSure: args.includes('--yes'),
    purges: args.includes('--purge'),
    leavesEngine: args.includes('--leave-engine'),
  }
}

type Say = (line: string) => void

/** Packages that the install script added, one a line (domain/servers/install-script.ts of the control plane). */
const readAddedPackages = ({ stateDir }: AgentSettings): string[] => {
  try {
    const text = readFileSync(join(stateDir, 'installed-packages'), 'utf8')
    return text.split('\n').filter((line) => /^[a-z0-9][a-z0-9.+-]*$/.test(line))
  } catch {
    return []
  }
}

const ownerOf = (settings: AgentSettings): string => {
  try {
    return readIdentity(settings).agentId
  } catch {
    return settings.owner // never joined, or half of an identity: names decide
  }
}

/** Returns the exit code. */
export async function uninstall(
  given: AgentSettings,
  args: readonly string[],
  say: Say,
): Promise<number> {
  const asked = readArguments(args)
  if (!asked) {
    process.stderr.write(UNINSTALL_USAGE)
    return 2
  }
  const settings = { ...given, owner: ownerOf(given) }
  if (!isRoot() && !settings.development) {
    say('This needs root: it removes accounts, services and files.')
    return 1
  }
  const engine = await findEngine(settings)
  const objects = engine === 'silent' || !engine ? [] : await listObjects(engine, settings)
  const refusal = await refuse(settings, asked, engine, objects)
  if (refusal) {
    for (const line of refusal) say(line)
    return 1
  }
  if (!(await isAnythingHere(settings, objects))) {
    say('Nothing of Berth is on this server.')
    return 0
  }
  if (!asked.isSure && !(await confirm(say))) return 1
  return remove(settings, engine === 'silent' ? undefined : engine, say)
}

const isAnythingHere = async (settings: AgentSettings, objects: EngineObject[]): Promise<boolean> =>
  objects.length > 0 || (await listLeft(settings)).length > 0 || (await isPackaged(settings))

/** Undefined: there is no socket, so nothing of ours is behind it. */
async function findEngine(settings: AgentSettings): Promise<Engine | 'silent' | undefined> {
  if (!existsSync(settings.dockerSocket)) return undefined
  const engine = openEngine(settings)
  return (await isEngineUp(engine, UNINSTALL.killMs)) ? engine : 'silent'
}

/** The sentences to show instead of starting. */
async function refuse(
  settings: AgentSettings,
  asked: Asked,
  engine: Engine | 'silent' | undefined,
  objects: EngineObject[],
): Promise<string[] | undefined> {
  const ledger = openLedger(settings)
  try {
    const held = ledger?.objects.list().length ?? 0
    if (engine === 'silent' && held > 0 && !asked.leavesEngine) {
      return [
        `The Docker engine does not answer at ${settings.dockerSocket}, and it holds ${held} objects of Berth.`,
        'Start it and run this again, or add --leave-engine: they stay there then.',
      ]
    }
    const environments = listEnvironments(settings, ledger, objects)
    if (environments.length === 0 || asked.purges) return undefined
    return [
      'Environments are on this server. Their removal loses, for good:',
      ...environments.map((one) => `  ${describeEnvironment(one)}`),
      'Delete or move them in Berth first, or run: berth-agent uninstall --purge',
    ]
  } finally {
    ledger?.close()
  }
}

async function confirm(say: Say): Promise<boolean> {
  if (!process.stdin.isTTY) {
    say('Nobody can be asked here. Add --yes to remove Berth from this server.')
    return false
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  const answer = await terminal.question('Remove Berth and everything it made here? [y/N] ')
  terminal.close()
  if (/^y(es)?$/i.test(answer.trim().slice(0, UNINSTALL.answerChars))) return true
  say('Nothing was changed.')
  return false
}

async function tell(settings: AgentSettings): Promise<string> {
  if (!isJoined(settings)) return 'This server had not joined a control plane.'
  try {
    const { server, environments } = await leave(readIdentity(settings))
    const rest =
      environments > 0
        ? ` It still lists ${environments} environments on it: move or delete them there.`
        : ''
    return `The control plane shows ${server} as uninstalled.${rest}`
  } catch (error) {
    if (error instanceof NotKnown) return 'The control plane does not know this server any more.'
    return `The control plane could not be told (${(error as Error).message}). Remove the server there: berth server remove NAME`
  }
}

async function remove(
  settings: AgentSettings,
  engine: Engine | undefined,
  say: Say,
): Promise<number> {
  const problems: string[] = []
  const step = async (work: () => Promise<string | undefined>): Promise<void> => {
    try {
      const done = await work()
      if (done) say(done)
    } catch (error) {
      problems.push((error as Error).message)
    }
  }
  const packages = readAddedPackages(settings)
  await step(async () => {
    await stopUnit(settings)
    await stopDaemon(settings)
    return 'The daemon does not run.'
  })
  await step(() => tell(settings))
  await step(() => endEverything(settings))
  await step(async () => {
    await stopProxy(settings)
    resetUnaccepted()
    return 'Caddy and the edge are stopped.'
  })
  await step(() => removeSsh(settings))
  await step(async () => {
    const left = await endAll(listOwnProcesses(settings), UNINSTALL.processMs)
    if (left.length > 0) throw new Error(`${left.length} processes of Berth could not be ended.`)
    return undefined
  })
  if (engine) await step(() => emptyEngine(engine, settings, problems))
  await step(async () => {
    await unguardServer(settings)
    return 'Packet rules are removed.'
  })
  await step(async () => {
    await removeAllGroups(settings.accountPrefix, UNINSTALL.groupDepth)
    return undefined
  })
  await step(async () => {
    const names = isRoot() ? await removeAccounts(settings) : []
    return names.length > 0 ? `Accounts and groups are removed: ${names.join(', ')}.` : undefined
  })
  await step(async () => {
    await removeUnits(settings)
    for (const note of await removeFiles(settings)) say(note)
    return 'State, settings and files are removed.'
  })
  await step(async () => {
    await removeProgram(settings)
    return isInstalled(settings) ? 'The program is removed.' : undefined
  })
  for (const left of await listLeft(settings)) problems.push(`${left} is still there.`)
  if (packages.length > 0) {
    say(
      `Packages that install.sh added stay, because other programs may use them: ${packages.join(' ')}. Remove them with: apt-get purge ${packages.join(' ')}`,
    )
  }
  if (problems.length === 0) {
    say('Berth is removed from this server.')
    return 0
  }
  for (const one of problems) say(`Problem: ${one}`)
  say('Not everything could be removed. Run this again when the problems are solved.')
  return 1
}

/** Runners first, because they start services and containers. */
async function endEverything(settings: AgentSettings): Promise<string | undefined> {
  await endAll(listRunners(settings), UNINSTALL.processMs)
  const ledger = openLedger(settings)
  const ids = listEnvironmentIds(settings, ledger, [])
  ledger?.close()
  if (ledger) await stopAllServices(settings)
  await endEnvironments(settings, ids)
  return ids.length > 0 ? `Services of ${ids.length} environments are stopped.` : undefined
}

async function removeSsh(settings: AgentSettings): Promise<string | undefined> {
  if (!isRoot()) return undefined
  await endRelays(
    settings,
    SSH_ACCOUNTS.map((role) => relayAccount(settings, role)),
  )
  // files may be there from a time when SSH was on
  const mode = isInstalled(settings) ? 'auto' : settings.ssh.mode
  await removeFromServer({ ...settings, ssh: { ...settings.ssh, mode } })
  return 'SSH access through Berth is removed; the server’s sshd is as before.'
}

async function emptyEngine(
  engine: Engine,
  settings: AgentSettings,
  problems: string[],
): Promise<string | undefined> {
  const objects = await listObjects(engine, settings)
  problems.push(...(await removeObjects(engine, objects)))
  const ledger = openLedger(settings)
  try {
    const pulled = ledger ? await removePulled(engine, ledger) : 0
    if (ledger) await removeCache(engine, ledger)
    const left = await listObjects(engine, settings)
    problems.push(...left.map((one) => `${nameObject(one)} is still in the engine.`))
    const count = objects.length + pulled - left.length
    return count > 0 ? `${count} objects are removed from the Docker engine.` : undefined
  } finally {
    ledger?.close()
  }
}
