// Finds a process that exists and does not run: stopped by a signal (SIGSTOP, a debugger). The kernel still accepts
// connections for it, so a check by connection cannot notice it; its state in /proc costs two small reads.
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'

export interface StoppedProcess {
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

/** The first process itself, or all that it waits for, are stopped. Undefined: something of it can run. */
export function findStopped(pid: number, depth = DEPTH): StoppedProcess | undefined {
  const state = stateOf(pid)
  if (state === undefined) return undefined
  if (state === 'T' || state === 't') return { pid, name: nameOf(pid) }
  if (depth === 0) return undefined
  const found = childrenOf(pid).map((child) => findStopped(child, depth - 1))
  return found.every((stopped) => stopped !== undefined) ? found[0] : undefined
}
