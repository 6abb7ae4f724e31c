// All processes of one command or service, and how to end them: first asked, then killed. A cgroup lists its members
// exactly; without one, /proc is searched (session, group, descendants, marker in the environment).
// Invariant: after an end the tree is empty, or the caller learns how many processes are left.
import { setTimeout as delay } from 'node:timers/promises'
import { PROCESSES } from '../../limits/machine.ts'
import type { Cgroup } from './cgroups.ts'
import { findFamily, readProcess } from './processes.ts'
import { signalProcess } from './signals.ts'

export interface ProcessTree {
  /** Pid of the first process, which leads its own session. */
  root: number
  /** NAME=value that all its processes were started with. */
  marker: string
  cgroup: Cgroup | undefined
  /** Processes of earlier commands that may continue, as `pid:ticks`. */
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

/** Signals the group of the first process, as a terminal or a shell would. */
export function signalGroup(root: number, signal: NodeJS.Signals): void {
  if (root > 1) signalProcess(-root, signal) // 0 and 1 would mean our own group and every process
}

export function signalMembers(members: Member[], signal: NodeJS.Signals): void {
  for (const { pid } of members) signalProcess(pid, signal)
}

/** SIGKILL until none is left. Returns how many remain, which is 0 unless the kernel holds them. */
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
 * Calls `ask` (^C, SIGTERM), waits up to `graceMs` for all processes to end, then sends SIGKILL. The monotonic clock
 * measures the grace period, so a changed wall clock cannot affect it.
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
