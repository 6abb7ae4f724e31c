// Streams several files of one task: for each file a line with size and digest, then its bytes. Servers send the files
// back to back; the records say where one ends and check its digest. Invariants: the last piece of a file is held back
// until its digest agrees; a missing file becomes an error line between two files and ends the stream; any other
// failure breaks the stream.
import { createHash, type Hash } from 'node:crypto'
import { AppError, DAEMON, TRANSFERS } from '@berth/shared'
import type { FileFrame } from '@berth/shared/wire'
import { callAgent, findLiveAgent } from '../../agents/agent-rpc.ts'
import { expectTransfer } from '../../agents/transfers.ts'
import { BrokenTransfer } from '../../agents/uploads.ts'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { type Artifact, listArtifacts } from '../../store/files/artifacts.ts'
import { loadTask } from '../core/access.ts'
import { artifactChanged, artifactExpired, beginReading, refusalOf } from './artifacts.ts'

/** Loads files of the task in the requested order; an id of another task is refused like an unknown id. */
async function loadFiles(
  ctx: Context,
  caller: Caller,
  taskId: number,
  ids: readonly number[],
): Promise<Artifact[]> {
  await loadTask(ctx.db, caller, taskId, 'read')
  const known = new Map((await listArtifacts(ctx.db, taskId)).map((one) => [one.id, one]))
  return ids.map((id) => {
    const found = known.get(id)
    if (!found) throw new AppError('not_found', "Not found, or you don't have access.")
    return found
  })
}

/**
 * Resolves with the first bytes, so that a problem with the first file is an error of its own. The reader has the
 * only reference to each piece.
 */
export async function openArtifactBatch(
  ctx: Context,
  caller: Caller,
  taskId: number,
  ids: readonly number[],
  signal: AbortSignal,
): Promise<AsyncIterable<Buffer>> {
  const files = await loadFiles(ctx, caller, taskId, ids)
  const [first] = files
  if (!first) throw new AppError('not_found', "Not found, or you don't have access.")
  const now = ctx.clock.now()
  if (first.expiresAt <= now) throw artifactExpired(first)
  // all files of a task expire together, and the server knows the same expiry times
  const agentId = await findLiveAgent(ctx, first.serverId)
  const { firstFrameMs, idleMs } = TRANSFERS
  const transfer = expectTransfer(ctx, agentId, 'file', { firstFrameMs, idleMs, signal })
  try {
    const value = {
      $typeName: 'berth.agent.v1.OpenFiles' as const,
      transferId: transfer.transferId,
      artifactIds: files.map(({ fileId }) => fileId),
      fileLine: files.reduce((sum, one) => sum + one.sizeBytes, 0) >= TRANSFERS.lineFromBytes,
    }
    const o = { deadlineMs: DAEMON.requestMs, signal }
    const answer = await callAgent(ctx, first.serverId, { case: 'openFiles', value }, o)
    if (answer.case === 'error') throw refusalOf(first, answer.value)
    const frames = transfer.frames[Symbol.asyncIterator]()
    const head = await frames.next()
    if (head.done || head.value.frame.case !== 'header') throw artifactChanged(first)
    return await beginReading(split(frames, files))
  } catch (error) {
    transfer.cancel()
    throw error
  }
}

/** The file in progress. */
interface Current {
  artifact: Artifact
  hash: Hash
  left: number
  /** Its last received piece, not yet passed on. */
  held: Buffer | undefined
}

/** Splits the received bytes into files. */
class Cutter {
  readonly #files: readonly Artifact[]
  #at = 0
  #current: Current | undefined
  #out: Buffer[] = []

  constructor(files: readonly Artifact[]) {
    this.#files = files
    this.#skipEmpty()
  }

  get isDone(): boolean {
    return this.#at === this.#files.length
  }

  /** Between two files, the one that follows. */
  get next(): Artifact | undefined {
    return this.#current ? undefined : this.#files[this.#at]
  }

  take(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      const current = this.#current ?? this.#open()
      if (current.held) this.#out.push(current.held)
      const piece = bytes.subarray(at, at + current.left)
      current.hash.update(piece)
      current.held = piece
      current.left -= piece.length
      at += piece.length
      if (current.left === 0) this.#close(current)
    }
  }

  /** Returns all bytes that may be passed on now, as one piece. */
  flush(): Buffer | undefined {
    const out = this.#out
    this.#out = []
    return out.length > 1 ? Buffer.concat(out) : out[0]
  }

  #open(): Current {
    const artifact = this.#files[this.#at]
    if (!artifact) throw new BrokenTransfer('The server sent more than the files have.')
    this.#announce(artifact)
    const { sizeBytes: left } = artifact
    this.#current = { artifact, hash: createHash('sha256'), left, held: undefined }
    return this.#current
  }

  #close({ artifact, hash, held }: Current): void {
    if (hash.digest('hex') !== artifact.sha256) throw artifactChanged(artifact)
    if (held) this.#out.push(held)
    this.#current = undefined
    this.#at += 1
    this.#skipEmpty()
  }

  /** No bytes arrive for empty files. */
  #skipEmpty(): void {
    for (let next = this.next; next?.sizeBytes === 0; next = this.next) {
      this.#announce(next)
      this.#at += 1
    }
  }

  #announce({ sizeBytes, sha256 }: Artifact): void {
    this.#out.push(Buffer.from(`size=${sizeBytes} sha256=${sha256}\n`))
  }
}

const refusalLine = ({ code, message }: AppError): Buffer =>
  Buffer.from(`error=${code} ${JSON.stringify(message)}\n`)

async function* split(
  frames: AsyncIterator<FileFrame>,
  files: readonly Artifact[],
): AsyncGenerator<Buffer> {
  const cutter = new Cutter(files)
  try {
    for (;;) {
      const came = await frames.next()
      if (came.done) throw new BrokenTransfer('The files ended before their end. Try again.')
      const { frame } = came.value
      if (frame.case === 'data') {
        const { buffer, byteOffset, byteLength } = frame.value
        cutter.take(Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength))
        const ready = cutter.flush()
        if (ready) yield ready
        continue
      }
      const { next } = cutter
      const isRefused = frame.case === 'error' && next !== undefined
      if (!isRefused && !(frame.case === 'end' && cutter.isDone)) {
        throw new BrokenTransfer('The server sent something else than the files.')
      }
      const ready = cutter.flush()
      if (ready) yield ready
      if (isRefused) yield refusalLine(refusalOf(next, frame.value))
      await frames.next() // reads the end, so that the agent learns that everything arrived
      return
    }
  } finally {
    await frames.return?.()
  }
}
