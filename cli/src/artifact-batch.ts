// Several files in one SSH session: on its output, for each in the order asked for, a line with size and digest, then
// that many bytes. Invariants: a file is given out only as the one that was listed; what ends early is an error of the
// file under way; once the place in the stream is lost, nothing more is read from it.
import { setTimeout as delay } from 'node:timers/promises'
import { CLIENT } from '@berth/shared/client-limits'
import type { Artifact } from '@berth/shared/rest'
import type { OpenedArtifact } from './artifact-source.ts'
import { CliError, EXIT } from './exit.ts'
import type { SshSession } from './ssh-run.ts'

export type Header = { size: number; sha256: string }

/** Lines and counted bytes of one stream. */
class Reader {
  readonly #chunks: AsyncIterator<Buffer>
  #rest: Buffer = Buffer.alloc(0)

  constructor(stream: AsyncIterable<Buffer>) {
    this.#chunks = stream[Symbol.asyncIterator]()
  }

  /** False: there is no more. */
  async #more(): Promise<boolean> {
    const { done, value } = await this.#chunks.next()
    if (done) return false
    this.#rest = this.#rest.length === 0 ? value : Buffer.concat([this.#rest, value])
    return true
  }

  /** Without its end; undefined: no whole line comes. */
  async line(): Promise<string | undefined> {
    for (;;) {
      const end = this.#rest.indexOf(10)
      if (end >= 0) {
        const line = this.#rest.subarray(0, end).toString('latin1')
        this.#rest = this.#rest.subarray(end + 1)
        return line
      }
      if (this.#rest.length > CLIENT.sshErrorBytes || !(await this.#more())) return undefined
    }
  }

  /** At most so many. */
  async *bytes(count: number): AsyncGenerator<Buffer> {
    for (let left = count; left > 0; ) {
      if (this.#rest.length === 0 && !(await this.#more())) return
      const piece = this.#rest.subarray(0, left)
      this.#rest = this.#rest.subarray(piece.length)
      left -= piece.length
      yield piece
    }
  }

  async isAtEnd(): Promise<boolean> {
    return this.#rest.length === 0 && !(await this.#more())
  }
}

export interface BatchOptions {
  session: SshSession
  files: readonly Artifact[]
  parse: (line: string) => Header | undefined
  /** Why the session ended before its time; `anything`: whether something came at all. */
  explain: (anything: boolean) => Promise<CliError>
  /** The session and what belongs to it. */
  end: () => Promise<void>
}

export class Batch {
  readonly #o: BatchOptions
  readonly #reader: Reader
  #at = 0
  #isOpen = true

  constructor(options: BatchOptions) {
    this.#o = options
    this.#reader = new Reader(options.session.stdout as AsyncIterable<Buffer>)
  }

  /** Whether this file is what comes next here. */
  brings(artifact: Artifact): boolean {
    return this.#isOpen && this.#o.files[this.#at]?.file_id === artifact.file_id
  }

  async next(artifact: Artifact): Promise<OpenedArtifact> {
    try {
      const isFirst = this.#at === 0
      this.#at += 1
      const line = await this.#reader.line()
      if (line === undefined) throw await this.#o.explain(!isFirst)
      const header = this.#o.parse(line)
      if (!header) throw new CliError(EXIT.error, 'the server did not say what it sends')
      if (header.size !== artifact.size_bytes || header.sha256 !== artifact.sha256) {
        const message = `${artifact.path}: the server offers another file than it listed`
        throw new CliError(EXIT.error, message, 'list the files again')
      }
      return { ...header, from: 0, bytes: this.#bytes(header.size) }
    } catch (error) {
      await this.close()
      throw error
    }
  }

  async *#bytes(size: number): AsyncGenerator<Uint8Array> {
    let left = size
    let isDone = false
    try {
      for await (const piece of this.#reader.bytes(size)) {
        left -= piece.length
        yield piece
      }
      if (left > 0) throw await this.#o.explain(true)
      if (this.#at === this.#o.files.length) await this.#checkEnd()
      isDone = true
    } finally {
      if (!isDone) await this.close()
    }
  }

  /**
   * The last one is believed when the server's side ended well. One that does not end at all is not waited for: every
   * byte is here, and whether they are the right ones is for the digest to say.
   */
  async #checkEnd(): Promise<void> {
    const late = delay(CLIENT.sshEndMs, undefined, { ref: false })
    const isAtEnd = await Promise.race([this.#reader.isAtEnd(), late])
    if (isAtEnd === false) {
      throw new CliError(EXIT.error, 'more came than the server was asked for')
    }
    const end = await Promise.race([this.#o.session.ended, late])
    if (end && end.code !== 0) throw await this.#o.explain(true)
    await this.close()
  }

  async close(): Promise<void> {
    if (!this.#isOpen) return
    this.#isOpen = false
    await this.#o.end()
  }
}

/** As many as one request has room for. */
export function fitting(artifacts: readonly Artifact[], platform: NodeJS.Platform): Artifact[] {
  let room: number = platform === 'win32' ? CLIENT.sshBatchBytes : CLIENT.sshWordsBytes
  const many = artifacts.findIndex(({ file_id: id }) => {
    room -= id.length + 1
    return room < 0
  })
  return artifacts.slice(0, many < 0 ? artifacts.length : many)
}
