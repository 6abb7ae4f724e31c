// The accounts for logins through sshd. They run no user code, and only relay bytes to the agent's socket. Invariants:
// the shell is /bin/sh (sshd starts the forced command through it; bash would read rc files first), the password field
// is `*` (`!` counts as locked), the home is empty and owned by root.
import { chmodSync, chownSync, mkdirSync } from 'node:fs'
import { SSH_ACCOUNTS } from '@berth/shared'
import { runProgram } from '../../machine/process/programs.ts'
import { AccountError, changeAccounts, findAccount } from '../../machine/users/users.ts'
import type { AgentSettings } from '../../settings.ts'
import { relayAccount, sshPaths } from '../paths.ts'

async function findGroup(name: string): Promise<number | undefined> {
  const found = await runProgram(['getent', 'group', name])
  return found.code === 0 ? Number(found.stdout.toString('utf8').split(':')[2]) : undefined
}

async function ensureGroup(name: string): Promise<number> {
  const present = await findGroup(name)
  if (present !== undefined) return present
  const { stderr } = await changeAccounts(['groupadd', '--system', '--', name])
  const made = await findGroup(name)
  if (made === undefined) throw new AccountError(`Group ${name} was not made: ${stderr.trim()}`)
  return made
}

async function ensureRelay(name: string, home: string, group: string, gid: number): Promise<void> {
  const argv = ['useradd', '--system', '--home-dir', home, '--no-create-home', '--gid', group]
  argv.push('--shell', '/bin/sh', '--password', '*', '--comment', 'Berth SSH relay', '--', name)
  const before = await findAccount(name)
  const failed = before ? '' : (await changeAccounts(argv)).stderr.trim()
  const found = before ?? (await findAccount(name))
  if (!found) throw new AccountError(`Account ${name} was not made: ${failed}`)
  if (!(found.uid > 0) || found.gid !== gid || found.home !== home) {
    throw new AccountError(
      `Account ${name} exists and is not of Berth (home ${found.home}, not ${home}). Rename or remove it.`,
    )
  }
}

/** Makes all of them, and the group that may reach the agent's socket. Returns its gid. */
export async function ensureRelayAccounts(settings: AgentSettings): Promise<number> {
  const { group, home } = sshPaths(settings)
  mkdirSync(home, { recursive: true, mode: 0o755 })
  chmodSync(home, 0o755)
  chownSync(home, 0, 0)
  const gid = await ensureGroup(group)
  for (const role of SSH_ACCOUNTS) {
    await ensureRelay(relayAccount(settings, role), home, group, gid)
  }
  return gid
}

/** For a whole-server shell: ordinary, no sudo, no docker; the owner may add rights on the server itself. */
export async function ensureHostAccount(settings: AgentSettings): Promise<string> {
  const { hostAccount } = sshPaths(settings)
  const home = `/home/${hostAccount}`
  const argv = ['useradd', '--create-home', '--home-dir', home, '--shell', '/bin/bash']
  argv.push('--user-group', '--password', '*', '--comment', 'Berth server shell', '--', hostAccount)
  const before = await findAccount(hostAccount)
  const failed = before ? '' : (await changeAccounts(argv)).stderr.trim()
  const found = before ?? (await findAccount(hostAccount))
  if (!found) throw new AccountError(`Account ${hostAccount} was not made: ${failed}`)
  if (!(found.uid > 0) || found.home !== home)
    throw new AccountError(`Account ${hostAccount} exists and is not of Berth.`)
  return hostAccount
}

/** Removes only our own; keeps an account of that name with another home. */
export async function removeRelayAccounts(settings: AgentSettings): Promise<void> {
  const { group, home } = sshPaths(settings)
  for (const role of SSH_ACCOUNTS) {
    const name = relayAccount(settings, role)
    const found = await findAccount(name)
    if (found?.home === home) await changeAccounts(['userdel', '--', name])
  }
  if ((await findGroup(group)) !== undefined) await changeAccounts(['groupdel', '--', group])
}
