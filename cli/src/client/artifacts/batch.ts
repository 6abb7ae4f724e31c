// Reads several files from one stream (an SSH session or one answer of the control plane): for each file, in the
// requested order, a line with size and digest, then that many bytes. Invariants: a file is returned only if it is the
// one that was listed; a stream that ends early fails the current file; once the position is lost, nothing more is read
// from the stream.

import type { Artifact } from '@berth/shared/api'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT } from '../../terminal/exit.ts'
import type { OpenedArtifact, OpenTarget } from './source.ts'

export type Header = { size: number; sha256: string }

const HEADER = /^size=(\d{1,15}) sha256=([0-9a-f]{64})$/

/** Undefined: not a header line. */
export function parseHeader(line: string): Header | undefined {
  const match = HEADER.exec(line)
  return match ? { size: Number(match[1]), sha256: match[2] ?? '' } : undefined
}

/** Reads lines and counted bytes of one stream. */
class Reader {
  readonly #chunks: AsyncIterator<Uint8Array>
  #rest: Buffer = Buffer.alloc(0)

  constructor(stream: AsyncIterable<Uint8Array>) {
    this.#chunks = stream[Symbol.asyncIterator]()
  }

  /** False: the stream has ended. */
  async #more(): Promise<boolean> {
    const { done, value } = await this.#chunks.next()
    if (done) return false
    const came = Buffer.from(value.buffer as ArrayBuffer, value.byteOffset, value.byteLength)
    this.#rest = this.#rest.length === 0 ? came : Buffer.concat([this.#rest, came])
    return true
  }

  /** Without its line ending; undefined: no complete line comes. */
  async line(): Promise<string | undefined> {
    for (;;) {
      const end = this.#rest.indexOf(10)
      if (end >= 0) {
        const line = this.#rest.toString('utf8', 0, end)
        this.#rest = this.#rest.subarray(end + 1)
        return line
      }
      if (this.#rest.length > CLIENT.sshErrorBytes || !(await this.#more())) return undefined
    }
  }

  /** At most `count` bytes. */
  async *bytes(count: number): AsyncGenerator<Buffer> {
    for (let left = count; left > 0; ) {
      if (this.#rest.length === 0 && !(await this.#more())) return
      const piece = this.#rest.subarray(0, left)
      this.#rest = this.#rest.subarray(piece.length)
      left -= piece.length
      yield piece
    }
  }

  /** All of them, if they have already arrived. */
  take(count: number): Buffer | undefined {
    if (this.#rest.length < count) return undefined
    const piece = this.#rest.subarray(0, count)
    this.#rest = this.#rest.subarray(count)
    return piece
  }

  async isAtEnd(): Promise<boolean> {
    return this.#rest.length === 0 && !(await this.#more())
  }
}

interface BatchOptions {
  stream: AsyncIterable<Uint8Array>
  files: readonly Artifact[]
  /** Why there is no header: from the line, or from how the stream ended; `anything`: whether something came before. */
  explain: (line: string | undefined, anything: boolean) => Promise<CliError>
  /** After the last byte of the last file: throws unless the peer ended well. */
  checkEnd: (isAtEnd: Promise<boolean>) => Promise<void>
  /** Closes the stream and its resources. */
  end: () => Promise<void>
}

export class Batch {
  readonly #o: BatchOptions
  readonly #reader: Reader
  #at = 0
  #isOpen = true

  constructor(options: BatchOptions) {
    this.#o = options
    this.#reader = new Reader(options.stream)
  }

  /** Whether this file is the next one in the stream. */
  brings(artifact: Artifact): boolean {
    return this.#isOpen && this.#o.files[this.#at]?.file_id === artifact.file_id
  }

  async next(artifact: Artifact): Promise<OpenedArtifact> {
    try {
      const isFirst = this.#at === 0
      this.#at += 1
      const line = await this.#reader.line()
      const header = parseHeader(line ?? '')
      if (!header) throw await this.#o.explain(line, !isFirst)
      if (header.size !== artifact.size_bytes || header.sha256 !== artifact.sha256) {
        const message = `${artifact.path}: the server offers another file than it listed`
        throw new CliError(EXIT.error, message, 'list the files again')
      }
      return { ...header, from: 0, bytes: this.#here(header.size) ?? this.#bytes(header.size) }
    } catch (error) {
      await this.close()
      throw error
    }
  }

  /** A small file that arrived with the previous one, as most do; not for the last one, which must await the end. */
  #here(size: number): Iterable<Uint8Array> | undefined {
    const piece = this.#at < this.#o.files.length ? this.#reader.take(size) : undefined
    return piece && [piece]
  }

  async *#bytes(size: number): AsyncGenerator<Uint8Array> {
    let left = size
    let isDone = false
    try {
      for await (const piece of this.#reader.bytes(size)) {
        left -= piece.length
        yield piece
      }
      if (left > 0) throw await this.#o.explain(undefined, true)
      if (this.#at === this.#o.files.length) {
        await this.#o.checkEnd(this.#reader.isAtEnd())
        await this.close()
      }
      isDone = true
    } finally {
      if (!isDone) await this.close()
    }
  }

  async close(): Promise<void> {
    if (!this.#isOpen) return
    this.#isOpen = false
    await this.#o.end()
  }
}

export const tooMuch = (): CliError =>
  new CliError(EXIT.error, 'more came than the server was asked for')

/** One way to fetch bytes, for one file or several. */
interface BatchedWay {
  openOne(artifact: Artifact, offset: number, target?: OpenTarget): Promise<OpenedArtifact>
  openMany(files: readonly Artifact[]): Promise<Batch>
  /** A batch is already open, so even one file uses it. */
  isPrepared?(): boolean
  /** The first files that fit in one request; none: the first file is fetched alone. */
  fitting(files: readonly Artifact[]): readonly Artifact[]
}

/** Fetches the rest of a file alone, and a complete file together with those that follow it. */
export function openBatched(way: BatchedWay) {
  let expected: readonly Artifact[] = []
  let batch: Batch | undefined
  return {
    expect(artifacts: readonly Artifact[]): void {
      expected = artifacts
    },
    close: async (): Promise<void> => batch?.close(),
    async open(artifact: Artifact, offset: number, target?: OpenTarget): Promise<OpenedArtifact> {
      if (offset === 0 && batch?.brings(artifact)) return batch.next(artifact)
      await batch?.close()
      batch = undefined
      const at = expected.indexOf(artifact)
      const files = at < 0 ? [] : way.fitting(expected.slice(at))
      const isOne = files.length < (way.isPrepared?.() ? 1 : 2)
      if (offset > 0 || isOne) return way.openOne(artifact, offset, target)
      batch = await way.openMany(files)
      return batch.next(artifact)
    },
  }
}

/** As many as fit in this many characters, with one separator between them. */
export function fittingIn(
  files: readonly Artifact[],
  chars: number,
  nameOf: (artifact: Artifact) => string,
): readonly Artifact[] {
  let room = chars
  const many = files.findIndex((one) => {
    room -= nameOf(one).length + 1
    return room < 0
  })
  return files.slice(0, many < 0 ? files.length : many)
}
