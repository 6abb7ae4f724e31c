// Folders and files of an environment. Root creates only what is in folders that root owns; inside a folder that the
// environment's user can write, that user performs every operation, so a planted link gains nothing.
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
import { PROCESSES } from '../limits/machine.ts'
import { type AgentSettings, environmentDir } from '../settings.ts'
import { syncFolder } from './atomic-files.ts'
import { type Account, dropRights } from './process/confinement.ts'
import { runProgram } from './process/programs.ts'

export interface EnvironmentPaths {
  /** 0710 root:<account>. Never writable by the environment. */
  dir: string
  /** 0710 root:<account of git>. Nothing below it ever belonged to an environment's account, and none can enter it. */
  git: string
  repository: string
  /** Where git writes the files of a commit; once complete, they become a release. */
  checkout: string
  /** Made by earlier versions. It belonged to the environment's account, so nothing in it is used again. */
  formerRepository: string
  shared: string
  home: string
  /** What its commands see as /tmp; private to them. */
  temporary: string
  releases: string
  variables: string
  bin: string
  current: string
  sockets: string
  logs: string
  /** Copies of what actions left, accessible to root alone; a reset keeps them. */
  artifacts: string
  /** Copies of static roots, <service>/<task>; the proxy reads them, and only root writes them. */
  statics: string
  /** Backups of its data on this server's disk, accessible to root alone; a reset keeps them. */
  backups: string
}

export function environmentPaths(s: AgentSettings, environmentId: number): EnvironmentPaths {
  const dir = environmentDir(s, environmentId)
  // beside the environments, so that a rename turns a checkout into a release
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
    backups: join(s.stateDir, 'backups', `e${environmentId}`),
  }
}

/** Every path of an environment on this server's disks; if none exists, the environment left nothing behind. */
export const allPaths = (s: AgentSettings, environmentId: number): string[] => {
  const { dir, git, sockets, logs, artifacts, statics, backups } = environmentPaths(
    s,
    environmentId,
  )
  return [
    dir,
    git,
    sockets,
    logs,
    artifacts,
    statics,
    backups,
    join(s.runDir, 'services', `e${environmentId}`),
  ]
}

/**
 * The folders that accounts of environments pass through on the way to their own: all may enter them, only root may
 * list them. Also repairs folders that an earlier version, or a shell with a strict umask, left closed.
 */
export function ensureStateFolders({ stateDir, runDir }: AgentSettings): void {
  for (const folder of [stateDir, runDir, join(stateDir, 'environments')]) {
    mkdirSync(folder, { recursive: true, mode: 0o711 })
    const mode = statSync(folder).mode & 0o7777
    if ((mode & 0o111) !== 0o111) chmodSync(folder, mode | 0o111)
  }
}

/** Makes or corrects one folder; without `owner`, the owner stays (root or the developer). */
export function ensureFolder(
  folder: string,
  mode: number,
  owner?: { uid: number; gid: number },
): void {
  mkdirSync(folder, { recursive: true, mode })
  if (owner) lchownSync(folder, owner.uid, owner.gid)
  chmodSync(folder, mode)
}

/** The part that root (or the developer) makes; the environment cannot write to the parents of these folders. */
export function ensureEnvironmentFolders(
  paths: EnvironmentPaths,
  account: Account | undefined,
  /** The group through which the proxy reaches sockets. */
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
  // setgid: a socket gets the group of the folder, no matter which process makes it
  const shared = account && webGroup !== undefined && { uid: account.uid, gid: webGroup }
  ensureFolder(paths.sockets, shared ? 0o2750 : 0o750, shared || theirs)
}

/** Where copies of static roots go; root and the proxy can read it, other environments cannot. */
export function ensureStaticFolder(folder: string, webGroup: number | undefined): void {
  mkdirSync(dirname(folder), { recursive: true, mode: 0o711 })
  ensureFolder(folder, 0o750, webGroup === undefined ? undefined : { uid: 0, gid: webGroup })
}

/** For docker: only root reads the variables, and only the engine works here. */
export function ensureDockerFolders(paths: EnvironmentPaths, isOwned: boolean): void {
  mkdirSync(dirname(paths.dir), { recursive: true, mode: 0o711 })
  ensureFolder(paths.dir, 0o710)
  ensureFolder(paths.releases, 0o710)
  ensureFolder(paths.variables, 0o700, isOwned ? { uid: 0, gid: 0 } : undefined)
}

/** Where git works, under an account of its own. Removes a repository that another account made. */
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
 * Turns the files of a checkout into a release of `account`. Until the rename only root can enter the folder, so no
 * other process can change the files while they are chowned; chown follows no link.
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

/** Made as the environment's user, because it is inside `shared`, which that user owns. */
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

/** Atomic. With a reader, root owns the file and the account can only read it; without one, the mode decides. */
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

/** `dir` below `base` with all links resolved; undefined when it leads outside or is no folder. */
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

/** Moves a link atomically; readers see the old target or the new one. */
export function moveLink(link: string, target: string): void {
  const temporary = `${link}.tmp`
  rmSync(temporary, { force: true })
  symlinkSync(target, temporary)
  renameSync(temporary, link)
  syncFolder(dirname(link))
}

export const removeLink = (link: string): void => rmSync(link, { force: true })

/** rm walks by descriptor, so a folder that is swapped for a link meanwhile cannot lead it outside. */
export async function removeTree(path: string): Promise<void> {
  if (!lstatSync(path, { throwIfNoEntry: false })) return // usually there is nothing to remove
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
