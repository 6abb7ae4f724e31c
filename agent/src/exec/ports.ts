// Who listens on this machine: from the kernel's tables, so that looking never takes a port away from anybody.
import { readFileSync } from 'node:fs'
import type { Member } from './process-tree.ts'
import { listProcesses, readSocketInodes } from './processes.ts'

export interface Listener {
  /** Of the socket; names it in /proc/<pid>/fd. */
  inode: string
  uid: number
}

const LISTEN = '0A'

function readTable(file: string): string[][] {
  try {
    const lines = readFileSync(file, 'latin1').trim().split('\n').slice(1)
    return lines.map((line) => line.trim().split(/\s+/))
  } catch {
    return []
  }
}

/** TCP sockets, of any address of this machine, that listen on the port. */
export function findListeners(port: number): Listener[] {
  const wanted = port.toString(16).toUpperCase().padStart(4, '0')
  const found: Listener[] = []
  for (const file of ['/proc/net/tcp', '/proc/net/tcp6']) {
    for (const fields of readTable(file)) {
      const isOurs = fields[3] === LISTEN && fields[1]?.endsWith(`:${wanted}`)
      if (isOurs) found.push({ inode: fields[9] ?? '', uid: Number(fields[7]) })
    }
  }
  return found
}

/** Unix sockets that listen under this path. */
export function findSocketListeners(path: string): Listener[] {
  const ACCEPTING = 0x10000
  return readTable('/proc/net/unix')
    .filter(
      (f) => f.slice(7).join(' ') === path && (Number.parseInt(f[3] ?? '0', 16) & ACCEPTING) !== 0,
    )
    .map((fields) => ({ inode: fields[6] ?? '', uid: -1 }))
}

/** Somebody of `members` holds one of these sockets. */
export function holdsListener(members: Member[], listeners: Listener[]): boolean {
  const wanted = new Set(listeners.map(({ inode }) => inode))
  return members.some(({ pid }) => [...readSocketInodes(pid)].some((inode) => wanted.has(inode)))
}

/** For a message: the name and pid of a process that holds one of these sockets. */
export function nameHolder(listeners: Listener[]): string {
  const wanted = new Set(listeners.map(({ inode }) => inode))
  for (const { pid, name } of listProcesses()) {
    if ([...readSocketInodes(pid)].some((inode) => wanted.has(inode))) return `${name} (pid ${pid})`
  }
  return 'another process'
}
