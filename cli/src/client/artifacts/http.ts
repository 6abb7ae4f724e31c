// Fetches artifacts through the control plane: one by its own address, from any byte on, or several in one answer. If
// the control plane or the server does not support the latter, files are requested one after the other.

import type { Artifact } from '@berth/shared/api'
import { ARTIFACT_BATCH } from '@berth/shared/limits'
import { freeBytes } from '@berth/shared/memory'
import { z } from 'zod'
import { CliError, EXIT } from '../../terminal/exit.ts'
import type { Io } from '../../terminal/io.ts'
import type { Api } from '../api.ts'
import { REPEATABLE_STATUS } from '../http.ts'
import { chunksOf } from '../log-stream.ts'
import { ApiFailure, noAnswer } from '../problem.ts'
import { Batch, fittingIn, openBatched, tooMuch } from './batch.ts'
import type { ArtifactSource, OpenedArtifact } from './source.ts'

/** An answer compressed by a proxy would not state its length. */
const ACCEPT = { accept: 'application/octet-stream', 'accept-encoding': 'identity' }
const PASSING = ['transfers_busy', 'server_offline', 'server_timeout']

async function openOne(
  api: Api,
  io: Io,
  artifact: Artifact,
  offset: number,
): Promise<OpenedArtifact> {
  const range = { range: `bytes=${offset}-`, 'if-range': `"${artifact.sha256}"` }
  const response = await api.stream(`/api/artifacts/${artifact.id}/content`, {
    headers: { ...ACCEPT, ...(offset > 0 ? range : {}) },
  })
  const digest = /^sha-256=:([A-Za-z0-9+/=]{44}):$/.exec(response.headers.get('repr-digest') ?? '')
  const isPart = response.status === 206
  const total = isPart
    ? /\/(\d+)$/.exec(response.headers.get('content-range') ?? '')?.[1]
    : response.headers.get('content-length')
  return {
    size: Number(total ?? Number.NaN),
    sha256: Buffer.from(digest?.[1] ?? '', 'base64').toString('hex'),
    from: isPart ? offset : 0,
    bytes: passing(chunksOf(response, api, io)),
  }
}

/** A consumer that asks for the next piece has finished with the previous one. */
async function* passing(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const piece of pieces) {
    yield piece
    freeBytes(piece)
  }
}

/** `error=code "sentence"`: this file is not available. */
function explainLine(line: string): CliError {
  const [, code = '', sentence] = /^error=([a-z_]{1,64}) (".*")$/.exec(line) ?? []
  try {
    const message = z.string().parse(JSON.parse(sentence ?? ''))
    return new ApiFailure('refused', EXIT.error, message, { code })
  } catch {
    return new CliError(EXIT.error, 'the server did not say what it sends')
  }
}

async function openMany(api: Api, io: Io, files: readonly Artifact[]): Promise<Batch> {
  const query = { ids: files.map(({ id }) => id).join(',') }
  const path = `/api/tasks/${files[0]?.task_id}/artifacts/content`
  const response = await api.stream(path, { query, headers: ACCEPT })
  const stream = chunksOf(response, api, io)
  return new Batch({
    stream,
    files,
    async explain(line) {
      if (line !== undefined) return explainLine(line)
      return noAnswer(new Error('the answer ended too early'), api.baseUrl, false)
    },
    async checkEnd(isAtEnd) {
      if (!(await isAtEnd)) throw tooMuch()
    },
    async end() {
      await stream.return(undefined)
    },
  })
}

/** A retry may succeed. */
const isPassing = (error: unknown): boolean =>
  error instanceof ApiFailure &&
  (error.kind === 'no_answer' ||
    PASSING.includes(error.code ?? '') ||
    REPEATABLE_STATUS.includes(error.status ?? 0))

/** The peer does not know this kind of request; it says nothing about the files. */
const isUnknown = (error: unknown): boolean =>
  error instanceof ApiFailure &&
  error.kind === 'refused' &&
  !isPassing(error) &&
  !(error.code ?? '').startsWith('artifact_')

export function openHttpSource(api: Api, io: Io): ArtifactSource {
  let singly = false
  const one = (artifact: Artifact, offset: number) => openOne(api, io, artifact, offset)
  const batched = openBatched({
    openOne: one,
    openMany: (files) => openMany(api, io, files),
    fitting: (files) => fittingIn(files, ARTIFACT_BATCH.queryChars, ({ id }) => String(id)),
  })
  return {
    expect: batched.expect,
    close: batched.close,
    async open(artifact, offset) {
      if (singly) return one(artifact, offset)
      return batched.open(artifact, offset).catch((error: unknown) => {
        if (!isUnknown(error)) throw error
        singly = true
        return one(artifact, offset)
      })
    },
    mayRepeat: isPassing,
  }
}
