// The Unix account of an environment: made once, without password, shell or groups, its home the environment's
// folder. Invariant: an account that exists and is not ours (another home, root) is never used. Without root there
// are no accounts; development then runs commands as the developer.
import { setTimeout as delay } from 'node:timers/promises'
import { PROCESSES } from '@berth/shared'
import { type Account, dropRights } from './confinement.ts'
import { locateProgram, runProgram } from './programs.ts'

export const isRoot = (): boolean => process.getuid?.() === 0

export class AccountError extends Error {
  override readonly name = 'AccountError'
}

const NAME = /^[a-z_][a-z0-9_-]{0,31}$/

export async function findAccount(name: string): Promise<(Account & { home: string }) | undefined> {
  const found = await runProgram(['getent', 'passwd', name])
  if (found.code !== 0) return undefined
  const fields = found.stdout.toString('utf8').trim().split(':')
  return { name, uid: Number(fields[2]), gid: Number(fields[3]), home: fields[5] ?? '' }
}

async function createAccount(name: string, home: string, purpose: string): Promise<void> {
  const shell = locateProgram('nologin') ?? '/bin/false'
  const argv = ['useradd', '--home-dir', home, '--no-create-home', '--shell', shell]
  // no ranges of subordinate ids: they are for people who run containers of their own
  argv.push('--user-group', '--comment', purpose, '-K', 'SUB_UID_COUNT=0', '-K', 'SUB_GID_COUNT=0')
  for (let attempt = 1; ; attempt += 1) {
    const made = await runProgram([...argv, '--', name])
    if (made.code === 0) return
    // somebody else holds the lock of /etc/passwd for a moment
    const isBusy = /cannot lock|try again later/i.test(made.stderr)
    if (!isBusy || attempt >= PROCESSES.accountTries) {
      if (await findAccount(name)) return // made by a deployment of a moment ago
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

/** One of the programs that change /etc/passwd; somebody else may hold its lock for a moment. */
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

/** Removes the account of an environment with its group. One of that name that is not ours is left alone. */
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
  // its group went with it where the host says so (USERGROUPS_ENAB), and stays elsewhere
  if ((await runProgram(['getent', 'group', name])).code !== 0) return found ? 'removed' : 'absent'
  const { code, stderr } = await changeAccounts(['groupdel', '--', name])
  if (code !== 0) throw new AccountError(`Group ${name} could not be removed: ${stderr.trim()}`)
  return 'removed'
}

/** The first folder on the way to `folder` that the account cannot enter. */
export async function findClosedFolder(
  account: Account | undefined,
  folder: string,
): Promise<string | undefined> {
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
