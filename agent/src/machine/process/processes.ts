// Reads /proc: which processes are alive, when they started, on which boot, and which ones belong to one command.
// Nothing here starts or ends a process.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { basename } from 'node:path'

export interface ProcessFacts {
  pid: number
  parent: number
  group: number
  session: number
  /** Together with the pid, identifies one process of this boot. */
  startTicks: string
  name: string
}

/** Undefined when there is no such process, or it is a zombie. */
export function readProcess(pid: number): ProcessFacts | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // the command name is in parentheses and may contain spaces and parentheses itself
    const close = stat.lastIndexOf(')')
    const fields = stat.slice(close + 2).split(' ')
    if (fields[0] === 'Z' || fields[0] === 'X') return undefined
    return {
      pid,
      parent: Number(fields[1]),
      group: Number(fields[2]),
      session: Number(fields[3]),
      startTicks: fields[19] ?? '',
      name: stat.slice(stat.indexOf('(') + 1, close),
    }
  } catch {
    return undefined
  }
}

/** Stopped by a signal; also true when it has ended. */
export function isHalted(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return /^[TtZX]/.test(stat.slice(stat.lastIndexOf(')') + 2))
  } catch {
    return true
  }
}

/** Field 22 of /proc/<pid>/stat; undefined when there is no such process. */
export const readStartTicks = (pid: number): string | undefined => readProcess(pid)?.startTicks

export const isSameProcess = (pid: number, startTicks: string): boolean =>
  pid > 0 && readStartTicks(pid) === startTicks

/** Changes with each boot. */
export const readBootId = (): string =>
  readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()

export function listProcesses(): ProcessFacts[] {
  const found: ProcessFacts[] = []
  for (const name of readdirSync('/proc')) {
    if (!/^[0-9]+$/.test(name)) continue
    const facts = readProcess(Number(name))
    if (facts) found.push(facts)
  }
  return found
}

/** Whether the process was started with `NAME=value` in its environment. */
export function hasMarker(pid: number, marker: string): boolean {
  try {
    return `\0${readFileSync(`/proc/${pid}/environ`, 'latin1')}\0`.includes(`\0${marker}\0`)
  } catch {
    return false
  }
}

/** Real user id; undefined when the process has ended. */
export function readOwner(pid: number): number | undefined {
  try {
    const uid = /^Uid:\t([0-9]+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]
    return uid === undefined ? undefined : Number(uid)
  } catch {
    return undefined
  }
}

/** Inode numbers of the sockets a process holds. */
export function readSocketInodes(pid: number): Set<string> {
  const inodes = new Set<string>()
  try {
    for (const fd of readdirSync(`/proc/${pid}/fd`)) {
      try {
        const match = /^socket:\[([0-9]+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))
        if (match) inodes.add(match[1] as string)
      } catch {
        // closed meanwhile
      }
    }
  } catch {
    // ended meanwhile
  }
  return inodes
}

/**
 * All processes of one command: its session, its group, its descendants, and those with its marker in their
 * environment. Never contains the caller or its ancestors.
 */
export function findFamily(root: number, marker: string): ProcessFacts[] {
  const all = listProcesses()
  const byPid = new Map(all.map((facts) => [facts.pid, facts]))
  const spared = new Set<number>()
  for (let pid = process.pid; pid > 1 && !spared.has(pid); pid = byPid.get(pid)?.parent ?? 0) {
    spared.add(pid)
  }
  const family = new Set<number>()
  for (const { pid, group, session } of all) {
    const isOurs = pid === root || group === root || session === root || hasMarker(pid, marker)
    if (isOurs) family.add(pid)
  }
  for (let grew = true; grew; ) {
    grew = false
    for (const { pid, parent } of all) {
      if (!family.has(parent) || family.has(pid)) continue
      family.add(pid)
      grew = true
    }
  }
  return all.filter(({ pid }) => family.has(pid) && !spared.has(pid) && pid > 1)
}

interface StoppedProcess {
  pid: number
  name: string
}

/** Shells and inits around a program; deeper trees are the program's own business. */
const DEPTH = 4

/** The length of a name in a message; the process chooses it. */
const NAME_LENGTH = 40

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return undefined // ended meanwhile
  }
}

function stateOf(pid: number): string | undefined {
  const stat = read(`/proc/${pid}/stat`)
  return stat?.[stat.lastIndexOf(')') + 2]
}

/** Of its program; the name in its state may be that of a thread. */
const nameOf = (pid: number): string =>
  basename(read(`/proc/${pid}/cmdline`)?.split('\0')[0] ?? '')
    .replaceAll(/[^\x21-\x7e]/g, '?')
    .slice(0, NAME_LENGTH)

/** Empty also where the kernel does not offer it. */
function childrenOf(pid: number): number[] {
  const text = read(`/proc/${pid}/task/${pid}/children`)?.trim() ?? ''
  return text === '' ? [] : text.split(' ').map(Number)
}

/**
 * Finds a process that exists and cannot run: stopped by a signal (SIGSTOP, a debugger), itself or all that it waits
 * for. The kernel still accepts connections for it. Undefined: something of it can run.
 */
export function findStopped(pid: number, depth = DEPTH): StoppedProcess | undefined {
  const state = stateOf(pid)
  if (state === undefined) return undefined
  if (state === 'T' || state === 't') return { pid, name: nameOf(pid) }
  if (depth === 0) return undefined
  const found = childrenOf(pid).map((child) => findStopped(child, depth - 1))
  return found.every((stopped) => stopped !== undefined) ? found[0] : undefined
}
