// Decodes BuildKit's status messages (moby.buildkit.v1.StatusResponse), as far as we need them: steps and their output.
// Skips unknown fields, because newer engines send more.
import { BinaryReader } from '@bufbuild/protobuf/wire'

export interface Vertex {
  digest: string
  name: string
  cached: boolean
  startedMs: number | undefined
  completedMs: number | undefined
  error: string
}

export interface VertexLog {
  vertex: string
  stream: number
  bytes: Uint8Array
}

export interface BuildStatus {
  vertexes: Vertex[]
  logs: VertexLog[]
}

type Fields = Record<number, (reader: BinaryReader) => void>

/** Calls the handler of each known field. */
function readFields(bytes: Uint8Array, fields: Fields): void {
  const reader = new BinaryReader(bytes)
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag()
    const read = fields[field]
    if (read) read(reader)
    else reader.skip(type, field)
  }
}

export function decodeStatus(bytes: Uint8Array): BuildStatus {
  const status: BuildStatus = { vertexes: [], logs: [] }
  readFields(bytes, {
    1: (r) => status.vertexes.push(decodeVertex(r.bytes())),
    3: (r) => status.logs.push(decodeLog(r.bytes())),
  })
  return status
}

function decodeVertex(bytes: Uint8Array): Vertex {
  const vertex: Vertex = {
    digest: '',
    name: '',
    cached: false,
    startedMs: undefined,
    completedMs: undefined,
    error: '',
  }
  readFields(bytes, {
    1: (r) => {
      vertex.digest = r.string()
    },
    3: (r) => {
      vertex.name = r.string()
    },
    4: (r) => {
      vertex.cached = r.bool()
    },
    5: (r) => {
      vertex.startedMs = decodeTime(r.bytes())
    },
    6: (r) => {
      vertex.completedMs = decodeTime(r.bytes())
    },
    7: (r) => {
      vertex.error = r.string()
    },
  })
  return vertex
}

function decodeLog(bytes: Uint8Array): VertexLog {
  const log: VertexLog = { vertex: '', stream: 0, bytes: new Uint8Array() }
  readFields(bytes, {
    1: (r) => {
      log.vertex = r.string()
    },
    3: (r) => {
      log.stream = Number(r.int64())
    },
    4: (r) => {
      log.bytes = r.bytes()
    },
  })
  return log
}

function decodeTime(bytes: Uint8Array): number {
  let seconds = 0
  let nanos = 0
  readFields(bytes, {
    1: (r) => {
      seconds = Number(r.int64())
    },
    2: (r) => {
      nanos = r.int32()
    },
  })
  return seconds * 1_000 + nanos / 1e6
}
