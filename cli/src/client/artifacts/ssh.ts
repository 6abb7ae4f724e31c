// Fetches artifacts directly from the server over certificate SSH, and through the control plane only if ssh cannot
// reach the server. What the server says about a file (removed, expired, changed) is final and no reason to try the
// other way.
import { setTimeout as delay } from 'node:timers/promises'
import type { Artifact } from '@berth/shared/api'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT, interrupted } from '../../terminal/exit.ts'
import type { Io } from '../../terminal/io.ts'
import type { Api } from '../api.ts'
import { ApiFailure } from '../problem.ts'
import {
  explainEnd,
  NO_CONNECTION,
  openSession,
  type SessionOptions,
  SSH_NO_AGENT,
  type SshSession,
  whyLost,
} from '../ssh/run.ts'
import { type OpenEndpoint, openEndpoint, type SshEndpoint, type SshPlace } from '../ssh/ssh.ts'
import { Batch, fittingIn, type Header, openBatched, parseHeader, tooMuch } from './batch.ts'
import { openHttpSource } from './http.ts'
import type { ArtifactSource, OpenedArtifact, OpenTarget } from './source.ts'

interface SshSourceOptions {
  /** Never through the control plane. */
  direct: boolean
  note(text: string): Promise<void>
}

/** ssh cannot reach the server; this says nothing about the file. */
class NoWay extends CliError {}

/** The connection broke in the middle; another one may bring the rest. */
class Broken extends CliError {}

/** The agent is not running, for good or because it is being replaced. */
class Away extends CliError {}

/** Parses the first line of stderr; undefined: it has not arrived, or is something else. */
function headerOf(stderr: string): Header | undefined {
  const end = stderr.indexOf('\n')
  return end < 0 ? undefined : parseHeader(stderr.slice(0, end))
}

const isListed = (header: Header, artifact: Artifact): boolean =>
  header.size === artifact.size_bytes && header.sha256 === artifact.sha256

/** What arrives before the first byte: the header, or why there is none. */
async function readHeader(session: SshSession, said: () => string, changed: () => Promise<void>) {
  let ended = false
  const end = session.ended.finally(() => {
    ended = true
  })
  end.catch(() => {})
  for (;;) {
    const header = headerOf(said())
    if (header) return header
    if (ended || said().length > CLIENT.sshErrorBytes) return undefined
    await Promise.race([changed(), end])
  }
}

interface Opened {
  endpoint: SshEndpoint
  session: SshSession
  /** Ends the session and removes what was created for it. */
  end(): Promise<void>
}

function openSshSession(
  io: Io,
  endpoint: OpenEndpoint,
  words: readonly string[],
  options: SessionOptions = {},
): Opened {
  const session = openSession(io, endpoint.argv(words), options)
  const stop = () => void session.close().catch(() => {})
  io.interrupted.addEventListener('abort', stop, { once: true })
  const end = async () => {
    io.interrupted.removeEventListener('abort', stop)
    await session.close().catch(() => {})
    endpoint.close()
  }
  return { endpoint, session, end }
}

/**
 * One file, from an offset on. ssh writes to the target directly if there is one, because passing each byte through
 * this process costs more than hashing it.
 */
async function openOverSsh(
  io: Io,
  endpoint: OpenEndpoint,
  artifact: Artifact,
  offset: number,
  target: OpenTarget | undefined,
): Promise<OpenedArtifact> {
  let said = ''
  let wake = () => {}
  const words = ['artifact', artifact.file_id, ...(offset > 0 ? [String(offset)] : [])]
  const onError = (chunk: string): void => {
    if (said.length <= CLIENT.sshErrorBytes) said += chunk
    wake()
  }
  const into = io.platform === 'win32' ? undefined : target?.share()
  const { session, end } = openSshSession(io, endpoint, words, { onError, into })
  const changed = () =>
    new Promise<void>((resolve) => {
      wake = resolve
    })
  try {
    const header = await readHeader(session, () => said, changed)
    if (header && !isListed(header, artifact)) {
      // checked here, because a consumer that never starts reading would never end the session
      const message = `${artifact.path}: the server offers another file than it listed`
      throw new CliError(EXIT.error, message, 'list the files again')
    }
    if (!header) throw await explainNothing(session, endpoint, io)
    const from = { ...header, from: offset }
    if (into === undefined) return { ...from, bytes: bytesOf(session, endpoint, io, end) }
    return { ...from, written: endWell(session, endpoint, io), end }
  } catch (error) {
    await end()
    throw error
  }
}

/** For several files, whose ids are sent once they are known. */
const openForIds = (io: Io, endpoint: OpenEndpoint): Opened =>
  openSshSession(io, endpoint, ['artifacts', '-'])

/** Several in one session: they share a certificate, a connection and a server process. */
function openBatch(by: { api: Api; io: Io }, opened: Opened, files: readonly Artifact[]): Batch {
  const { endpoint, session, end } = opened
  session.send(`${files.map(({ file_id: id }) => id).join(' ')}\n`)
  const explain = async (line: string | undefined, anything: boolean): Promise<CliError> => {
    if (line !== undefined) return new CliError(EXIT.error, 'the server did not say what it sends')
    if (!anything) return explainNothing(session, endpoint, by.io)
    return (await explainBreak(session, endpoint, by.io)) ?? shortOf()
  }
  /**
   * The last file counts only if the server ended well. A server that does not end is not waited for: every byte is
   * here, and the digest decides whether they are right.
   */
  const checkEnd = async (isAtEnd: Promise<boolean>): Promise<void> => {
    const late = delay(CLIENT.sshEndMs, undefined, { ref: false })
    if ((await Promise.race([isAtEnd, late])) === false) throw tooMuch()
    const last = await Promise.race([session.ended, late])
    if (last && last.code !== 0) throw await explain(undefined, true)
  }
  const stream = session.stdout as AsyncIterable<Buffer>
  return new Batch({ stream, files, explain, checkEnd, end })
}

const shortOf = (): CliError =>
  new CliError(EXIT.error, 'less came than the server was asked for', 'try again')

async function explainNothing(
  session: SshSession,
  endpoint: SshEndpoint,
  io: Io,
): Promise<CliError> {
  const end = await session.ended
  if (io.interrupted.aborted) return interrupted()
  if (end.code === 0) return new CliError(EXIT.error, 'the server did not say what it sends')
  if (end.code === SSH_NO_AGENT) {
    const { exitCode, message, hint } = explainEnd(end, endpoint)
    return new Away(exitCode, message, hint)
  }
  if (end.code !== NO_CONNECTION) return explainEnd(end, endpoint)
  return new NoWay(EXIT.error, whyLost(end.stderr).text)
}

/** Undefined: it ended well. */
async function explainBreak(
  session: SshSession,
  endpoint: SshEndpoint,
  io: Io,
): Promise<CliError | undefined> {
  const ended = await session.ended
  if (io.interrupted.aborted) return interrupted()
  if (ended.code === 0) return undefined
  const why = explainEnd(ended, endpoint)
  const isBroken = [NO_CONNECTION, SSH_NO_AGENT, null].includes(ended.code)
  return isBroken ? new Broken(why.exitCode, why.message, why.hint) : why
}

async function* bytesOf(
  session: SshSession,
  endpoint: SshEndpoint,
  io: Io,
  end: () => Promise<void>,
) {
  try {
    for await (const chunk of session.stdout) yield chunk as Uint8Array
    await endWell(session, endpoint, io)
  } finally {
    await end()
  }
}

async function endWell(session: SshSession, endpoint: SshEndpoint, io: Io): Promise<void> {
  const why = await explainBreak(session, endpoint, io)
  if (why) throw why
}

/** Why ssh cannot reach the server; undefined: the failure has another cause. */
function wayLost(error: unknown): string | undefined {
  const isMissing = error instanceof CliError && error.message.startsWith('ssh is not installed')
  if (isSshOff(error)) return (error as Error).message
  return error instanceof NoWay || isMissing ? error.message : undefined
}

/** No SSH on the server, so the files come through the control plane. */
const isSshOff = (error: unknown): boolean =>
  error instanceof ApiFailure && error.code === 'ssh_unavailable'

/** Begun before the files were known: a certificate and, unless a large file comes first, a session. */
interface Prepared {
  endpoint: OpenEndpoint
  opened: Opened | undefined
}

const isLarge = ({ size_bytes: size }: Artifact): boolean => size >= CLIENT.ownSessionBytes

/** The files before the first one that gets its own session. */
const untilLarge = (files: readonly Artifact[]): readonly Artifact[] => {
  const at = files.findIndex(isLarge)
  return at < 0 ? files : files.slice(0, at)
}

/** SSH first. Once SSH has failed to reach the server, the other files use the control plane directly. */
export function openSshSource(
  by: { api: Api; io: Io },
  place: SshPlace,
  options: SshSourceOptions,
): ArtifactSource {
  const http = openHttpSource(by.api, by.io)
  const { name } = place.server
  let expected: readonly Artifact[] = []
  let prepared: Promise<Prepared> | undefined
  const enter = () => openEndpoint(by, place, 'artifact')
  const takePrepared = (): Promise<Prepared> | undefined => {
    const taken = prepared
    prepared = undefined
    return taken
  }
  /** For a session of its own; a session begun for several files cannot serve it. */
  const endpointForOne = async (): Promise<OpenEndpoint> => {
    const ready = await takePrepared()
    if (ready && !ready.opened) return ready.endpoint
    await ready?.opened?.end()
    return enter()
  }
  /** An older agent refuses to read ids from its input; then files are requested one after the other. */
  let takesIds = true
  const direct = openBatched({
    openOne: async (artifact, offset, target) =>
      openOverSsh(by.io, await endpointForOne(), artifact, offset, target),
    async openMany(files) {
      const ready = await takePrepared()
      const opened = ready?.opened ?? openForIds(by.io, ready?.endpoint ?? (await enter()))
      return openBatch(by, opened, files)
    },
    isPrepared: () => prepared !== undefined,
    fitting: (files) =>
      takesIds ? fittingIn(untilLarge(files), CLIENT.sshWordsBytes, ({ file_id: id }) => id) : [],
  })
  let lost: string | undefined
  let hasBroken = false
  return {
    expect(artifacts) {
      expected = artifacts
      direct.expect(artifacts)
      http.expect?.(artifacts)
    },
    prepare() {
      prepared = enter().then((endpoint) => {
        const isOwn = expected[0] !== undefined && isLarge(expected[0])
        return { endpoint, opened: isOwn ? undefined : openForIds(by.io, endpoint) }
      })
      prepared.catch(() => {}) // reported to the caller that awaits it
    },
    async close() {
      const unused = await takePrepared()?.catch(() => undefined)
      await unused?.opened?.end()
      unused?.endpoint.close()
      await direct.close()
      await http.close?.()
    },
    async open(artifact, offset, target) {
      if (lost === undefined) {
        try {
          return await direct.open(artifact, offset, target).catch((error: unknown) => {
            const isRefused = error instanceof CliError && error.exitCode === EXIT.refused
            if (!isRefused || !takesIds || isSshOff(error)) throw error
            takesIds = false
            return direct.open(artifact, offset, target)
          })
        } catch (error) {
          lost = wayLost(error)
          if (lost === undefined) throw error
        }
        const where = `${name} is not reachable over SSH from here (${lost})`
        if (options.direct) throw new CliError(EXIT.error, where, 'leave out --direct')
        await options.note(`${where}; fetching through ${by.api.baseUrl}`)
      }
      return http.open(artifact, offset).catch((error: unknown) => {
        throw namingBoth(error, `${name} over SSH: ${lost}`)
      })
    },
    mayRepeat(error) {
      hasBroken ||= error instanceof Broken
      return (
        error instanceof Broken || (error instanceof Away && hasBroken) || http.mayRepeat(error)
      )
    },
  }
}

const PASSING = ['server_offline', 'transfers_busy', 'server_timeout']

/** Names both failures when neither way worked; the server's own statement about the file is kept alone. */
function namingBoth(error: unknown, first: string): unknown {
  if (!(error instanceof ApiFailure) || !PASSING.includes(error.code ?? '')) return error
  return new ApiFailure(error.kind, error.exitCode, `${error.message} (${first})`, {
    hint: error.hint,
    status: error.status ?? 503,
    code: error.code ?? '',
    details: { ...error.details },
    retryAfterMs: error.retryAfterMs,
    cause: error,
  })
}
