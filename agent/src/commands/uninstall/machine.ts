// Takes Berth from the machine itself: accounts, control groups, files, units, program. Every step can be repeated, and
// accounts and files of others are left alone.
import { existsSync, lstatSync, rmdirSync, rmSync } from 'node:fs'
import { UNINSTALL } from '../../limits/maintenance.ts'
import { removeTree } from '../../machine/files.ts'
import { endLeftovers } from '../../machine/process/leftovers.ts'
import { listProcesses, readOwner } from '../../machine/process/processes.ts'
import { runProgram } from '../../machine/process/programs.ts'
import { clearShared } from '../../machine/users/shared-paths.ts'
import {
  changeAccounts,
  findAccount,
  findGroup,
  gitAccountName,
  listEnvironmentAccounts,
  removeAccount,
} from '../../machine/users/users.ts'
import { caddyAccount } from '../../proxy/caddy/account.ts'
import { webGroup } from '../../proxy/caddy/web-group.ts'
import { edgePaths } from '../../proxy/paths.ts'
import { type AgentSettings, environmentDir } from '../../settings.ts'
import { sshPaths } from '../../ssh/paths.ts'
import {
  isInstalled,
  isPackaged,
  listFiles,
  listLinks,
  listUnits,
  PACKAGE,
  PROGRAM,
  settingsFolder,
  UNIT,
} from './installed.ts'
import { endAll, hasSystemd } from './processes.ts'

/** Accounts beside those of environments, with the home by which they are ours. */
function otherAccounts(settings: AgentSettings): { name: string; home: string }[] {
  const { hostAccount } = sshPaths(settings)
  return [
    { name: gitAccountName(settings), home: settings.stateDir },
    { name: caddyAccount(settings), home: edgePaths(settings).caddy },
    { name: hostAccount, home: `/home/${hostAccount}` },
  ]
}

export const environmentAccounts = (settings: AgentSettings) =>
  listEnvironmentAccounts(settings.accountPrefix, (id) => environmentDir(settings, id))

/** What the environments run outside of the engine, however it was started. */
export async function endEnvironments(settings: AgentSettings, ids: number[]): Promise<void> {
  const accounts = environmentAccounts(settings)
  for (const id of ids) {
    const left = await endLeftovers(
      {
        name: `${settings.accountPrefix}${id}`,
        uid: accounts.get(id)?.uid,
        marker: `BERTH_SHARED_DIR=${environmentDir(settings, id)}/shared`,
      },
      UNINSTALL.processMs,
    )
    if (left.length > 0) {
      const names = left.slice(0, 5).map(({ name, pid }) => `${name} (pid ${pid})`)
      throw new Error(`Processes of environment ${id} could not be ended: ${names.join(', ')}.`)
    }
  }
}

async function endProcessesOf(uid: number): Promise<void> {
  if (!(uid > 0)) return
  const own = listProcesses().filter(({ pid }) => readOwner(pid) === uid)
  await endAll(own, UNINSTALL.killMs)
}

/** Returns the names of those that were removed. */
export async function removeAccounts(settings: AgentSettings): Promise<string[]> {
  const removed: string[] = []
  const all = [
    ...[...environmentAccounts(settings)].map(([id, { name }]) => ({
      name,
      home: environmentDir(settings, id),
    })),
    ...otherAccounts(settings),
  ]
  for (const { name, home } of all) {
    const found = await findAccount(name)
    if (!found || found.home !== home) continue
    await endProcessesOf(found.uid)
    await clearShared(settings, found.uid)
    if (home.startsWith('/home/')) await removeTree(home)
    if ((await removeAccount(name, home)) === 'removed') removed.push(name)
  }
  const group = webGroup(settings)
  if ((await findGroup(group)) !== undefined) {
    const { code, stderr } = await changeAccounts(['groupdel', '--', group])
    if (code !== 0) throw new Error(`Group ${group} could not be removed: ${stderr.trim()}`)
    removed.push(group)
  }
  return removed
}

/** Those of SSH sessions, before their accounts are removed. */
export async function endRelays(settings: AgentSettings, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const found = await findAccount(name)
    if (found?.home === sshPaths(settings).home) await endProcessesOf(found.uid)
  }
}

/** A folder that is a mount point is emptied and stays. */
async function removeFolder(folder: string): Promise<string | undefined> {
  if (!existsSync(folder)) return undefined
  try {
    await removeTree(folder)
  } catch (error) {
    const above = lstatSync(`${folder}/..`).dev
    if (lstatSync(folder).dev === above) throw error
    const argv = ['find', folder, '-xdev', '-mindepth', '1', '-delete']
    await runProgram(argv, { timeoutMs: UNINSTALL.packageMs })
    return `${folder} is a mount point, so the empty folder stays.`
  }
  return undefined
}

/** State, settings and files of sshd. Returns sentences about what stays. */
export async function removeFiles(settings: AgentSettings): Promise<string[]> {
  const notes: string[] = []
  for (const folder of [...listFiles(settings), settings.runDir, settings.stateDir]) {
    const note = await removeFolder(folder)
    if (note) notes.push(note)
  }
  if (isInstalled(settings)) {
    try {
      rmdirSync(settingsFolder(settings))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOTEMPTY')
        notes.push(`${settingsFolder(settings)} holds files of others and stays.`)
    }
  }
  return notes
}

export async function removeUnits(settings: AgentSettings): Promise<void> {
  const units = listUnits(settings).filter((path) => lstatSync(path, { throwIfNoEntry: false }))
  for (const path of units) rmSync(path, { recursive: true, force: true })
  if (!isInstalled(settings) || !hasSystemd()) return
  if (units.length > 0) await runProgram(['systemctl', 'daemon-reload'])
  await runProgram(['systemctl', 'reset-failed', '--quiet', UNIT]) // fails where it is not known
}

/** Last: this process runs from there. */
export async function removeProgram(settings: AgentSettings): Promise<void> {
  if (!isInstalled(settings)) return
  if (await isPackaged(settings)) {
    const env = { PATH: process.env.PATH ?? '', DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C' }
    const argv = ['dpkg', '--purge', PACKAGE]
    const { code, stderr } = await runProgram(argv, { timeoutMs: UNINSTALL.packageMs, env })
    if (code !== 0) throw new Error(`The package could not be removed: ${stderr.trim()}`)
  }
  for (const link of listLinks(settings)) rmSync(link, { force: true })
  await removeTree(PROGRAM)
}

/** What is still there, as a person would look for it. */
export async function listLeft(settings: AgentSettings): Promise<string[]> {
  const paths = [
    ...listFiles(settings),
    settings.runDir,
    settings.stateDir,
    ...listUnits(settings),
    ...listLinks(settings),
    ...(isInstalled(settings) ? [PROGRAM] : []),
  ]
  const accounts: string[] = [...environmentAccounts(settings).values()].map(({ name }) => name)
  for (const { name, home } of otherAccounts(settings)) {
    if ((await findAccount(name))?.home === home) accounts.push(name)
  }
  return [...paths.filter((path) => existsSync(path)), ...accounts.map((name) => `account ${name}`)]
}
