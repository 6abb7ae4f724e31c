// A Unix socket in a folder that an environment can write, asked by root: a link there could lead to any socket of the
// machine. So it is opened without following one, must be a socket of the environment's own user, and is used by its
// descriptor, which nobody can swap.
import { closeSync, constants, fstatSync, openSync } from 'node:fs'

/** Of Linux on every architecture Node runs on; Node does not name it. */
export const O_PATH = 0o10000000

export interface OpenSocket {
  /** While it is open: connect here, or let a program that this process starts work on the socket itself. */
  path: string
  close(): void
}

/** `uid` undefined: without accounts, as the developer. Otherwise why it is none. */
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
