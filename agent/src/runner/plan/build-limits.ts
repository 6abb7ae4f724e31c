// What a build or a command of the repository may use, who set it, and what to say when it was not enough. PURE.
import { GiB, MiB } from '@berth/shared/units'
import { describeSize } from './ceilings.ts'

/** Which limit is the lowest, and so the one that counts. */
type Setter = 'server' | 'environment' | 'fork'

export interface MemoryLimit {
  bytes: number
  setBy: Setter
}

/** The lowest counts; of equal ones, the server's, which an administrator can raise. */
export const lowestLimit = (limits: { server: number; environment: number }): MemoryLimit =>
  limits.environment < limits.server
    ? { bytes: limits.environment, setBy: 'environment' }
    : { bytes: limits.server, setBy: 'server' }

/** As `MemoryCause` of the machine: at the limit that Berth set, or because the whole server had no memory left. */
export type MemoryCause = 'limit' | 'server'

interface Stop {
  /** The command or step, as a subject: "`RUN npm ci`". */
  what: string
  cause: MemoryCause
  limit: MemoryLimit
  server: string
  serverBytes: number
}

/** As the client reads it: 8g, 768m. */
const asFlag = (bytes: number): string =>
  bytes % GiB === 0 ? `${bytes / GiB}g` : `${Math.floor(bytes / MiB)}m`

/** Twice the limit, in whole GiB above one, and at most what the server has; undefined: it has no more. */
function suggest(limit: number, serverBytes: number): number | undefined {
  const twice = limit >= GiB ? Math.ceil((2 * limit) / GiB) * GiB : 2 * limit
  const unit = serverBytes >= 2 * GiB ? GiB : MiB
  const most = Math.floor(serverBytes / unit) * unit
  const suggested = Math.min(twice, most)
  return suggested > limit ? suggested : undefined
}

export function describeMemoryStop({ what, cause, limit, server, serverBytes }: Stop): string {
  const size = describeSize(limit.bytes)
  if (cause === 'server') {
    return `Server ${server} ran out of memory while ${what} ran, and the kernel ended it below its limit of ${size}: other programs use the rest. Deploy again when the server is less busy, stop what is not needed there, or give it more memory.`
  }
  switch (limit.setBy) {
    case 'server':
      return `${what} needed more than ${size}, the build limit of server ${server}. ${adviseServer(limit.bytes, server, serverBytes)}`
    case 'environment':
      return `${what} needed more than ${size}, which an environment of this project may use on server ${server}. An administrator can raise it under Servers › ${server} › Limits of an environment, or in the settings of the project.`
    case 'fork':
      return `${what} needed more than ${size}, the limit for code from a fork. Build it from a branch of the repository, or let it use less.`
  }
}

/** A name with other characters is quoted, so that the command can be copied. */
const asWord = (name: string): string => (/^[\w.-]+$/.test(name) ? name : `'${name}'`)

function adviseServer(limit: number, server: string, serverBytes: number): string {
  const more = suggest(limit, serverBytes)
  if (more === undefined) {
    return `The server has ${describeSize(serverBytes)} in all: give it more memory, or let the build use less.`
  }
  const command = `berth server set ${asWord(server)} --build-memory ${asFlag(more)}`
  return `An administrator can raise it under Servers › ${server} › Builds and slots, or with \`${command}\`.`
}

/** A build or step that took longer than the server lets it. */
export const describeSlowBuild = (what: string, minutes: number, server: string): string =>
  `${what} took longer than ${minutes} min, the time limit for builds on server ${server}. An administrator can raise it under Servers › ${server} › Builds and slots, or with \`berth server set ${asWord(server)} --build-timeout ${Math.ceil(minutes * 2)}m\`.`
