// Files that actions produced: reported by agents, listed, and fetched from their servers on request. This file alone
// checks access: a caller who may read the task may fetch its files. Invariant: a reader gets exactly the collected
// bytes or an error; the last piece is held back until length and digest agree.
import { createHash } from 'node:crypto'
import { AppError, ARTIFACTS, DAEMON, TRANSFERS } from '@berth/shared'
import {
  type ArtifactsCollected,
  type FileFrame,
  type FileStat,
  type OpenFile,
  type RequestError,
  RequestErrorCode,
} from '@berth/shared/wire'
import { timestampMs } from '@bufbuild/protobuf/wkt'
import { callAgent, findLiveAgent } from '../../agents/agent-rpc.ts'
import { expectTransfer } from '../../agents/transfers.ts'
import { BrokenTransfer } from '../../agents/uploads.ts'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { type ByteRange, parseRange } from '../../domain/core/byte-range.ts'
import { acceptArtifact } from '../../domain/files/artifact.ts'
import type { Task } from '../../store/deployments/tasks.ts'
import {
  type Artifact,
  countArtifacts,
  findArtifact,
  insertArtifacts,
  listArtifacts,
} from '../../store/files/artifacts.ts'
import { loadTask } from '../core/access.ts'
import type { Change } from '../core/change.ts'
import { emitTask } from '../core/transaction.ts'

/** Records what an agent reported; drops invalid files and files above the limit of a task. */
export async function recordArtifacts(
  c: Change,
  task: Task,
  { artifacts }: ArtifactsCollected,
): Promise<void> {
  if (task.type !== 'action') return
  const left = ARTIFACTS.files - (await countArtifacts(c.db, task.id))
  const kept = artifacts
    .map((reported) =>
      acceptArtifact(
        {
          fileId: reported.artifactId,
          path: reported.relativePath,
          sizeBytes: Number(reported.size),
          sha256: Buffer.from(reported.sha256).toString('hex'),
          expiresAt: reported.expiresAt ? timestampMs(reported.expiresAt) : 0,
        },
        c.now,
      ),
    )
    .filter((reported) => reported !== undefined)
    .slice(0, Math.max(0, left))
  const { id: taskId, serverId } = task
  await insertArtifacts(
    c.db,
    kept.map((reported) => ({ ...reported, taskId, serverId, collectedAt: c.now })),
  )
  emitTask(c, task, 'task.artifacts', { files: kept.length })
}

export async function listTaskArtifacts(
  ctx: Context,
  caller: Caller,
  taskId: number,
): Promise<Artifact[]> {
  await loadTask(ctx.db, caller, taskId, 'read')
  return listArtifacts(ctx.db, taskId)
}

async function loadArtifact(ctx: Context, caller: Caller, id: number): Promise<Artifact> {
  const artifact = await findArtifact(ctx.db, id)
  if (!artifact) throw new AppError('not_found', "Not found, or you don't have access.")
  await loadTask(ctx.db, caller, artifact.taskId, 'read')
  return artifact
}

interface ContentRequest {
  /** The headers as received; absent for the whole file. */
  range?: string | undefined
  ifRange?: string | undefined
  /** Only size and digest are requested (HEAD). */
  statOnly?: boolean
  /** Aborted when the reader disconnects. */
  signal: AbortSignal
}

export interface ArtifactContent {
  artifact: Artifact
  /** The whole file's size. */
  size: number
  etag: string
  /** Undefined for the whole file. */
  range: ByteRange | undefined
  /** Exactly `range`, or it throws. Its one reader must read or abort it, and has the only reference to each piece. */
  bytes: AsyncIterable<Buffer>
}

/** Resolves after the server sent size and digest; the first bytes are already requested. */
export async function openArtifactContent(
  ctx: Context,
  caller: Caller,
  id: number,
  o: ContentRequest,
): Promise<ArtifactContent> {
  const artifact = await loadArtifact(ctx, caller, id)
  const etag = `"${artifact.sha256}"`
  if (artifact.expiresAt <= ctx.clock.now()) throw artifactExpired(artifact)
  const isSame = o.ifRange === undefined || o.ifRange === etag
  const range = isSame ? parseRange(o.range, artifact.sizeBytes) : undefined
  if (range === 'unsatisfiable') {
    const { sizeBytes } = artifact
    throw new AppError('range_not_satisfiable', `The file has ${sizeBytes} bytes.`, {
      size_bytes: sizeBytes,
    })
  }
  const wanted = range ?? { from: 0, to: artifact.sizeBytes }
  const bytes = o.statOnly
    ? await look(ctx, artifact, o.signal)
    : await fetch(ctx, artifact, wanted, o.signal)
  return { artifact, size: artifact.sizeBytes, etag, range, bytes }
}

export const artifactExpired = ({ path, expiresAt }: Artifact): AppError =>
  new AppError(
    'artifact_expired',
    `${path} was kept until ${new Date(expiresAt).toISOString().slice(0, 16).replace('T', ' ')} UTC. Run the action again.`,
  )

export const artifactChanged = ({ path }: Artifact): AppError =>
  new AppError(
    'artifact_changed',
    `${path} is no longer the file that was collected. Run the action again.`,
  )

/** Translates an agent's refusal for the client that asked for the file. */
export function refusalOf(artifact: Artifact, { code, message }: RequestError): AppError {
  switch (code) {
    case RequestErrorCode.NOT_FOUND:
      return new AppError(
        'artifact_gone',
        `${artifact.path} is no longer on its server. Run the action again.`,
      )
    case RequestErrorCode.EXPIRED:
      return artifactExpired(artifact)
    case RequestErrorCode.CHANGED:
    case RequestErrorCode.REFUSED:
      return artifactChanged(artifact)
    default:
      return new AppError('unavailable', `The server could not send the file: ${message}`)
  }
}

async function ask(
  ctx: Context,
  artifact: Artifact,
  question: Partial<OpenFile>,
  signal: AbortSignal,
): Promise<void> {
  const value: OpenFile = {
    $typeName: 'berth.agent.v1.OpenFile',
    artifactId: artifact.fileId,
    statOnly: false,
    transferId: '',
    offset: 0n,
    length: 0n,
    fileLine: false,
    ...question,
  }
  const o = { deadlineMs: DAEMON.requestMs, signal }
  const answer = await callAgent(ctx, artifact.serverId, { case: 'openFile', value }, o)
  if (answer.case === 'error') throw refusalOf(artifact, answer.value)
  if (answer.case !== 'fileStat' || !isRecorded(artifact, answer.value))
    throw artifactChanged(artifact)
}

const isRecorded = (artifact: Artifact, stat: FileStat | undefined): boolean =>
  stat !== undefined &&
  Number(stat.size) === artifact.sizeBytes &&
  Buffer.from(stat.sha256).toString('hex') === artifact.sha256

async function look(
  ctx: Context,
  artifact: Artifact,
  signal: AbortSignal,
): Promise<AsyncIterable<Buffer>> {
  await ask(ctx, artifact, { statOnly: true }, signal)
  return nothing()
}

async function* nothing(): AsyncGenerator<Buffer> {}

async function fetch(
  ctx: Context,
  artifact: Artifact,
  { from, to }: ByteRange,
  signal: AbortSignal,
): Promise<AsyncIterable<Buffer>> {
  const agentId = await findLiveAgent(ctx, artifact.serverId)
  const { firstFrameMs, idleMs } = TRANSFERS
  const transfer = expectTransfer(ctx, agentId, 'file', { firstFrameMs, idleMs, signal })
  try {
    const question = {
      transferId: transfer.transferId,
      offset: BigInt(from),
      length: BigInt(to - from),
      fileLine: to - from >= TRANSFERS.lineFromBytes,
    }
    await ask(ctx, artifact, question, signal)
    const frames = transfer.frames[Symbol.asyncIterator]()
    const first = await frames.next()
    const head = first.done ? undefined : first.value.frame
    if (head?.case === 'error') throw refusalOf(artifact, head.value)
    const isWanted =
      head?.case === 'header' &&
      isRecorded(artifact, head.value.stat) &&
      Number(head.value.offset) === from &&
      Number(head.value.length) === to - from
    if (!isWanted) throw artifactChanged(artifact)
    return await beginReading(readBytes(frames, artifact, { from, to }))
  } catch (error) {
    transfer.cancel()
    throw error
  }
}

/** Resolves with the first piece, so that an earlier failure is an error and not a broken connection. */
export async function beginReading(bytes: AsyncGenerator<Buffer>): Promise<AsyncIterable<Buffer>> {
  const first = await bytes.next()
  return (async function* () {
    if (first.done) return
    yield first.value
    yield* bytes
  })()
}

/** Passes on each piece when the next one arrives, and the last one when length and digest agree. */
async function* readBytes(
  frames: AsyncIterator<FileFrame>,
  artifact: Artifact,
  { from, to }: ByteRange,
): AsyncGenerator<Buffer> {
  const hash = createHash('sha256')
  let count = 0
  let held: Buffer | undefined
  try {
    for (;;) {
      const next = await frames.next()
      if (next.done) throw new BrokenTransfer('The file ended before its end. Try again.')
      const { frame } = next.value
      if (frame.case === 'data') {
        const { buffer, byteOffset, byteLength } = frame.value
        const piece = Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)
        count += piece.length
        if (count > to - from) throw new BrokenTransfer('The server sent more than the file has.')
        hash.update(piece)
        if (held) yield held
        held = piece
        continue
      }
      if (frame.case === 'error') throw refusalOf(artifact, frame.value)
      if (frame.case !== 'end')
        throw new BrokenTransfer('The server sent something else than the file.')
      const digest = hash.digest('hex')
      const isWhole = from === 0 && to === artifact.sizeBytes
      const isSame =
        count === to - from &&
        Number(frame.value.bytesSent) === count &&
        Buffer.from(frame.value.sha256).toString('hex') === digest &&
        (!isWhole || digest === artifact.sha256)
      if (!isSame) throw artifactChanged(artifact)
      if (held) yield held
      await frames.next() // reads the end, so that the agent learns that everything arrived
      return
    }
  } finally {
    await frames.return?.()
  }
}
