// Opens a Unix socket in a folder that an environment can write, for root. A link there could lead to any socket of the
// machine, so it is opened without following links, must belong to the environment's own user, and is used through its
// descriptor, which cannot be swapped.
import { closeSync, constants, fstatSync, openSync } from 'node:fs'

/** The value on every architecture that Node runs on; Node does not export it. */
export const O_PATH = 0o10000000

export interface OpenSocket {
  /** While it is open: connect to it, or let a child process work on the socket itself. */
  path: string
  close(): void
}

/** `uid` is undefined without accounts (development). Returns why the path is unusable, or the socket. */
export function openSocket(path: string, uid: number | undefined): OpenSocket | 'absent' | 'wrong' {
  let fd: number
  try {
    fd = openSync(path, O_PATH | constants.O_NOFOLLOW)
  } catch {
    return 'absent'
  }
  const facts = fstatSync(fd)
  if (!facts.isSocket() || (uid !== undefined && facts.uid !== uid)) {
    closeSync(fd)
    return 'wrong'
  }
  return { path: `/proc/${process.pid}/fd/${fd}`, close: () => closeSync(fd) }
}
