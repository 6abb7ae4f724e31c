// Finds who listens on this machine, in the kernel's tables; so a check never occupies a port.
import { readFileSync } from 'node:fs'
import { listListening } from './listening.ts'
import type { Member } from './process-tree.ts'
import { listProcesses, readSocketInodes } from './processes.ts'
import { signalProcess } from './signals.ts'

export interface Listener {
  /** Of the socket; identifies it in /proc/<pid>/fd. */
  inode: string
  uid: number
}

/** TCP sockets that listen on any address of this machine, by port. */
export function listListeners(): Map<number, Listener[]> {
  const found = new Map<number, Listener[]>()
  for (const { port, inode, uid } of listListening('self')) {
    found.set(port, [...(found.get(port) ?? []), { inode, uid }])
  }
  return found
}

export const findListeners = (port: number): Listener[] => listListeners().get(port) ?? []

/** Unix sockets that listen on this path. */
export function findSocketListeners(path: string): Listener[] {
  const ACCEPTING = 0x10000
  return readFileSync('/proc/net/unix', 'latin1')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(
      (f) => f.slice(7).join(' ') === path && (Number.parseInt(f[3] ?? '0', 16) & ACCEPTING) !== 0,
    )
    .map((fields) => ({ inode: fields[6] ?? '', uid: -1 }))
}

/** Whether one of `members` holds one of these sockets. */
export function holdsListener(members: Member[], listeners: Listener[]): boolean {
  const wanted = new Set(listeners.map(({ inode }) => inode))
  return members.some(({ pid }) => [...readSocketInodes(pid)].some((inode) => wanted.has(inode)))
}

/** Ends processes of these accounts that hold one of the sockets; returns their names. */
export function endHolders(listeners: Listener[], accounts: ReadonlySet<number>): string[] {
  const wanted = new Set(listeners.filter(({ uid }) => accounts.has(uid)).map(({ inode }) => inode))
  if (wanted.size === 0) return []
  return listProcesses().flatMap(({ pid, name }) => {
    if (![...readSocketInodes(pid)].some((inode) => wanted.has(inode))) return []
    signalProcess(pid, 'SIGKILL')
    return [`${name} (pid ${pid})`]
  })
}

/** For a message: the name and pid of a process that holds one of these sockets. */
export function nameHolder(listeners: Listener[]): string {
  const wanted = new Set(listeners.map(({ inode }) => inode))
  for (const { pid, name } of listProcesses()) {
    if ([...readSocketInodes(pid)].some((inode) => wanted.has(inode))) return `${name} (pid ${pid})`
  }
  return 'another process'
}
