// berth copy: a file or folder between this machine and a service of an environment, in either direction. What arrives
// here is complete or absent; nothing existing is replaced without --force.
import { lstat, mkdtemp, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import type { Api } from '../../client/api.ts'
import { packInto } from '../../client/copy/pack.ts'
import { type Copied, unpack } from '../../client/copy/unpack.ts'
import { findTarget, targetName } from '../../client/resolve.ts'
import { explainEnd, openSession, type SshEnd, type SshSession } from '../../client/ssh/run.ts'
import { type SshEndpoint, type SshPlace, withCertificate } from '../../client/ssh/ssh.ts'
import { type Context, compose, flagOn, type Invocation } from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { LiveBlock, spinnerFrame } from '../../progress/live.ts'
import { CliError, EXIT, type ExitCode, interrupted, usage } from '../../terminal/exit.ts'
import { formatBytes } from '../../terminal/format.ts'
import { cleanText } from '../../terminal/text.ts'
import { parseServices } from '../deployments/logs.ts'

interface Remote {
  /** Undefined: the only one. */
  service: string | undefined
  path: string
}

interface CopyOptions {
  /** As typed. */
  words: readonly string[]
  force: boolean
}

const FORM = 'berth copy web:/data/uploads ./uploads, or berth copy ./seed.sql db:/tmp/'

/** `web:/data` and `:/data` are on the server; on Windows, `C:\…` is not. PURE. */
function parsePlace(word: string, platform: NodeJS.Platform): string | Remote {
  const [, service, path] = /^([^:/\\.][^:/\\]*)?:(.*)$/s.exec(word) ?? []
  if (path === undefined || (platform === 'win32' && service?.length === 1)) return word
  if (service !== undefined) parseServices([service])
  return { service, path: path === '' ? '.' : path }
}

const parse = ({ args, flags }: Invocation): CopyOptions => ({
  words: args,
  force: flagOn(flags, 'force'),
})

function placesOf(words: readonly string[], platform: NodeJS.Platform) {
  const [from = '', to = ''] = words.map((word) => parsePlace(word, platform))
  if ((typeof from === 'string') !== (typeof to === 'string')) return { from, to }
  throw usage('one of both must be SERVICE:PATH, the other a path of this machine', FORM)
}

const kindOf = async (path: string): Promise<'file' | 'folder' | undefined> => {
  const found = await stat(path).catch(() => undefined)
  if (!found) return undefined
  return found.isDirectory() ? 'folder' : 'file'
}

const wordsOf = ({ service }: Remote, does: string, argv: readonly string[]): string[] => [
  'copy',
  service ?? '-',
  does,
  Buffer.from(JSON.stringify(argv)).toString('base64url'),
]

interface Way {
  context: Context
  endpoint: SshEndpoint
  copied: Copied
}

/** Runs the copy of one session; its own failure says more than that of the streams. */
async function overSession<T>(
  { context: { io }, endpoint }: Way,
  words: readonly string[],
  move: (session: SshSession) => Promise<T>,
): Promise<T> {
  const session = openSession(io, endpoint.argv(words))
  const stop = (): void => void session.close().catch(() => {})
  io.interrupted.addEventListener('abort', stop, { once: true })
  const moved = move(session)
  moved.catch(stop)
  try {
    const end = await session.ended
    const failure = await moved.then(
      () => undefined,
      (error: unknown) => error,
    )
    if (io.interrupted.aborted) throw interrupted('the copy was stopped')
    // our own reason to stop says more than the end of the session that we closed
    if (end.code !== 0 && !(failure instanceof CliError)) throw explainCopy(end, endpoint)
  } finally {
    io.interrupted.removeEventListener('abort', stop)
  }
  return moved
}

/** tar's own words about what it could not read or write. */
function explainCopy(end: SshEnd, endpoint: SshEndpoint): CliError {
  const said = end.stderr
    .split('\n')
    .findLast((line) => /^(tar|sh|mv|mkdir|mktemp|cd|\/bin\/sh)\b/.test(line))
  if (end.code === null || end.code >= 44 || said === undefined) return explainEnd(end, endpoint)
  return new CliError(EXIT.error, `not copied: ${cleanText(said)}`)
}

async function download(way: Way, from: Remote, to: string, force: boolean): Promise<string> {
  const name = basename(from.path)
  const isInto = to.endsWith('/') || (await kindOf(to)) === 'folder'
  if (isInto && ['', '.', '..', '/'].includes(name)) {
    throw usage(`${from.path} has no name of its own`, `name the target: ${join(to, 'NAME')}`)
  }
  const target = resolve(isInto ? join(to, name) : to)
  const existing = await lstat(target).catch(() => undefined)
  if (existing && !force) {
    throw new CliError(
      EXIT.refused,
      `${target} exists; nothing was copied`,
      'add --force to replace it',
    )
  }
  const part = await mkdtemp(join(dirname(target), '.berth-copy-')).catch(({ code }) => {
    throw new CliError(EXIT.error, `${dirname(target)} cannot be written (${code})`)
  })
  try {
    const kind = await overSession(way, wordsOf(from, 'from', [from.path]), ({ stdout }) =>
      unpack(stdout, join(part, 'copy'), way.context.io.platform, way.copied),
    )
    if (existing) await rename(target, join(part, 'former'))
    await rename(kind === 'file' ? join(part, 'copy', 'file') : join(part, 'copy'), target)
  } finally {
    await rm(part, { recursive: true, force: true })
  }
  return target
}

async function upload(way: Way, from: string, to: Remote): Promise<string> {
  const path = resolve(from)
  const kind = await kindOf(path)
  if (kind === undefined) throw new CliError(EXIT.notFound, `${from} does not exist`)
  const words = wordsOf(to, kind, [to.path, basename(path) || 'copy'])
  await overSession(way, words, ({ input }) => packInto(input, path, way.copied))
  return `${to.service ?? ''}:${to.path}`
}

/** A line on a terminal; otherwise one from time to time, so that a long copy is not silent. */
async function withProgress<T>(
  context: Context,
  copied: Copied,
  work: () => Promise<T>,
): Promise<T> {
  const { screen, io } = context
  const text = (): string => `${copied.files} files, ${formatBytes(copied.bytes)}`
  const block = screen.live ? new LiveBlock(io.stderr) : undefined
  block?.start((frame) => [`${spinnerFrame(frame)} Copying… ${text()}`])
  const timer = setInterval(() => {
    if (!block) void screen.note(`still copying: ${text()}`)
  }, CLIENT.progressMs)
  try {
    return await work()
  } finally {
    clearInterval(timer)
    await block?.stop()
  }
}

async function perform(options: CopyOptions, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const { from, to } = placesOf(options.words, io.platform)
  const api: Api = await context.connect()
  const target = await findTarget(api, context, 'change')
  const { environment } = target
  const place: SshPlace = { server: environment.server, environmentId: environment.id }
  const copied: Copied = { files: 0, bytes: 0, skipped: 0 }
  const where = await withCertificate({ api, io }, place, 'copy', (endpoint) =>
    withProgress(context, copied, () => {
      const way = { context, endpoint, copied }
      if (typeof from === 'string') return upload(way, from, to as Remote)
      return download(way, from, to as string, options.force)
    }),
  )
  if (copied.skipped > 0) {
    await screen.warn(`${copied.skipped} links and special files were left out`)
  }
  const what = `${copied.files} ${copied.files === 1 ? 'file' : 'files'}, ${formatBytes(copied.bytes)}`
  const mark = screen.err.paint('green', '✓')
  await screen.note(`${mark} ${cleanText(`Copied ${what} to ${where} (${targetName(target)})`)}`)
  if (screen.json) await screen.printJson({ ...copied, to: where })
  else if (!screen.human) {
    await screen.print([String(copied.files), String(copied.bytes), cleanText(where)].join('\t'))
  }
  return EXIT.done
}

export const copy = compose(parse, perform)
