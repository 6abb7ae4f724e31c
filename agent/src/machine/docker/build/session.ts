// The connection that a build keeps open beside its request, for requests of BuildKit (gRPC over HTTP/2, the engine is
// the client): answers health checks, serves the given folders and the values that the build was granted, and rejects
// the rest.
import { randomUUID } from 'node:crypto'
import { performServerHandshake, type ServerHttp2Stream } from 'node:http2'
import type { Duplex } from 'node:stream'
import { BUILDS } from '../../../limits/docker.ts'
import type { Engine } from '../engine.ts'
import type { ContextEntry, Wanted } from './context.ts'
import { encodeError } from './file-packets.ts'
import { sendFiles, TakenBack } from './file-sync.ts'
import { answerCall, type BuildGrants, HEAD, NO_GRANTS, STATUS, VALUE_CALLS } from './grants.ts'

const NO_BODY = Buffer.alloc(0)
export const FILES = '/moby.filesync.v1.FileSync/DiffCopy'

/** Folders by the names that BuildKit uses for them. */
export type Folders = Record<string, (wanted: Wanted) => Iterable<ContextEntry | undefined>>

export interface BuildSession {
  /** Identifies the session in the build request. */
  id: string
  /** Why files could not be sent, if that happened. */
  readonly failure: Error | undefined
  /** Whether the engine requested files at all. */
  readonly isAsked: boolean
}

export interface SessionOptions {
  folders: Folders
  /** The engine compares with the files of the last build with this key. */
  key: string
  /** Default: none. */
  grants?: BuildGrants | undefined
  /** Ends the session. */
  signal?: AbortSignal
}

/** Lasts as long as its connection. */
export async function openBuildSession(
  engine: Engine,
  options: SessionOptions,
): Promise<BuildSession> {
  const id = randomUUID()
  return serveSession(await dialSession(engine, id, options), id, options.folders, options.grants)
}

/** Answers on an open connection. */
export function serveSession(
  socket: Duplex,
  id: string,
  folders: Folders,
  grants: BuildGrants = NO_GRANTS,
): BuildSession {
  const session: { -readonly [K in keyof BuildSession]: BuildSession[K] } = {
    id,
    failure: undefined,
    isAsked: false,
  }
  const server = performServerHandshake(socket, {
    maxHeaderListPairs: BUILDS.questionHeaders,
    settings: { maxHeaderListSize: BUILDS.questionBytes },
  })
  server.on('error', () => socket.destroy()) // the engine closes it after the build
  server.on('stream', (stream, headers, _flags, raw) => {
    stream.on('error', () => {}) // a canceled request
    if (stream.destroyed) return // canceled before it could be read
    const path = headers[':path'] ?? ''
    if (path !== FILES) {
      return answerCall(stream, { path, sshId: String(headers['buildkit.ssh.id'] ?? '') }, grants)
    }
    session.isAsked = true
    giveFiles(stream, folders, readQuestion(raw as unknown as string[])).catch((error: Error) => {
      session.failure ??= error
    })
  })
  return session
}

/** Throws when the files cannot be read, after it has reported that to the engine. */
async function giveFiles(
  stream: ServerHttp2Stream,
  folders: Folders,
  { name, wanted }: { name: string; wanted: Wanted },
): Promise<void> {
  const folder = Object.hasOwn(folders, name) ? folders[name] : undefined
  if (!folder) {
    stream.resume()
    const message = encodeURIComponent(`no folder ${name} belongs to this build`)
    const refusal = { ...HEAD, 'grpc-status': STATUS.notFound, 'grpc-message': message }
    return stream.respond(refusal, { endStream: true })
  }
  let trailers: Record<string, string> = { 'grpc-status': STATUS.ok }
  stream.on('wantTrailers', () => stream.sendTrailers(trailers))
  stream.respond(HEAD, { waitForTrailers: true })
  try {
    await sendFiles(stream, folder(wanted))
    stream.end()
  } catch (error) {
    const { message } = error as Error
    trailers = { 'grpc-status': STATUS.unknown, 'grpc-message': encodeURIComponent(message) }
    if (error instanceof TakenBack) return void stream.end()
    if (!stream.destroyed) stream.end(encodeError(message))
    throw error
  }
}

function decode(value: string): string {
  try {
    return decodeURIComponent(value)
  } catch {
    return value
  }
}

/** Newer engines encode non-ASCII characters, older ones send the bytes. */
function readQuestion(raw: string[]): { name: string; wanted: Wanted } {
  const values = new Map<string, string[]>()
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = raw[i] ?? ''
    values.set(name, [...(values.get(name) ?? []), raw[i + 1] ?? ''])
  }
  const read = (name: string): string[] => {
    const isEncoded = /^(?:1|t|true)$/i.test(values.get(`${name}-encoded`)?.[0] ?? '')
    return (values.get(name) ?? []).map((value) =>
      isEncoded
        ? decode(value.replaceAll('+', ' '))
        : Buffer.from(value, 'latin1').toString('utf8'),
    )
  }
  return {
    name: read('dir-name')[0] ?? '',
    wanted: {
      excludes: read('exclude-patterns'),
      includes: read('include-patterns'),
      follow: read('followpaths'),
    },
  }
}

/** An empty file makes an empty body. Without one the modem sends an end of chunks, which could pass for HTTP/2. */
const dialSession = (
  engine: Engine,
  id: string,
  { key, signal }: SessionOptions,
): Promise<Duplex> =>
  engine.dial<Duplex>(
    {
      method: 'POST',
      path: '/session',
      hijack: true,
      file: NO_BODY,
      headers: {
        Upgrade: 'h2c',
        'x-docker-expose-session-uuid': id,
        'x-docker-expose-session-name': 'berth',
        'x-docker-expose-session-sharedkey': key,
        'x-docker-expose-session-grpc-method': [...VALUE_CALLS, FILES],
      },
    },
    { signal },
  )
