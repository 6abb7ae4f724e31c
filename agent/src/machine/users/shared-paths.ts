// Folders of this machine that every account may write to. Two environments could meet there, and the next account with
// the same uid would own what one leaves. A command sees the environment's own temporary folder in their place
// (process/confinement.ts); files that an account left there nevertheless are removed with its environment.
// Deliberately absent: /srv, /mnt, /media and separate disks, where a world-writable folder was opened on purpose.
import { readFileSync, realpathSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { PROCESSES } from '../../limits/machine.ts'
import { MAINTENANCE } from '../../limits/maintenance.ts'
import type { AgentSettings } from '../../settings.ts'
import { replaceFile } from '../atomic-files.ts'
import { locateProgram, type ProgramResult, runProgram } from '../process/programs.ts'

/** Always checked, also before the first search of the machine. */
const KNOWN = ['/tmp', '/var/tmp', '/run/lock', '/var/lock', '/var/crash']
const AREAS = ['/run', '/var', '/dev', '/usr', '/opt', '/etc']
/** Closed to the accounts of this machine, and some of them are large. */
const CLOSED = ['/var/lib/docker', '/var/lib/containerd', '/run/docker', '/run/containerd']
/** In memory; a command gets new ones instead (process/confinement.ts). */
const SHARED_MEMORY = ['/dev/shm', '/dev/mqueue']

const listFile = ({ runDir }: Pick<AgentSettings, 'runDir'>): string =>
  join(runDir, 'shared-paths.json')

type PathSettings = Pick<AgentSettings, 'runDir' | 'stateDir'>

/** The daemon searches and stores the result, because other processes start commands and must not wait for a search. */
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
  // find exits with 1 when a folder was removed meanwhile; what it saw counts
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
    return [] // no search since the machine started
  }
}

const holds = (folder: string, path: string): boolean => `${path}/`.startsWith(`${folder}/`)

/** Those that exist now, without links. */
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

/** Those that can be replaced in a command's view; never one that contains the agent's own folders. */
export const sharedPaths = (settings: PathSettings): string[] =>
  sharedFolders(settings).filter(
    (place) => !holds(place, settings.stateDir) && !holds(place, settings.runDir),
  )

const KINDS = { shm: '-m', sem: '-s', msg: '-q' } as const

/** System V segments, semaphores and queues; they outlive every process. */
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
 * Removes everything an account owns in the shared folders, after its last process ended. Below the first level, files
 * may be in a folder of another account, so `find` removes them by descriptor and resolves no path twice.
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
