// How a command of the repository is started: which argv puts it into its cgroup, takes every right away and runs it
// as the environment's user. Builds argv, starts nothing. The small scripts are constants; what varies travels as
// their arguments, so no value is ever read as shell text. The one exception by design is the user's own command, one
// argument of `/bin/sh -eu -c`.
import { ownNamespaces } from './namespaces.ts'
import { locateProgram, SYSTEM_PATH } from './programs.ts'

export interface Account {
  name: string
  uid: number
  gid: number
}

/**
 * Joins the cgroups named before `--`, still as root, then becomes the rest. The first one names the members and must
 * be joined; the others only bound memory and cpu.
 */
const JOIN =
  'echo 0 >"$1" || exit 125; shift; while [ "$1" != -- ]; do echo 0 2>/dev/null >"$1"; shift; done; shift; exec "$@"'

/**
 * As the user already: the variables (read from their file here, so that no variable of anybody is in the environment
 * of a process that still has rights: LD_PRELOAD would run as root), then folder, umask, and nothing to read.
 */
const ENTER =
  'umask "$1"; shift; set -a; . "$1" || exit 126; set +a; cd -- "$2" || exit 126; unset OLDPWD; shift 2; exec "$@" </dev/null'

/**
 * Still as root, in namespaces of its own: the folders of the machine that everybody may write to are the environment's own
 * temporary one, shared memory is new and empty, and there is nothing in the homes of people.
 */
const HIDE = [
  'own=$1; queues=$2; shift 2',
  'while [ "$1" != -- ]; do mount --bind "$own" "$1" || exit 125; shift; done; shift',
  '[ ! -d /home ] || mount -t tmpfs -o ro,size=4k,mode=0755 berth-hidden /home || exit 125',
  '[ ! -d /dev/shm ] || mount -t tmpfs -o nosuid,nodev,mode=1777 berth-memory /dev/shm || exit 125',
  // queues of the machine's own would still be seen there, whatever else is of this command alone
  '[ ! -d /dev/mqueue ] || { [ "$queues" = new ] && mount -t mqueue berth-queues /dev/mqueue 2>/dev/null; } || mount -t tmpfs -o ro,size=4k berth-hidden /dev/mqueue || exit 125',
  'unset own queues; exec "$@"',
].join('; ')

/** Where a folder below would vanish from the view of its own command. */
const HIDDEN = ['/tmp/', '/var/tmp/', '/home/', '/dev/']

/** What a command gets in the place of folders that everybody may write to. */
export interface OwnPaths {
  /** Of the environment; shown to the command as /tmp. */
  temporary: string
  /** Of the machine (shared-paths.ts). */
  instead: readonly string[]
}

/** Empty where the machine does not allow it, or where the folder itself would be hidden (development). */
export function ownPaths(paths: OwnPaths | undefined): string[] {
  const { temporary, instead } = paths ?? { temporary: '/tmp/', instead: [] }
  if (HIDDEN.some((hidden) => temporary.startsWith(hidden))) return []
  const unshare = locateProgram('unshare')
  const kinds = unshare ? ownNamespaces(unshare) : []
  if (!unshare || kinds.length === 0) return []
  const queues = kinds.includes('--ipc') ? 'new' : 'none'
  const hide = ['/bin/sh', '-c', HIDE, 'berth-hide', temporary, queues, ...instead, '--']
  return [unshare, ...kinds, '--', ...hide]
}

/** Empty where this machine has no groups. */
export const joinGroups = (files: readonly string[]): string[] =>
  files.length > 0 ? ['/bin/sh', '-c', JOIN, 'berth-join', ...files, '--'] : []

/** Removes every right but those of the account. Without an account (development) only the way back up is closed. */
export function dropRights(account: Account | undefined): string[] {
  const setpriv = locateProgram('setpriv')
  if (!setpriv) {
    if (account) throw new Error('setpriv is not installed.')
    return []
  }
  if (!account) return [setpriv, '--no-new-privs', '--']
  return [
    setpriv,
    `--reuid=${account.uid}`,
    `--regid=${account.gid}`,
    '--clear-groups',
    '--no-new-privs',
    '--inh-caps=-all',
    '--bounding-set=-all',
    '--',
  ]
}

/**
 * With a terminal, the end of the command hangs up on everything it started, also on an application that is just
 * about to detach itself. Without this line `nohup app &` would be a race.
 */
const ENTER_TERMINAL = `trap '' HUP; ${ENTER}`

export interface Confinement {
  account: Account | undefined
  cgroupFiles: string[]
  directory: string
  paths?: OwnPaths | undefined
  /** Shell form; readable by the account. */
  variablesFile: string
  /** Stronger than the file; from the repository, so it may be seen in a list of processes. */
  additions: Readonly<Record<string, string>>
  hasTerminal: boolean
  /** It may offer a socket to the proxy, which connects as the group of the folder. */
  offersSocket?: boolean
}

/** The user's own command, exactly one argv element, in its folder and with its rights. */
export function confineCommand(command: string, inside: Confinement): string[] {
  const additions = Object.entries(inside.additions).map(([key, value]) => `${key}=${value}`)
  const env = locateProgram('env') ?? '/usr/bin/env'
  return [
    ...joinGroups(inside.cgroupFiles),
    ...(inside.account ? ownPaths(inside.paths) : []),
    ...dropRights(inside.account),
    ...['/bin/sh', '-c', inside.hasTerminal ? ENTER_TERMINAL : ENTER, 'berth-enter'],
    ...[inside.offersSocket ? '0007' : '0027', inside.variablesFile, inside.directory],
    ...(additions.length > 0 ? [env, ...additions] : []),
    ...['/bin/sh', '-eu', '-c', command],
  ]
}

export interface CommandPaths {
  environmentDir: string
  releaseDir: string
  socketDir: string
  variablesFile: string
  commit: string
}

/** What a command starts with: Berth's own words only. The variables are added when the rights are gone. */
export const baseEnvironment = (paths: CommandPaths): Record<string, string> => ({
  PATH: `${paths.environmentDir}/bin:${SYSTEM_PATH}`,
  // the environment's own folder belongs to root, so that no application replaces `current`; tools want to write
  HOME: `${paths.environmentDir}/home`,
  LANG: 'C.UTF-8',
  BERTH_RELEASE_DIR: paths.releaseDir,
  BERTH_SHARED_DIR: `${paths.environmentDir}/shared`,
  BERTH_LOG_DIR: `${paths.environmentDir}/shared/log`,
  BERTH_SOCKET_DIR: paths.socketDir,
  BERTH_COMMIT: paths.commit,
  BERTH_VARIABLES_FILE: paths.variablesFile,
})
