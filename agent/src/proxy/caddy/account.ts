// Caddy's account. Caddy never runs as root, because people's repositories name what it dials and reads. Where the
// agent runs as root, Caddy needs an account of its own, in development too; elsewhere Caddy runs as the developer.
// Invariant: a file that an environment or Caddy itself could have put there never changes its owner.
import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  copyFileSync,
  fstatSync,
  lchownSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { PROXY } from '../../limits/proxy.ts'
import { listFolder } from '../../machine/files.ts'
import type { Account } from '../../machine/process/confinement.ts'
import { locateProgram } from '../../machine/process/programs.ts'
import { O_PATH } from '../../machine/process/sockets.ts'
import { ensureAccount, findAccount, findClosedFolder, isRoot } from '../../machine/users/users.ts'
import type { AgentSettings } from '../../settings.ts'
import { edgePaths } from '../paths.ts'
import { ensureWebGroup, findWebGroup } from './web-group.ts'

type Names = Pick<AgentSettings, 'accountPrefix'>

/** berth-caddy. */
export const caddyAccount = ({ accountPrefix }: Names): string =>
  `${accountPrefix.replace(/-?e$/, '')}-caddy`

/** Undefined when it does not exist, or is not needed without root. */
export async function findCaddyAccount(settings: Names): Promise<Account | undefined> {
  if (!isRoot()) return undefined
  const { name, uid, gid } = (await findAccount(caddyAccount(settings))) ?? {}
  return name !== undefined && uid && gid ? { name, uid, gid } : undefined
}

/** Finds or makes it, with the group through which it reaches sockets and static files of environments. */
export async function ensureCaddyAccount(
  settings: AgentSettings,
): Promise<{ account: Account; isNew: boolean }> {
  const home = edgePaths(settings).caddy
  const made = await ensureAccount(caddyAccount(settings), home, 'Berth proxy')
  await ensureWebGroup(settings, made.account.name)
  return made
}

function noAccount(settings: AgentSettings): Error {
  const name = caddyAccount(settings)
  const how = settings.development
    ? `Start with \`npm start\`, which makes it, or run \`berth-agent setup proxy-account\` with BERTH_ACCOUNT_PREFIX=${settings.accountPrefix} and the same folders.`
    : 'Run `berth-agent setup proxy` on this server.'
  return new Error(`Caddy never runs as root, and its account ${name} is missing. ${how}`)
}

const NO_SETPRIV =
  'Caddy never runs as root, and setpriv, which takes the rights of root away, is not installed. Install the package util-linux.'

/** The argv before Caddy's own, which keeps only the right to bind low ports. Throws when Caddy would run as root. */
export async function becomeCaddy(settings: AgentSettings): Promise<string[]> {
  if (!isRoot()) return []
  const account = await findCaddyAccount(settings)
  if (!account) throw noAccount(settings)
  const setpriv = locateProgram('setpriv')
  if (!setpriv) throw new Error(NO_SETPRIV)
  await ensureWebGroup(settings, account.name)
  await handOver(settings, account)
  const closed = await findClosedFolder(account, edgePaths(settings).caddy)
  if (closed) throw new Error(`${account.name} cannot enter ${closed}. Run: chmod o+x ${closed}`)
  const bind = '-all,+net_bind_service'
  return [
    setpriv,
    ...['--reuid', account.name, '--regid', account.name, '--init-groups', '--no-new-privs'],
    ...['--inh-caps', bind, '--ambient-caps', bind, '--bounding-set', bind, '--'],
  ]
}

/** The program, or a copy where its account reaches it: a checkout may be below a closed home. */
export async function openToCaddy(settings: AgentSettings, file: string): Promise<string> {
  const account = await findCaddyAccount(settings)
  if (!account || !(await findClosedFolder(account, dirname(file)))) return file
  const { program } = edgePaths(settings)
  mkdirSync(dirname(program), { recursive: true, mode: 0o711 })
  rmSync(program, { force: true })
  try {
    linkSync(file, program)
  } catch {
    copyFileSync(file, program) // on another file system
  }
  return program
}

/** Gives the files of a Caddy that ran as root to its account. Idempotent. */
export async function handOver(settings: AgentSettings, account: Account): Promise<void> {
  const paths = edgePaths(settings)
  // Caddy must be able to pass through the parents
  for (const above of [paths.dir, settings.runDir]) {
    mkdirSync(above, { recursive: true, mode: 0o711 })
  }
  for (const folder of [paths.caddy, paths.adminDir]) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    giveTree(folder, account)
    chmodSync(folder, 0o700)
  }
  if (statSync(paths.configuration, { throwIfNoEntry: false })) {
    lchownSync(paths.configuration, 0, account.gid)
    chmodSync(paths.configuration, 0o640)
  }
  const group = await findWebGroup(settings)
  if (group === undefined) return
  const statics = join(settings.stateDir, 'static')
  for (const name of listFolder(statics)) lchownSync(join(statics, name), 0, group)
}

/** Works on descriptors and follows no links. Skips a file with several hard links, as another name may be anywhere. */
function giveTree(path: string, account: Account, depth = 0): void {
  const fd = openSync(path, O_PATH | constants.O_NOFOLLOW)
  try {
    const facts = fstatSync(fd)
    const at = `/proc/self/fd/${fd}`
    const isOurs = facts.isDirectory() || (facts.isFile() && facts.nlink === 1)
    if (!isOurs || (facts.uid !== 0 && facts.uid !== account.uid)) return
    if (facts.isDirectory() && depth < PROXY.homeDepth) {
      for (const name of readdirSync(at)) giveTree(join(at, name), account, depth + 1)
    }
    // folders last: until then no other account reaches their contents
    if (facts.uid !== account.uid) chownSync(at, account.uid, account.gid)
  } finally {
    closeSync(fd)
  }
}
