// Log files that an application of the manual recipe writes itself, in `shared/log`. The folder is the environment's:
// every element of the path is opened without following links, and only a regular file that belongs to its account and
// has no second name is read. So nothing is read here that the account could not read itself.
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

/** `use` is called with each of them, in order of name; a file that is not to be read is passed over. */
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
        continue // a link, a socket, or gone meanwhile
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

/** What was copied goes; its program writes on at the beginning (it must append, as programs with log files do). */
export const emptyOwnLog = ({ fd }: OwnLog): void => ftruncateSync(fd, 0)
