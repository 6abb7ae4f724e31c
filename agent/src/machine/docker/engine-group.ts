// Where the engine's own process is among the control groups. `ADD https://…` of a Dockerfile, and of a base image it names,
// is fetched by the engine itself with root's rights, past every rule for containers: its group is how packet rules tell
// it from the rest of root.
import { readFileSync, realpathSync } from 'node:fs'
import type { AgentSettings } from '../../settings.ts'
import { findSocketListeners } from '../process/ports.ts'
import { listProcesses, readSocketInodes } from '../process/processes.ts'

export interface EngineGroup {
  /** In version 2 of the control groups, without the slash in front; undefined: others, this agent too, are in it. */
  path: string | undefined
  /** Another process has another group, of the same name or not. */
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

/** Undefined: there is no engine. */
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
