// The protocol from the child that reads an environment's files to the runner, over its stdout: a kind, a length,
// bytes. The child has the environment's rights, so the reader checks everything again.
import { ARTIFACTS } from '@berth/shared'

/** file: begins, `data` follows, `end` closes it. over: the first that a bound leaves out; only `done` follows. */
export type FrameKind = 'file' | 'data' | 'end' | 'skip' | 'over' | 'fail' | 'done'

const KINDS: readonly FrameKind[] = ['file', 'data', 'end', 'skip', 'over', 'fail', 'done']
const HEAD = 5

export interface Frame {
  kind: FrameKind
  body: Buffer
}

export function encodeHead(kind: FrameKind, length: number): Buffer {
  const head = Buffer.alloc(HEAD)
  head.writeUInt8(KINDS.indexOf(kind), 0)
  head.writeUInt32BE(length, 1)
  return head
}

export class FrameReader {
  #rest: Buffer

  constructor() {
    this.#rest = Buffer.alloc(0)
  }

  /** The frames that are complete now. */
  *read(chunk: Buffer): Generator<Frame> {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    while (this.#rest.length >= HEAD) {
      const kind = KINDS[this.#rest.readUInt8(0)]
      const length = this.#rest.readUInt32BE(1)
      if (kind === undefined || length > ARTIFACTS.frameBytes) throw new Error('a broken frame')
      if (this.#rest.length < HEAD + length) return
      const body = this.#rest.subarray(HEAD, HEAD + length)
      this.#rest = this.#rest.subarray(HEAD + length)
      yield { kind, body }
    }
  }
}
