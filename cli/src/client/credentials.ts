// The credentials file: one entry per base URL, mode 0600, replaced atomically (temporary file, fsync, rename) under a
// lock, so that concurrent commands neither tear it nor lose each other's entry. A file that others can read is
// refused, not repaired, because its tokens may already be known. Values are never printed.
import { randomBytes } from 'node:crypto'
import { type FileHandle, link, mkdir, open, rename, stat, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import { CLIENT } from '../limits/client.ts'
import { CliError, EXIT, usage } from '../terminal/exit.ts'
import type { Io } from '../terminal/io.ts'

export { credentialsPath } from './config-folder.ts'

const Entry = z.looseObject({
  access_token: z.string().min(1),
  refresh_token: z.string().nullable(),
  expires_at: z.string().nullable(),
  user: z.object({ id: z.int(), name: z.string(), email: z.string() }),
  /** Selects the installation when a command names none. */
  used_at: z.string(),
  /** Chosen by `berth orgs use`. */
  organization_id: z.int().positive().nullable().optional(),
})
export type Entry = z.infer<typeof Entry>
const File = z.record(z.string(), Entry)
export type Credentials = z.infer<typeof File>

const isLoopback = (host: string) =>
  host === 'localhost' ||
  host.endsWith('.localhost') ||
  host === '[::1]' ||
  /^127(\.\d{1,3}){3}$/.test(host)

/** The canonical spelling of an installation's address: no trailing slash, no query, no user. */
export function normalizeBaseUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null
  if (!url || (url.protocol !== 'https:' && url.protocol !== 'http:')) {
    throw usage(`'${text}' is not an address such as https://deploy.example.com`)
  }
  if (url.username || url.password || url.search || url.hash) {
    // not quoted, because it may hold a password
    throw usage('the address must not contain a user, a password, ? or #')
  }
  if (url.protocol === 'http:' && !isLoopback(url.hostname)) {
    throw usage(
      `${url.origin} is not encrypted; a token would be sent in the clear`,
      `use https://${url.host}`,
    )
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`
}

async function readBounded(file: FileHandle): Promise<string> {
  const { size } = await file.stat()
  if (size > CLIENT.credentialsBytes) throw new Error('too large')
  return file.readFile('utf8')
}

/** Empty when the file does not exist. */
export async function readCredentials(path: string): Promise<Credentials> {
  let file: FileHandle
  try {
    file = await open(path, 'r')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return {}
    throw new CliError(EXIT.notLoggedIn, `${path} cannot be read (${code})`, undefined, error)
  }
  try {
    const { mode } = await file.stat()
    if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
      throw new CliError(
        EXIT.notLoggedIn,
        `${path} can be read by other users of this machine`,
        `chmod 600 '${path}'   and create new tokens if other people could read it`,
      )
    }
    const parsed = File.safeParse(JSON.parse(await readBounded(file)))
    if (parsed.success) return parsed.data
  } catch (error) {
    if (error instanceof CliError) throw error
  } finally {
    await file.close()
  }
  throw new CliError(
    EXIT.notLoggedIn,
    `${path} is not a credentials file of this client`,
    'move it away, then log in again',
  )
}

async function writeCredentials(path: string, credentials: Credentials): Promise<void> {
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`
  const file = await open(temporary, 'wx', 0o600)
  try {
    await file.writeFile(`${JSON.stringify(credentials, null, 2)}\n`)
    await file.sync()
  } catch (error) {
    await unlink(temporary).catch(() => {})
    throw error
  } finally {
    await file.close()
  }
  await rename(temporary, path)
}

/** Reads, changes and writes under the lock. Returning undefined changes nothing. */
export async function updateCredentials(
  path: string,
  io: Pick<Io, 'now' | 'sleep'>,
  change: (before: Credentials) => Credentials | undefined | Promise<Credentials | undefined>,
): Promise<void> {
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    const unlock = await lock(join(dirname(path), 'credentials.lock'), io)
    try {
      const after = await change(await readCredentials(path))
      if (after) await writeCredentials(path, after)
    } finally {
      await unlock()
    }
  } catch (error) {
    if (error instanceof CliError) throw error
    const { code } = error as NodeJS.ErrnoException
    throw new CliError(EXIT.error, `${path} cannot be written (${code})`, undefined, error)
  }
}

async function lock(path: string, io: Pick<Io, 'now' | 'sleep'>): Promise<() => Promise<void>> {
  const giveUpAt = io.now() + CLIENT.lockWaitMs
  for (;;) {
    try {
      const file = await open(path, 'wx', 0o600)
      const mine = await file.stat()
      await file.close()
      return async () => {
        const now = await stat(path).catch(() => null)
        // another inode: our lock was removed as stale
        if (now?.ino === mine.ino) await unlink(path)
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    if (await removeStale(path)) continue
    if (io.now() > giveUpAt) {
      throw new CliError(
        EXIT.error,
        `another berth command holds ${path}`,
        'if none is running, delete that file',
      )
    }
    await io.sleep(CLIENT.lockPollMs)
  }
}

/** Removes a lock whose holder died. Renames it before deletion, so that only one of several waiters takes it. */
async function removeStale(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => null)
  if (!found || Date.now() - found.mtimeMs < CLIENT.lockStaleMs) return found === null
  const aside = `${path}.${randomBytes(6).toString('hex')}`
  try {
    await rename(path, aside)
  } catch {
    return true
  }
  const taken = await stat(aside)
  // another process had replaced the stale lock in between: restore its lock
  if (taken.ino !== found.ino) await link(aside, path).catch(() => {})
  await unlink(aside)
  return true
}
