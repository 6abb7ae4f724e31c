// Packs and unpacks folders with tar. The programs of an environment wrote these folders, so their names and links are
// hostile: tar runs as the environment's account, or as root with only the privileges to read, or to write and give
// away, files. It never follows a link, and unpacks only into a new folder that no other process can enter. Without
// the right to make devices, none comes out of an archive.
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { BACKUPS } from '../limits/backups.ts'
import { type Account, dropRights, joinGroups } from './process/confinement.ts'
import { locateProgram, SYSTEM_PATH } from './process/programs.ts'
import { signalProcess } from './process/signals.ts'

export interface ArchiveOptions {
  folder: string
  /** Whose files they are; undefined: of several users, so root reads or writes them. */
  account: Account | undefined
  /** Bounds its memory. */
  cgroupFiles: readonly string[]
  signal: AbortSignal
}

export class ArchiveError extends Error {
  override readonly name = 'ArchiveError'
}

/** Root with these capabilities only. Without root (development), as the developer. */
function keepCapabilities(capabilities: readonly string[]): string[] {
  const setpriv = locateProgram('setpriv')
  if (!setpriv) throw new ArchiveError('setpriv is not installed.')
  if (process.getuid?.() !== 0) return [setpriv, '--no-new-privs', '--']
  const kept = capabilities.map((name) => `,+${name}`).join('')
  return [setpriv, '--no-new-privs', '--inh-caps=-all', `--bounding-set=-all${kept}`, '--']
}

const READ = ['dac_read_search']
const WRITE = ['chown', 'dac_override', 'fowner', 'fsetid']

function confine(options: ArchiveOptions, capabilities: readonly string[]): string[] {
  const tar = locateProgram('tar')
  if (!tar) throw new ArchiveError('tar is not installed.')
  const { account, cgroupFiles } = options
  const rights = account ? dropRights(account) : keepCapabilities(capabilities)
  return [...joinGroups(cgroupFiles), ...rights, tar]
}

const END =
  /tar: (?:Exiting with failure status due to previous errors|Error is not recoverable: exiting now)\n?/g

/** Resolves when it exited with 0. What it said is the reason of a failure; `./` names in it belong to the folder. */
function ended(child: ChildProcessByStdio<Writable | null, Readable | null, Readable>) {
  const said: Buffer[] = []
  let bytes = 0
  child.stderr.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes <= BACKUPS.errorBytes) said.push(chunk)
  })
  return new Promise<void>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => {
      if (code === 0) return resolve()
      const text = Buffer.concat(said).toString('utf8').replaceAll(END, '').trim()
      const reason = text.split('\n').slice(0, 3).join(' ') || `exit ${signal ?? code}`
      reject(new ArchiveError(reason.replaceAll('tar: ', '')))
    })
  })
}

function stopWith(pid: number | undefined, signal: AbortSignal): () => void {
  const end = (): void => void (pid && signalProcess(-pid, 'SIGKILL'))
  signal.addEventListener('abort', end, { once: true })
  if (signal.aborted) end()
  return () => signal.removeEventListener('abort', end)
}

const OPTIONS = { cwd: '/', env: { PATH: SYSTEM_PATH, LC_ALL: 'C' }, detached: true } as const

/** `consume` gets the archive. Both must succeed; a file that changed meanwhile is a failure. */
export async function packFolder(
  options: ArchiveOptions & { exclude?: readonly string[] },
  consume: (archive: Readable) => Promise<void>,
): Promise<void> {
  const [file = '', ...args] = [
    ...confine(options, READ),
    ...['--create', '--file=-', '--format=posix', '--numeric-owner', '--one-file-system'],
    ...['--sparse', '--anchored', ...(options.exclude ?? []).map((name) => `--exclude=./${name}`)],
    ...['--directory', options.folder, '.'],
  ]
  const child = spawn(file, args, { ...OPTIONS, stdio: ['ignore', 'pipe', 'pipe'] })
  const release = stopWith(child.pid, options.signal)
  try {
    const [exit, consumed] = await Promise.allSettled([
      ended(child),
      consume(child.stdout).catch((error: unknown) => {
        if (child.pid) signalProcess(-child.pid, 'SIGKILL') // a full disk: tar would wait for a reader
        throw error
      }),
    ])
    if (consumed.status === 'rejected') throw consumed.reason
    if (exit.status === 'rejected') throw exit.reason
  } finally {
    release()
  }
}

/** What a writer sees when the reader is gone. */
const CLOSED: ReadonlySet<string | undefined> = new Set(['EPIPE', 'ERR_STREAM_PREMATURE_CLOSE'])

/** Into an empty folder. Owners, modes, times and holes of files are those of the archive. */
export async function unpackFolder(options: ArchiveOptions, archive: Readable): Promise<void> {
  const owner = options.account ? '--no-same-owner' : '--same-owner'
  const [file = '', ...args] = [
    ...confine(options, WRITE),
    ...['--extract', '--file=-', '--preserve-permissions', '--numeric-owner', owner],
    ...['--delay-directory-restore', '--directory', options.folder],
  ]
  const child = spawn(file, args, { ...OPTIONS, stdio: ['pipe', 'ignore', 'pipe'] })
  const release = stopWith(child.pid, options.signal)
  try {
    const [exit, written] = await Promise.allSettled([
      ended(child),
      pipeline(archive, child.stdin).catch((error: NodeJS.ErrnoException) => {
        if (child.pid && !CLOSED.has(error.code)) signalProcess(-child.pid, 'SIGKILL')
        throw error
      }),
    ])
    // tar ended: its own words say why, and after the end of an archive it needs no more
    const isOver = written.status === 'fulfilled' || CLOSED.has(written.reason.code)
    if (!isOver) throw written.reason
    if (exit.status === 'rejected') throw exit.reason
  } finally {
    release()
  }
}
