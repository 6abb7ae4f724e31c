// Finds the control group of the engine's own process. The engine itself, as root and past every rule for containers,
// fetches `ADD https://…` of a Dockerfile and of a base image it names; through the group, packet rules distinguish it
// from other processes of root.
import { readFileSync, realpathSync } from 'node:fs'
import type { AgentSettings } from '../../settings.ts'
import { findSocketListeners } from '../process/ports.ts'
import { listProcesses, readSocketInodes } from '../process/processes.ts'

export interface EngineGroup {
  /** In version 2, without the leading slash; undefined when other processes, such as this agent, share the group. */
  path: string | undefined
  /** A restarted engine may have another group. */
  pid: number
}

const groupOf = (pid: number): string => {
  try {
    return /^0::(\/.*)$/m.exec(readFileSync(`/proc/${pid}/cgroup`, 'utf8'))?.[1] ?? '/'
  } catch {
    return '/'
  }
}

const realPath = (file: string): string => {
  try {
    return realpathSync(file)
  } catch {
    return file
  }
}

/** Undefined when there is no engine. */
export function findEngineGroup(
  { dockerSocket }: Pick<AgentSettings, 'dockerSocket'>,
  own = groupOf(process.pid),
): EngineGroup | undefined {
  const wanted = new Set(
    [...new Set([dockerSocket, realPath(dockerSocket)])]
      .flatMap(findSocketListeners)
      .map(({ inode }) => inode),
  )
  if (wanted.size === 0) return undefined
  const engine = listProcesses().find(
    ({ pid, name }) =>
      name === 'dockerd' && [...readSocketInodes(pid)].some((inode) => wanted.has(inode)),
  )
  if (!engine) return undefined
  const path = groupOf(engine.pid)
  const isApart = path !== '/' && !`${own}/`.startsWith(`${path}/`) && /^[\w./@:\\-]+$/.test(path)
  return { path: isApart ? path.slice(1) : undefined, pid: engine.pid }
}
