// Finds and ends everything that an environment still runs on this machine, however it was started: under its account,
// in one of its cgroups, or with its folder in the initial environment.
// Invariant: processes of another environment, of Berth or of a person are never among them.
import { setTimeout as delay } from 'node:timers/promises'
import { PROCESSES } from '../../limits/machine.ts'
import { Cgroup, detectCgroups, listCgroups } from './cgroups.ts'
import { signalMembers } from './process-tree.ts'
import { hasMarker, listProcesses, type ProcessFacts, readOwner } from './processes.ts'

export interface Belonging {
  /** For example berth-e101; the names of its cgroups begin with it and a dash. */
  name: string
  /** Of its account; undefined when it has none. Never root's. */
  uid: number | undefined
  /** `BERTH_SHARED_DIR=…`, which all its commands and services were started with. */
  marker: string
}

const groupsOf = ({ name }: Belonging): Cgroup[] => {
  const host = detectCgroups()
  return listCgroups(host, `${name}-`).flatMap((found) => Cgroup.create(host, found) ?? [])
}

/** This process and its ancestors (the shell, sudo), regardless of their environment. */
export function ownLine(all: ProcessFacts[]): Set<number> {
  const parents = new Map(all.map(({ pid, parent }) => [pid, parent]))
  const line = new Set<number>()
  for (let pid = process.pid; pid > 1 && !line.has(pid); pid = parents.get(pid) ?? 0) line.add(pid)
  return line
}

export function listLeftovers(of: Belonging): ProcessFacts[] {
  const all = listProcesses()
  const spared = ownLine(all)
  const grouped = new Set(groupsOf(of).flatMap((group) => group.members()))
  const uid = of.uid || undefined // 0 would match every process of root
  return all.filter(({ pid }) => {
    if (spared.has(pid) || pid <= 1) return false
    if (grouped.has(pid) || hasMarker(pid, of.marker)) return true
    return uid !== undefined && readOwner(pid) === uid
  })
}

/** SIGTERM, the grace period, SIGKILL until none is left; removes the cgroups too. Returns the survivors. */
export async function endLeftovers(of: Belonging, graceMs: number): Promise<ProcessFacts[]> {
  signalMembers(listLeftovers(of), 'SIGTERM')
  const until = performance.now() + graceMs
  while (performance.now() < until && listLeftovers(of).length > 0) {
    await delay(PROCESSES.endPollMs)
  }
  for (let round = 0; round < PROCESSES.killRounds; round += 1) {
    const left = listLeftovers(of)
    if (left.length === 0) break
    signalMembers(left, 'SIGKILL')
    await delay(PROCESSES.endPollMs)
  }
  const left = listLeftovers(of)
  for (const group of groupsOf(of)) group.remove()
  return left
}

/** Names of its cgroups that still exist. */
export const listGroups = ({ name }: Belonging): string[] =>
  listCgroups(detectCgroups(), `${name}-`)
