// The Unix account of an environment: made once, without password, shell or groups; its home is the environment's
// folder. Invariant: an existing account that is not ours (another home, root) is never used. Without root there are no
// accounts; development then runs commands as the developer.
import { readFileSync, statSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { PROCESSES } from '../../limits/machine.ts'
import { type Account, dropRights } from '../process/confinement.ts'
import { locateProgram, runProgram } from '../process/programs.ts'

export const isRoot = (): boolean => process.getuid?.() === 0

/** berth-git: fetches repositories for all environments. */
export const gitAccountName = ({ accountPrefix }: { accountPrefix: string }): string =>
  `${accountPrefix.replace(/e$/, '')}git`

export class AccountError extends Error {
  override readonly name = 'AccountError'
}

const NAME = /^[a-z_][a-z0-9_-]{0,31}$/

export async function findAccount(name: string): Promise<(Account & { home: string }) | undefined> {
  const line = findLocal(name) ?? (await askForAccount(name))
  if (line === undefined) return undefined
  const fields = line.split(':')
  return { name, uid: Number(fields[2]), gid: Number(fields[3]), home: fields[5] ?? '' }
}

/** Local accounts are in this file; reading it starts no program. */
const findLocal = (name: string): string | undefined =>
  readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((line) => line.startsWith(`${name}:`))

/** Accounts of environments that were made here, by environment. One whose home differs from `homeOf` is not ours. */
export function listEnvironmentAccounts(
  prefix: string,
  homeOf: (environmentId: number) => string,
): Map<number, Account> {
  const found = new Map<number, Account>()
  for (const line of readFileSync('/etc/passwd', 'utf8').split('\n')) {
    const [name = '', , uid, gid, , home] = line.split(':')
    const id = name.startsWith(prefix) ? name.slice(prefix.length) : ''
    if (!/^[1-9][0-9]*$/.test(id) || !(Number(uid) > 0) || home !== homeOf(Number(id))) continue
    found.set(Number(id), { name, uid: Number(uid), gid: Number(gid) })
  }
  return found
}

/** Includes accounts of a directory service. */
async function askForAccount(name: string): Promise<string | undefined> {
  const found = await runProgram(['getent', 'passwd', name])
  return found.code === 0 ? found.stdout.toString('utf8').trim() : undefined
}

async function createAccount(name: string, home: string, purpose: string): Promise<void> {
  const shell = locateProgram('nologin') ?? '/bin/false'
  const argv = ['useradd', '--home-dir', home, '--no-create-home', '--shell', shell]
  // no ranges of subordinate ids, which are for people who run their own containers
  argv.push('--user-group', '--comment', purpose, '-K', 'SUB_UID_COUNT=0', '-K', 'SUB_GID_COUNT=0')
  for (let attempt = 1; ; attempt += 1) {
    const made = await runProgram([...argv, '--', name])
    if (made.code === 0) return
    // another program holds the lock of /etc/passwd for a moment
    const isBusy = /cannot lock|try again later/i.test(made.stderr)
    if (!isBusy || attempt >= PROCESSES.accountTries) {
      if (await findAccount(name)) return // a concurrent deployment just made it
      throw new AccountError(`Account ${name} could not be made: ${made.stderr.trim()}`)
    }
    await delay(PROCESSES.endPollMs * attempt)
  }
}

/** Finds or makes the account of an environment. */
export async function ensureAccount(
  name: string,
  home: string,
  purpose: string,
): Promise<{ account: Account; isNew: boolean }> {
  if (!NAME.test(name)) throw new AccountError(`${name} is not a name for an account.`)
  const present = await findAccount(name)
  if (!present) await createAccount(name, home, purpose)
  const found = present ?? (await findAccount(name))
  if (!found) throw new AccountError(`Account ${name} was made and cannot be found.`)
  if (!(found.uid > 0) || !(found.gid > 0)) {
    throw new AccountError(`Account ${name} exists and has the rights of root; it is not used.`)
  }
  if (found.home !== home) {
    throw new AccountError(
      `Account ${name} exists and is not of Berth: its home is ${found.home}, not ${home}. Rename or remove it.`,
    )
  }
  return { account: { name, uid: found.uid, gid: found.gid }, isNew: !present }
}

/** Runs one of the programs that change /etc/passwd; retries while another program holds its lock. */
export async function changeAccounts(
  argv: string[],
): Promise<{ code: number | null; stderr: string }> {
  if (!locateProgram(argv[0] as string)) throw new AccountError(`${argv[0]} is not installed.`)
  for (let attempt = 1; ; attempt += 1) {
    const done = await runProgram(argv)
    const isBusy = /cannot lock|try again later|currently used by process/i.test(done.stderr)
    if (done.code === 0 || !isBusy || attempt >= PROCESSES.accountTries) return done
    await delay(PROCESSES.endPollMs * attempt)
  }
}

export async function findGroup(name: string): Promise<number | undefined> {
  const found = await runProgram(['getent', 'group', name])
  const gid = Number(found.stdout.toString('utf8').split(':')[2])
  return found.code === 0 && gid > 0 ? gid : undefined
}

/** Makes the group if it is missing, and adds the account to it. */
export async function ensureMember(group: string, account: string): Promise<void> {
  if (!NAME.test(group)) throw new AccountError(`${group} is not a name for a group.`)
  if ((await findGroup(group)) === undefined) {
    const { stderr } = await changeAccounts(['groupadd', '--', group])
    if ((await findGroup(group)) === undefined) {
      throw new AccountError(`Group ${group} could not be made: ${stderr.trim()}`)
    }
  }
  const members = await runProgram(['id', '-nG', '--', account])
  if (members.stdout.toString('utf8').trim().split(/\s+/).includes(group)) return
  const { code, stderr } = await changeAccounts(['usermod', '-a', '-G', group, '--', account])
  if (code !== 0) throw new AccountError(`${account} is not in group ${group}: ${stderr.trim()}`)
}

/** Removes the account of an environment with its group. An account of that name that is not ours stays. */
export async function removeAccount(
  name: string,
  home: string,
): Promise<'removed' | 'absent' | 'foreign'> {
  const found = await findAccount(name)
  if (found && found.home !== home) return 'foreign'
  if (found) {
    const { stderr } = await changeAccounts(['userdel', '--', name])
    if (await findAccount(name)) {
      throw new AccountError(`Account ${name} could not be removed: ${stderr.trim()}`)
    }
  }
  // userdel removed its group too if the host says so (USERGROUPS_ENAB)
  if ((await runProgram(['getent', 'group', name])).code !== 0) return found ? 'removed' : 'absent'
  const { code, stderr } = await changeAccounts(['groupdel', '--', name])
  if (code !== 0) throw new AccountError(`Group ${name} could not be removed: ${stderr.trim()}`)
  return 'removed'
}

/** By owner, group and mode alone; an access list, which only the kernel evaluates, may still grant access. */
function bitsLetIn({ uid, gid }: Account, folder: string): boolean {
  const parts = folder.split('/').filter(Boolean)
  return parts.every((_, index) => {
    const path = `/${parts.slice(0, index + 1).join('/')}`
    const found = statSync(path, { throwIfNoEntry: false })
    if (!found?.isDirectory()) return false
    const bit = found.uid === uid ? 0o100 : found.gid === gid ? 0o010 : 0o001
    return (found.mode & bit) !== 0
  })
}

/** The first folder on the path to `folder` that the account cannot enter. */
export async function findClosedFolder(
  account: Account | undefined,
  folder: string,
): Promise<string | undefined> {
  if (account && bitsLetIn(account, folder)) return undefined
  const test = locateProgram('test') ?? '/usr/bin/test'
  const canEnter = async (path: string): Promise<boolean> =>
    (await runProgram([...dropRights(account), test, '-x', path])).code === 0
  if (await canEnter(folder)) return undefined
  const parts = folder.split('/').filter(Boolean)
  for (let count = 1; count <= parts.length; count += 1) {
    const path = `/${parts.slice(0, count).join('/')}`
    if (!(await canEnter(path))) return path
  }
  return folder
}
