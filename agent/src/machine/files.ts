// Folders and files of an environment. Root makes only what lies in folders that root owns; inside a folder that the
// environment's user can write, everything is done as that user, so that a link planted there leads nowhere.
import {
  chmodSync,
  closeSync,
  fchmodSync,
  fchownSync,
  fsyncSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { PROCESSES } from '@berth/shared'
import { type AgentSettings, environmentDir } from '../settings.ts'
import { syncFolder } from './atomic-files.ts'
import { type Account, dropRights } from './process/confinement.ts'
import { runProgram } from './process/programs.ts'

export interface EnvironmentPaths {
  /** 0710 root:<account>. Never writable by the environment. */
  dir: string
  /** 0710 root:<account of git>: nothing below it ever belonged to an environment's account, nor can one enter it. */
  git: string
  repository: string
  /** Where git writes the files of a commit; they become a release when they are whole. */
  checkout: string
  /** Of earlier versions: it belonged to the environment's account, so nothing in it is used again. */
  formerRepository: string
  shared: string
  home: string
  /** What its commands see as /tmp; theirs alone. */
  temporary: string
  releases: string
  variables: string
  bin: string
  current: string
  sockets: string
  logs: string
  /** Copies of what actions left, root's alone; kept by a reset. */
  artifacts: string
  /** Copies of static roots, <service>/<task>: read by the proxy, written by root alone. */
  statics: string
}

export function environmentPaths(s: AgentSettings, environmentId: number): EnvironmentPaths {
  const dir = environmentDir(s, environmentId)
  // beside the environments: a checkout becomes a release by its name alone
  const git = join(dirname(dir), 'git', `e${environmentId}`)
  return {
    dir,
    git,
    repository: join(git, 'repo.git'),
    checkout: join(git, 'checkout'),
    formerRepository: join(dir, 'repo.git'),
    shared: join(dir, 'shared'),
    home: join(dir, 'home'),
    temporary: join(dir, 'tmp'),
    releases: join(dir, 'releases'),
    variables: join(dir, 'variables'),
    bin: join(dir, 'bin'),
    current: join(dir, 'current'),
    sockets: join(s.runDir, `e${environmentId}`),
    logs: join(s.stateDir, 'logs', `e${environmentId}`),
    artifacts: join(s.stateDir, 'artifacts', `e${environmentId}`),
    statics: join(s.stateDir, 'static', `e${environmentId}`),
  }
}

/** Everything of an environment on this server's disks: when none of it exists, nothing is left. */
export const allPaths = (s: AgentSettings, environmentId: number): string[] => {
  const { dir, git, sockets, logs, artifacts, statics } = environmentPaths(s, environmentId)
  return [
    dir,
    git,
    sockets,
    logs,
    artifacts,
    statics,
    join(s.runDir, 'services', `e${environmentId}`),
  ]
}

/**
 * The folders that accounts of environments pass through on the way to their own: entered by everybody, listed by root alone.
 * Also where an earlier version, or a shell that closes what it makes, left them closed.
 */
export function ensureStateFolders({ stateDir, runDir }: AgentSettings): void {
  for (const folder of [stateDir, runDir, join(stateDir, 'environments')]) {
    mkdirSync(folder, { recursive: true, mode: 0o711 })
    const mode = statSync(folder).mode & 0o7777
    if ((mode & 0o111) !== 0o111) chmodSync(folder, mode | 0o111)
  }
}

/** Makes or corrects one folder; `account` undefined means root (or the developer) keeps it. */
export function ensureFolder(
  folder: string,
  mode: number,
  owner?: { uid: number; gid: number },
): void {
  mkdirSync(folder, { recursive: true, mode })
  if (owner) lchownSync(folder, owner.uid, owner.gid)
  chmodSync(folder, mode)
}

/** The part that root makes (or the developer): every folder here lies in one that the environment cannot write. */
export function ensureEnvironmentFolders(
  paths: EnvironmentPaths,
  account: Account | undefined,
  /** Through which the proxy reaches sockets. */
  webGroup: number | undefined,
): void {
  const theirs = account && { uid: account.uid, gid: account.gid }
  const enterable = account && { uid: 0, gid: account.gid }
  mkdirSync(dirname(paths.dir), { recursive: true, mode: 0o711 })
  ensureFolder(paths.dir, 0o710, enterable)
  ensureFolder(paths.shared, 0o750, theirs)
  ensureFolder(paths.home, 0o700, theirs)
  ensureFolder(paths.temporary, 0o700, theirs)
  ensureFolder(paths.releases, 0o710, enterable)
  ensureFolder(paths.variables, 0o710, enterable)
  ensureFolder(paths.bin, 0o755)
  mkdirSync(dirname(paths.sockets), { recursive: true, mode: 0o711 })
  // setgid: a socket belongs to the group of the folder, whoever makes it
  const shared = account && webGroup !== undefined && { uid: account.uid, gid: webGroup }
  ensureFolder(paths.sockets, shared ? 0o2750 : 0o750, shared || theirs)
}

/** Where copies of static roots go: for root and the proxy, not for other environments. */
export function ensureStaticFolder(folder: string, webGroup: number | undefined): void {
  mkdirSync(dirname(folder), { recursive: true, mode: 0o711 })
  ensureFolder(folder, 0o750, webGroup === undefined ? undefined : { uid: 0, gid: webGroup })
}

/** docker: nobody but root reads the variables, nobody but the engine works here. */
export function ensureDockerFolders(paths: EnvironmentPaths, isOwned: boolean): void {
  mkdirSync(dirname(paths.dir), { recursive: true, mode: 0o711 })
  ensureFolder(paths.dir, 0o710)
  ensureFolder(paths.releases, 0o710)
  ensureFolder(paths.variables, 0o700, isOwned ? { uid: 0, gid: 0 } : undefined)
}

/** Where git works, as an account of its own. A repository that another account made is thrown away. */
export async function ensureGitFolders(
  paths: EnvironmentPaths,
  account: Account | undefined,
): Promise<void> {
  mkdirSync(dirname(paths.git), { recursive: true, mode: 0o711 })
  ensureFolder(paths.git, 0o710, account && { uid: 0, gid: account.gid })
  await removeTree(paths.formerRepository)
  const found = statSync(paths.repository, { throwIfNoEntry: false })
  if (found && account && found.uid !== account.uid) await removeTree(paths.repository)
  ensureFolder(paths.repository, 0o700, account)
}

/**
 * The files of a checkout become a release of `account`. Until its new name is there only root can enter the folder, so
 * nobody changes what is being given away; chown follows no link.
 */
export async function handOver(
  checkout: string,
  release: string,
  account: Account | undefined,
): Promise<void> {
  if (account) {
    lchownSync(checkout, 0, 0)
    const argv = ['chown', '-R', '-h', `${account.uid}:${account.gid}`, '--', checkout]
    const given = await runProgram(argv, { timeoutMs: PROCESSES.removeMs })
    if (given.code !== 0) throw new Error(`${checkout} was not given away: ${given.stderr.trim()}`)
  }
  chmodSync(checkout, 0o750)
  renameSync(checkout, release)
}

/** Inside `shared`, which is the environment's own: made as its user. */
export async function ensureLogFolder(
  paths: EnvironmentPaths,
  account: Account | undefined,
): Promise<void> {
  const log = join(paths.shared, 'log')
  const made = await runProgram([
    ...dropRights(account),
    '/bin/mkdir',
    '-p',
    '-m',
    '0750',
    '--',
    log,
  ])
  if (made.code !== 0) throw new Error(`${log} could not be made: ${made.stderr.trim()}`)
}

/**
 * Whole or not at all. With a reader it is root's, and the account can read it and not change it; without one the mode says
 * who can.
 */
export function writeSecretFile(
  file: string,
  text: string,
  reader: Account | undefined,
  mode = reader ? 0o440 : 0o400,
): void {
  const temporary = `${file}.tmp`
  rmSync(temporary, { force: true })
  const fd = openSync(temporary, 'wx', 0o600)
  try {
    writeFileSync(fd, text)
    if (reader) fchownSync(fd, 0, reader.gid)
    fchmodSync(fd, mode)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  renameSync(temporary, file)
  syncFolder(dirname(file))
}

/** `dir` below `base` after every link was followed; undefined when it leads out or is no folder. */
export function insideFolder(base: string, dir: string): string | undefined {
  try {
    const root = realpathSync(base)
    const path = realpathSync(resolve(root, dir))
    const way = relative(root, path)
    if (way === '..' || way.startsWith(`..${sep}`)) return undefined
    return statSync(path).isDirectory() ? path : undefined
  } catch {
    return undefined
  }
}

export function readLink(link: string): string | undefined {
  try {
    return readlinkSync(link)
  } catch {
    return undefined
  }
}

/** Moves a link in one step: everybody sees the old target or the new one. */
export function moveLink(link: string, target: string): void {
  const temporary = `${link}.tmp`
  rmSync(temporary, { force: true })
  symlinkSync(target, temporary)
  renameSync(temporary, link)
  syncFolder(dirname(link))
}

export const removeLink = (link: string): void => rmSync(link, { force: true })

/** rm walks by descriptor, so a folder that is swapped for a link meanwhile does not lead it out. */
export async function removeTree(path: string): Promise<void> {
  if (!lstatSync(path, { throwIfNoEntry: false })) return // most calls only make sure
  const removed = await runProgram(['rm', '-rf', '--one-file-system', '--', path], {
    timeoutMs: PROCESSES.removeMs,
  })
  if (removed.code !== 0) throw new Error(`${path} could not be removed: ${removed.stderr.trim()}`)
}

export function listFolder(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}
