// Artifacts straight from the server over certificate SSH, and through the control plane only where ssh finds no way
// there. What the server says about a file (gone, expired, changed) is an answer, not a reason to try the other way.
import { CLIENT } from '@berth/shared/client-limits'
import type { Artifact } from '@berth/shared/rest'
import type { Api } from './api.ts'
import { Batch, fitting } from './artifact-batch.ts'
import { type ArtifactSource, type OpenedArtifact, openHttpSource } from './artifact-source.ts'
import { CliError, EXIT, interrupted } from './exit.ts'
import type { Io } from './io.ts'
import { ApiFailure } from './problem.ts'
import { openDoor, type SshDoor, type SshPlace } from './ssh.ts'
import { explainEnd, NO_CONNECTION, openSession, type SshSession, whyLost } from './ssh-run.ts'

export interface SshSourceOptions {
  /** Never through the control plane. */
  direct: boolean
  note(text: string): Promise<void>
}

/** ssh does not lead to the server; the file itself is not in question. */
export class NoWay extends CliError {}

/** The connection broke in the middle; the rest may come over another one. */
class Broken extends CliError {}

const HEADER = /^size=(\d{1,15}) sha256=([0-9a-f]{64})$/

/** The first line of stderr; undefined: it has not come, or is another. */
export function parseHeader(stderr: string): { size: number; sha256: string } | undefined {
  const match = HEADER.exec(stderr.split('\n', 1)[0] ?? '')
  return match && stderr.includes('\n')
    ? { size: Number(match[1]), sha256: match[2] ?? '' }
    : undefined
}

const isListed = (header: { size: number; sha256: string }, artifact: Artifact): boolean =>
  header.size === artifact.size_bytes && header.sha256 === artifact.sha256

/** What is said before the first byte: the header, or why there is none. */
async function readHeader(session: SshSession, said: () => string, changed: () => Promise<void>) {
  let ended = false
  const end = session.ended.finally(() => {
    ended = true
  })
  end.catch(() => {})
  for (;;) {
    const header = parseHeader(said())
    if (header) return header
    if (ended || said().length > CLIENT.sshErrorBytes) return undefined
    await Promise.race([changed(), end])
  }
}

interface Opened {
  door: SshDoor
  session: SshSession
  /** The session, and what was made for it. */
  end(): Promise<void>
}

async function openSshSession(
  by: { api: Api; io: Io },
  place: SshPlace,
  words: readonly string[],
  onError: (chunk: string) => void,
): Promise<Opened> {
  const { io } = by
  const door = await openDoor(by, place, 'artifact')
  const session = openSession(io, door.argv(words), onError)
  const stop = () => void session.close().catch(() => {})
  io.interrupted.addEventListener('abort', stop, { once: true })
  const end = async () => {
    io.interrupted.removeEventListener('abort', stop)
    await session.close().catch(() => {})
    door.close()
  }
  return { door, session, end }
}

async function openOverSsh(
  by: { api: Api; io: Io },
  place: SshPlace,
  artifact: Artifact,
  offset: number,
): Promise<OpenedArtifact> {
  const { io } = by
  let said = ''
  let wake = () => {}
  const words = ['artifact', artifact.file_id, ...(offset > 0 ? [String(offset)] : [])]
  const { door, session, end } = await openSshSession(by, place, words, (chunk) => {
    if (said.length <= CLIENT.sshErrorBytes) said += chunk
    wake()
  })
  const changed = () =>
    new Promise<void>((resolve) => {
      wake = resolve
    })
  try {
    const header = await readHeader(session, () => said, changed)
    if (header && !isListed(header, artifact)) {
      // here, not where the bytes are read: nobody would begin to, and end the session
      const message = `${artifact.path}: the server offers another file than it listed`
      throw new CliError(EXIT.error, message, 'list the files again')
    }
    if (header) return { ...header, from: offset, bytes: bytesOf(session, door, io, end) }
    throw await explainNothing(session, door, io)
  } catch (error) {
    await end()
    throw error
  }
}

/** Several in one session: a certificate, a connection and a process of the server serve all of them. */
async function openBatch(
  by: { api: Api; io: Io },
  place: SshPlace,
  files: readonly Artifact[],
): Promise<Batch> {
  const words = ['artifacts', ...files.map(({ file_id: id }) => id)]
  const { door, session, end } = await openSshSession(by, place, words, () => {})
  const explain = async (anything: boolean): Promise<CliError> => {
    if (!anything) return explainNothing(session, door, by.io)
    return (await explainBreak(session, door, by.io)) ?? shortOf()
  }
  const parse = (line: string) => parseHeader(`${line}\n`)
  return new Batch({ session, files, parse, explain, end })
}

const shortOf = (): CliError =>
  new CliError(EXIT.error, 'less came than the server was asked for', 'try again')

async function explainNothing(session: SshSession, door: SshDoor, io: Io): Promise<CliError> {
  const end = await session.ended
  if (io.interrupted.aborted) return interrupted()
  if (end.code === 0) return new CliError(EXIT.error, 'the server did not say what it sends')
  if (end.code !== NO_CONNECTION) return explainEnd(end, door)
  return new NoWay(EXIT.error, whyLost(end.stderr).text)
}

/** Undefined: it ended well. */
async function explainBreak(
  session: SshSession,
  door: SshDoor,
  io: Io,
): Promise<CliError | undefined> {
  const ended = await session.ended
  if (io.interrupted.aborted) return interrupted()
  if (ended.code === 0) return undefined
  const why = explainEnd(ended, door)
  const isBroken = ended.code === NO_CONNECTION || ended.code === null
  return isBroken ? new Broken(why.exitCode, why.message, why.hint) : why
}

async function* bytesOf(session: SshSession, door: SshDoor, io: Io, end: () => Promise<void>) {
  try {
    for await (const chunk of session.stdout) yield chunk as Uint8Array
    const why = await explainBreak(session, door, io)
    if (why) throw why
  } finally {
    await end()
  }
}

/** Why there is no way by ssh; undefined: the failure is about something else. */
function wayLost(error: unknown): string | undefined {
  const isMissing = error instanceof CliError && error.message.startsWith('ssh is not installed')
  return error instanceof NoWay || isMissing ? error.message : undefined
}

/** SSH first. Once it is known that it leads nowhere, the other files go the other way at once. */
export function openSshSource(
  by: { api: Api; io: Io },
  place: SshPlace,
  options: SshSourceOptions,
): ArtifactSource {
  const http = openHttpSource(by.api, by.io)
  const { name } = place.server
  let lost: string | undefined
  let expected: readonly Artifact[] = []
  let batch: Batch | undefined
  /** The rest of a file by itself; a whole one with those that follow it. */
  const openDirect = async (artifact: Artifact, offset: number): Promise<OpenedArtifact> => {
    if (offset === 0 && batch?.brings(artifact)) return batch.next(artifact)
    await batch?.close()
    batch = undefined
    const at = expected.indexOf(artifact)
    const files = at < 0 ? [] : fitting(expected.slice(at), by.io.platform)
    if (offset > 0 || files.length < 2) return openOverSsh(by, place, artifact, offset)
    batch = await openBatch(by, place, files)
    return batch.next(artifact)
  }
  return {
    expect(artifacts) {
      expected = artifacts
    },
    close: async () => batch?.close(),
    async open(artifact, offset) {
      if (lost === undefined) {
        try {
          return await openDirect(artifact, offset)
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
    mayRepeat: (error) => error instanceof Broken || http.mayRepeat(error),
  }
}

const PASSING = ['server_offline', 'transfers_busy', 'server_timeout']

/** Both attempts, when neither led anywhere; what the server said about the file stands alone. */
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
