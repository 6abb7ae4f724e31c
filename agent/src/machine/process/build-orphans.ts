// Finds build commands whose engine was killed; they keep running, with their mounts, and no process waits for them.
// Three facts together identify one: its root is an overlay in the engine's data, its cgroup is one of BuildKit's, and
// its parent is gone. Containers lack the last two; a build in progress lacks the last.
import { readFileSync } from 'node:fs'
import { isSameProcess, listProcesses, type ProcessFacts } from './processes.ts'
import { signalProcess } from './signals.ts'

interface BuildOrphan {
  /** Identifies the file system of the one command that these processes belong to. */
  root: string
  members: ProcessFacts[]
  /** Milliseconds since the epoch. */
  startedAt: number
}

const TICKS_PER_SECOND = 100 // on every Linux that Node runs on

const readOf = (pid: number, file: string): string => {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return '' // ended meanwhile, or not readable for us
  }
}

/** The path of the writable layer of the process's root; undefined when the root is no overlay. */
function upperFolder(mountinfo: string): string | undefined {
  const line = mountinfo.split('\n').find((text) => text.split(' ')[4] === '/')
  return /[ ,]upperdir=([^, ]+)/.exec(line ?? '')?.[1]
}

const startOf = ({ startTicks }: ProcessFacts): number => {
  const sinceBoot = Number(process.hrtime.bigint() / 1_000_000n)
  return Date.now() - sinceBoot + (Number(startTicks) * 1_000) / TICKS_PER_SECOND
}

export function findBuildOrphans(dataRoot: string): BuildOrphan[] {
  const builds = new Map<string, ProcessFacts[]>()
  for (const facts of listProcesses()) {
    if (!/\/buildkit\//.test(readOf(facts.pid, 'cgroup'))) continue
    const root = upperFolder(readOf(facts.pid, 'mountinfo'))
    if (!root?.startsWith(`${dataRoot}/`)) continue
    builds.set(root, [...(builds.get(root) ?? []), facts])
  }
  return [...builds].flatMap(([root, members]) => {
    const isOrphan = members.some(({ parent }) => parent === 1)
    return isOrphan ? [{ root, members, startedAt: Math.min(...members.map(startOf)) }] : []
  })
}

/** Returns how many processes were ended. */
export function endBuildOrphan({ members }: BuildOrphan): number {
  let count = 0
  for (const { pid, startTicks } of members) {
    if (isSameProcess(pid, startTicks) && signalProcess(pid, 'SIGKILL')) count += 1
  }
  return count
}
