// Builds the argv that puts a command of the repository into its cgroup, drops every privilege and runs it as the
// environment's user; starts nothing. The small scripts are constants and get values as arguments, so the shell never
// parses a value. The one exception, by design, is the user's own command, one argument of `/bin/sh -eu -c`.
import { ownNamespaces } from './namespaces.ts'
import { locateProgram, SYSTEM_PATH } from './programs.ts'

export interface Account {
  name: string
  uid: number
  gid: number
}

/**
 * Joins the cgroups named before `--`, still as root, then execs the rest. The first one lists the members and must
 * be joined; the others only bound memory and cpu.
 */
const JOIN =
  'echo 0 >"$1" || exit 125; shift; while [ "$1" != -- ]; do echo 0 2>/dev/null >"$1"; shift; done; shift; exec "$@"'

/**
 * Runs as the user already. Reads the variables from their file here, because in the environment of a process that is
 * still root LD_PRELOAD would run as root. Then sets folder and umask, and leaves no input.
 */
const ENTER =
  'umask "$1"; shift; set -a; . "$1" || exit 126; set +a; cd -- "$2" || exit 126; unset OLDPWD; shift 2; exec "$@" </dev/null'

/**
 * Runs as root, in namespaces of its own. The environment's temporary folder replaces the machine's world-writable
 * folders, shared memory is new and empty, and the home folders of people are hidden.
 */
const HIDE = [
  'own=$1; queues=$2; shift 2',
  'while [ "$1" != -- ]; do mount --bind "$own" "$1" || exit 125; shift; done; shift',
  '[ ! -d /home ] || mount -t tmpfs -o ro,size=4k,mode=0755 berth-hidden /home || exit 125',
  '[ ! -d /dev/shm ] || mount -t tmpfs -o nosuid,nodev,mode=1777 berth-memory /dev/shm || exit 125',
  // without an ipc namespace of its own, a new mount would still show the machine's queues
  '[ ! -d /dev/mqueue ] || { [ "$queues" = new ] && mount -t mqueue berth-queues /dev/mqueue 2>/dev/null; } || mount -t tmpfs -o ro,size=4k berth-hidden /dev/mqueue || exit 125',
  'unset own queues; exec "$@"',
].join('; ')

/** A folder below one of these would be hidden from its own command. */
const HIDDEN = ['/tmp/', '/var/tmp/', '/home/', '/dev/']

/** What a command sees in place of world-writable folders. */
interface OwnPaths {
  /** Of the environment; shown to the command as /tmp. */
  temporary: string
  /** Of the machine (users/shared-paths.ts). */
  instead: readonly string[]
}

/** Empty when the machine does not allow it, or when the folder itself would be hidden (development). */
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

/** Empty when this machine has no cgroups. */
export const joinGroups = (files: readonly string[]): string[] =>
  files.length > 0 ? ['/bin/sh', '-c', JOIN, 'berth-join', ...files, '--'] : []

/** Drops every privilege but those of the account. Without an account (development), only prevents regaining any. */
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
 * On a terminal, the exit of the command hangs up on everything it started, also on an application that is about to
 * detach itself. Without this line `nohup app &` would be a race.
 */
const ENTER_TERMINAL = `trap '' HUP; ${ENTER}`

interface Confinement {
  account: Account | undefined
  cgroupFiles: string[]
  directory: string
  paths?: OwnPaths | undefined
  /** Shell form; readable by the account. */
  variablesFile: string
  /** Overrides the file; comes from the repository, so a list of processes may show it. */
  additions: Readonly<Record<string, string>>
  hasTerminal: boolean
  /** It may serve a socket to the proxy, which connects through the group of the folder. */
  offersSocket?: boolean
}

/** The user's own command as exactly one argv element, in its folder and with its privileges. */
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

/** The initial environment of a command, only Berth's own variables; the others follow when privileges are dropped. */
export const baseEnvironment = (paths: CommandPaths): Record<string, string> => ({
  PATH: `${paths.environmentDir}/bin:${SYSTEM_PATH}`,
  // root owns the environment's folder, so that no application replaces `current`; tools need a writable home
  HOME: `${paths.environmentDir}/home`,
  LANG: 'C.UTF-8',
  BERTH_RELEASE_DIR: paths.releaseDir,
  BERTH_SHARED_DIR: `${paths.environmentDir}/shared`,
  BERTH_LOG_DIR: `${paths.environmentDir}/shared/log`,
  BERTH_SOCKET_DIR: paths.socketDir,
  BERTH_COMMIT: paths.commit,
  BERTH_VARIABLES_FILE: paths.variablesFile,
})

/** Among the additions, which are set after the rights are dropped: the environment's account can write there. */
export const toolPath = (
  { PATH = SYSTEM_PATH }: Readonly<Record<string, string>>,
  folders: readonly string[],
): Record<string, string> => (folders.length > 0 ? { PATH: [...folders, PATH].join(':') } : {})
