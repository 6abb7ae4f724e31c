// Opens log files that an application of the manual recipe writes itself, in `shared/log`. The environment owns the
// folder, so every element of the path is opened without following links, and only a regular file of its account with a
// single name is read. So nothing is read here that the account could not read itself.
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  openSync,
  readdirSync,
  type Stats,
  statSync,
} from 'node:fs'
import { SERVICE_LOGS } from '@berth/shared'
import type { EnvironmentPaths } from '../machine/files.ts'

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
const FILE = constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK
const NAME = /^([a-zA-Z0-9][a-zA-Z0-9_-]{0,62})\.log$/

export interface OwnLog {
  /** Of the file, without `.log`. */
  name: string
  fd: number
  stats: Stats
}

function openOwned(path: string, uid: number): { fd: number; stats: Stats } | undefined {
  const fd = openSync(path, FILE)
  const stats = fstatSync(fd)
  if (stats.isFile() && stats.uid === uid && stats.nlink === 1) return { fd, stats }
  closeSync(fd)
  return undefined
}

/** Calls `use` for each of them, in order of name; skips files that must not be read. */
export async function withOwnLogs(
  paths: Pick<EnvironmentPaths, 'shared'>,
  use: (log: OwnLog) => Promise<void>,
): Promise<void> {
  const shared = openSync(paths.shared, FOLDER)
  let folder = -1
  try {
    const { uid } = fstatSync(shared)
    const way = `/proc/self/fd/${shared}/log`
    if (!statSync(way, { throwIfNoEntry: false })?.isDirectory()) return
    folder = openSync(way, FOLDER)
    const files = readdirSync(`/proc/self/fd/${folder}`).filter((file) => NAME.test(file))
    for (const file of files.sort().slice(0, SERVICE_LOGS.ownFiles)) {
      let opened: ReturnType<typeof openOwned>
      try {
        opened = openOwned(`/proc/self/fd/${folder}/${file}`, uid)
      } catch {
        continue // a link, a socket, or removed meanwhile
      }
      if (!opened) continue
      try {
        await use({ name: file.slice(0, -'.log'.length), ...opened })
      } finally {
        closeSync(opened.fd)
      }
    }
  } finally {
    if (folder >= 0) closeSync(folder)
    closeSync(shared)
  }
}

/** Removes what was copied; the program continues at the beginning (it must append, as programs with log files do). */
export const emptyOwnLog = ({ fd }: OwnLog): void => ftruncateSync(fd, 0)
