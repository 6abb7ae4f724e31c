// Finds a process that exists and does not run: stopped by a signal (SIGSTOP, a debugger). The kernel still accepts
// connections for it, so a check by connection cannot notice it; its state in /proc costs two small reads.
import { readFileSync } from 'node:fs'

export interface StoppedProcess {
  pid: number
  name: string
}

/** Shells and inits around a program; deeper trees are the program's own business. */
const DEPTH = 4

function readState(pid: number): { state: string; name: string } | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const close = stat.lastIndexOf(')')
    return { state: stat[close + 2] ?? '', name: stat.slice(stat.indexOf('(') + 1, close) }
  } catch {
    return undefined
  }
}

function childrenOf(pid: number): number[] {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim()
    return text === '' ? [] : text.split(' ').map(Number)
  } catch {
    return [] // ended meanwhile, or the kernel does not offer it
  }
}

/** The first process itself, or all that it waits for, are stopped. Undefined: something of it can run. */
export function findStopped(pid: number, depth = DEPTH): StoppedProcess | undefined {
  const seen = readState(pid)
  if (!seen) return undefined
  if (seen.state === 'T' || seen.state === 't') return { pid, name: seen.name }
  if (depth === 0) return undefined
  const found = childrenOf(pid).map((child) => findStopped(child, depth - 1))
  return found.every((stopped) => stopped !== undefined) ? found[0] : undefined
}
