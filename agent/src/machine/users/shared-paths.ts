// Folders of this machine that every account may write to: there two environments could meet, and what one leaves would
// belong to the next account of its number. A command sees the environment's own temporary folder in their place
// (confinement.ts); whatever an account left there all the same goes with its environment.
// Deliberately absent: /srv, /mnt, /media and disks of their own. A folder that is open to everybody there was opened on purpose.
import { readFileSync, realpathSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { MAINTENANCE, PROCESSES } from '@berth/shared'
import type { AgentSettings } from '../../settings.ts'
import { replaceFile } from '../atomic-files.ts'
import { locateProgram, type ProgramResult, runProgram } from '../process/programs.ts'

/** Looked at in any case, before anybody has searched the machine. */
const KNOWN = ['/tmp', '/var/tmp', '/run/lock', '/var/lock', '/var/crash']
const AREAS = ['/run', '/var', '/dev', '/usr', '/opt', '/etc']
/** Nothing in them is for accounts of this machine; some are large. */
const CLOSED = ['/var/lib/docker', '/var/lib/containerd', '/run/docker', '/run/containerd']
/** Memory: a command gets new ones instead (confinement.ts). */
export const SHARED_MEMORY = ['/dev/shm', '/dev/mqueue']

const listFile = ({ runDir }: Pick<AgentSettings, 'runDir'>): string =>
  join(runDir, 'shared-paths.json')

type PathSettings = Pick<AgentSettings, 'runDir' | 'stateDir'>

/** The daemon searches and notes what it found: commands are started by other processes, and must not wait for it. */
export async function searchSharedPaths(settings: PathSettings): Promise<void> {
  const closed = [...CLOSED, ...SHARED_MEMORY, settings.stateDir, settings.runDir]
  const skipped = closed.flatMap((folder) => ['-path', folder, '-o']).slice(0, -1)
  const argv = [
    'find',
    ...AREAS.filter(isFolder),
    '-xdev',
    '-maxdepth',
    String(MAINTENANCE.searchDepth),
  ]
  argv.push('(', ...skipped, ')', '-prune', '-o')
  argv.push('-type', 'd', '-perm', '-0002', '-print0', '-prune')
  const found = await runProgram(argv, { timeoutMs: MAINTENANCE.searchMs })
  // a folder that went meanwhile makes it say 1; what was seen counts
  if (found.timedOut || found.overflow) throw new Error('the search took too long')
  const names = found.stdout.toString('utf8').split('\0').filter(Boolean)
  replaceFile(listFile(settings), JSON.stringify(names))
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}

function noted(settings: PathSettings): string[] {
  try {
    const list: unknown = JSON.parse(readFileSync(listFile(settings), 'utf8'))
    return Array.isArray(list) ? list.filter((name) => typeof name === 'string') : []
  } catch {
    return [] // nobody has searched since the machine started
  }
}

const holds = (folder: string, path: string): boolean => `${path}/`.startsWith(`${folder}/`)

/** As they are now, without links. */
function sharedFolders(settings: PathSettings): string[] {
  const real = [...KNOWN, ...noted(settings)].flatMap((path) => {
    try {
      const found = realpathSync(path)
      const { mode } = statSync(found)
      return isFolder(found) && (mode & 0o002) !== 0 ? [found] : []
    } catch {
      return [] // not on this machine
    }
  })
  return [...new Set(real)]
}

/** Those in whose place a command can see another folder; never one that holds the agent's own. */
export const sharedPaths = (settings: PathSettings): string[] =>
  sharedFolders(settings).filter(
    (place) => !holds(place, settings.stateDir) && !holds(place, settings.runDir),
  )

const KINDS = { shm: '-m', sem: '-s', msg: '-q' } as const

/** Segments, semaphores and queues of System V: they outlive every process. */
function ownedObjects(uid: number): string[] {
  return Object.entries(KINDS).flatMap(([kind, option]) => {
    let lines: string[][]
    try {
      const text = readFileSync(`/proc/sysvipc/${kind}`, 'latin1')
      lines = text.split('\n').map((line) => line.trim().split(/\s+/))
    } catch {
      return [] // this kernel has none
    }
    const [head = [], ...rows] = lines
    const owners = [head.indexOf('uid'), head.indexOf('cuid')]
    const own = rows.filter((row) => owners.some((at) => row[at] === String(uid)))
    return own.flatMap((row) => [option, row[1] ?? ''])
  })
}

/**
 * Removes everything of an account from the shared places. Nothing of the account runs any more. What lies deeper than the
 * first level may lie in a folder of somebody else: `find` removes it by descriptor, no path is looked up again.
 */
export async function clearShared(settings: PathSettings, uid: number): Promise<string[]> {
  if (!(uid > 0)) return []
  const folders = [...sharedFolders(settings), ...SHARED_MEMORY.filter(isFolder)]
  const own = ['-uid', String(uid)]
  const first = ['-xdev', '-mindepth', '1', '-maxdepth', '1', ...own]
  const remove = ['-exec', '/bin/rm', '-rf', '--one-file-system', '--', '{}', '+']
  const bound = { timeoutMs: PROCESSES.removeMs }
  const done: ProgramResult[] = [
    await runProgram(['find', ...folders, ...first, ...remove], bound),
    await runProgram(['find', ...folders, '-xdev', '-mindepth', '2', ...own, '-delete'], bound),
  ]
  const objects = ownedObjects(uid)
  if (objects.length > 0 && locateProgram('ipcrm')) {
    done.push(await runProgram(['ipcrm', ...objects]))
  }
  return done.filter(({ code }) => code !== 0).map(({ stderr }) => stderr.trim().slice(0, 500))
}
