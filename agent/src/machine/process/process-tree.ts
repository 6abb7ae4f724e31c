// Everything that came out of one command or service, and its end: asked first, then made to. A cgroup names its
// members exactly; without one, /proc is searched (session, group, descendants, marker in the environment).
// Invariant: a tree that was ended is empty, or the caller is told how many are left.
import { setTimeout as delay } from 'node:timers/promises'
import { PROCESSES } from '@berth/shared'
import type { Cgroup } from './cgroups.ts'
import { findFamily, readProcess } from './processes.ts'

export interface ProcessTree {
  /** Pid of the first process, which leads its own session. */
  root: number
  /** NAME=value that every process of it was started with. */
  marker: string
  cgroup: Cgroup | undefined
  /** Processes of earlier commands that go on by right, as `pid:ticks`. */
  spared: ReadonlySet<string>
}

export interface Member {
  pid: number
  startTicks: string
}

export const memberKey = (member: Member): string => `${member.pid}:${member.startTicks}`

export function listTree(tree: ProcessTree): Member[] {
  const found = tree.cgroup
    ? tree.cgroup.members().flatMap((pid) => readProcess(pid) ?? [])
    : findFamily(tree.root, tree.marker)
  return found.filter((member) => !tree.spared.has(memberKey(member)))
}

/** To the group of the first process: what a terminal or a shell would do. */
export function signalGroup(root: number, signal: NodeJS.Signals): void {
  if (root <= 1) return // 0 and 1 would mean our own group and everybody
  try {
    process.kill(-root, signal)
  } catch {
    // gone already
  }
}

export function signalMembers(members: Member[], signal: NodeJS.Signals): void {
  for (const { pid } of members) {
    try {
      process.kill(pid, signal)
    } catch {
      // gone already
    }
  }
}

/** SIGKILL until nobody is left. Returns how many still are, which is none unless the kernel holds them. */
export async function killTree(tree: ProcessTree): Promise<number> {
  if (tree.cgroup) {
    await tree.cgroup.kill()
    return listTree(tree).length
  }
  for (let round = 0; round < PROCESSES.killRounds; round += 1) {
    const members = listTree(tree)
    if (members.length === 0) return 0
    signalMembers(members, 'SIGKILL')
    await delay(PROCESSES.endPollMs)
  }
  return listTree(tree).length
}

/**
 * The ladder: `ask` (^C, SIGTERM), then up to `graceMs` for everybody to end, then SIGKILL. The grace is measured on
 * the monotonic clock, so a changed wall clock neither shortens nor prolongs it.
 */
export async function endTree(
  tree: ProcessTree,
  graceMs: number,
  ask: () => void,
): Promise<number> {
  ask()
  const until = performance.now() + graceMs
  while (performance.now() < until) {
    if (listTree(tree).length === 0) return 0
    await delay(PROCESSES.endPollMs)
  }
  return killTree(tree)
}
