// Answers BuildKit's questions for values during a build: secrets, credentials of registries, signatures of an SSH key.
// Nothing is written to disk, and nothing that was not granted to this build is answered.
import type { ServerHttp2Stream } from 'node:http2'
import { registryHost } from '@berth/shared'
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import type { RegistryCredentials } from '../registries.ts'
import { frameMessage, messageReader } from './grpc-messages.ts'
import { openSshAgent, type SigningKey } from './ssh-agent.ts'

export interface BuildGrants {
  /** Values by their `id` in `RUN --mount=type=secret`. */
  secrets: ReadonlyMap<string, string>
  /** What `RUN --mount=type=ssh` may sign with. */
  sshKey: SigningKey | undefined
  registries: RegistryCredentials
}

export const NO_GRANTS: BuildGrants = {
  secrets: new Map(),
  sshKey: undefined,
  registries: new Map(),
}

export const STATUS = {
  ok: '0',
  unknown: '2',
  notFound: '5',
  unimplemented: '12',
} as const
export const HEAD = { ':status': 200, 'content-type': 'application/grpc' } as const

/** status: SERVING */
const SERVING = new Uint8Array([0x08, 0x01])
const NO_FIELDS = new Uint8Array()

/** The bytes of the first field, which is all that these requests have. */
function readFirst(message: Uint8Array): Buffer {
  const reader = new BinaryReader(message)
  let value = Buffer.alloc(0)
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag()
    if (field === 1 && type === WireType.LengthDelimited) value = Buffer.from(reader.bytes())
    else reader.skip(type, field)
  }
  return value
}

const encodeFields = (...values: (string | Uint8Array)[]): Uint8Array => {
  const writer = new BinaryWriter()
  for (const [index, value] of values.entries()) {
    writer.tag(index + 1, WireType.LengthDelimited).bytes(Buffer.from(value as Uint8Array))
  }
  return writer.finish()
}

type Call = (question: string, grants: BuildGrants) => Uint8Array | undefined

/** Undefined means «not found», which BuildKit treats as absent unless the Dockerfile requires it. */
const CALLS: Record<string, Call> = {
  '/grpc.health.v1.Health/Check': () => SERVING,
  '/moby.filesync.v1.Auth/Credentials': (host, { registries }) => {
    const found = registries.get(registryHost(host))
    return found ? encodeFields(found.username, found.password) : NO_FIELDS
  },
  '/moby.buildkit.secrets.v1.Secrets/GetSecret': (id, { secrets }) => {
    const value = secrets.get(id)
    return value === undefined ? undefined : encodeFields(value)
  },
  '/moby.sshforward.v1.SSH/CheckAgent': (id, { sshKey }) =>
    sshKey && isDefault(id) ? NO_FIELDS : undefined,
}
const FORWARD = '/moby.sshforward.v1.SSH/ForwardAgent'
export const VALUE_CALLS = [...Object.keys(CALLS), FORWARD]

const isDefault = (id: string): boolean => id === '' || id === 'default'

const refuse = (stream: ServerHttp2Stream, status: string): void => {
  stream.resume()
  stream.respond({ ...HEAD, 'grpc-status': status }, { endStream: true })
}

function begin(stream: ServerHttp2Stream): ServerHttp2Stream {
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': STATUS.ok }))
  stream.respond(HEAD, { waitForTrailers: true })
  return stream
}

/** Answers everything but requests for files. */
export function answerCall(
  stream: ServerHttp2Stream,
  { path, sshId }: { path: string; sshId: string },
  grants: BuildGrants,
): void {
  const call = Object.hasOwn(CALLS, path) ? CALLS[path] : undefined
  if (call) answerOnce(stream, call, grants)
  else if (path === FORWARD) forwardAgent(stream, sshId, grants)
  else refuse(stream, STATUS.unimplemented)
}

function answerOnce(stream: ServerHttp2Stream, call: Call, grants: BuildGrants): void {
  let question = ''
  const read = messageReader((message) => {
    question = readFirst(message).toString('utf8')
  })
  stream.on('data', (chunk: Buffer) => {
    try {
      read(chunk)
    } catch {
      stream.close()
    }
  })
  stream.on('end', () => {
    const message = call(question, grants)
    if (message) begin(stream).end(frameMessage(message))
    else refuse(stream, STATUS.notFound)
  })
}

/** One connection to the agent's socket inside the build. */
function forwardAgent(stream: ServerHttp2Stream, id: string, { sshKey }: BuildGrants): void {
  if (!sshKey || !isDefault(id)) {
    refuse(stream, STATUS.notFound)
    return
  }
  const agent = openSshAgent(sshKey)
  begin(stream)
  const read = messageReader((message) => {
    const bytes = agent(readFirst(message))
    if (bytes.length > 0) stream.write(frameMessage(encodeFields(bytes)))
  })
  stream.on('data', (chunk: Buffer) => {
    try {
      read(chunk)
    } catch {
      stream.close() // not the protocol of an SSH agent
    }
  })
  stream.on('end', () => stream.end())
}
