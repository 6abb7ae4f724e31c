// Lists the files that an action left, and streams one from its server at the reader's pace. The status is decided
// before the first byte; a later failure breaks the connection, so a partial file never looks complete.
import type { ServerResponse } from 'node:http'
import { AppError } from '@berth/shared'
import { Artifact, ArtifactBatchQuery, IdParams } from '@berth/shared/api'
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import { openArtifactBatch } from '../../../app/files/artifact-batch.ts'
import {
  type ArtifactContent,
  listTaskArtifacts,
  openArtifactContent,
} from '../../../app/files/artifacts.ts'
import type { Context } from '../../../context.ts'
import { contentDisposition } from '../../../domain/files/artifact.ts'
import { serializeArtifact } from '../../serializers/artifact.ts'
import { type Api, callerOf } from '../http/api.ts'
import { ByteStream } from '../http/byte-stream.ts'

const BYTES = { content: { 'application/octet-stream': { schema: z.string() } } }

const UNAVAILABLE = [
  'artifact_changed',
  'artifact_expired',
  'artifact_gone',
  'server_offline',
  'server_timeout',
  'transfers_busy',
] as const

export function artifactRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/tasks/:id/artifacts',
    {
      config: { needs: 'read' },
      schema: {
        summary: 'Files that an action left, one link each',
        params: IdParams,
        response: { 200: z.array(Artifact) },
      },
    },
    async (request) => {
      const artifacts = await listTaskArtifacts(ctx, callerOf(request), request.params.id)
      return artifacts.map((artifact) => serializeArtifact(ctx, artifact))
    },
  )
  api.get(
    '/api/tasks/:id/artifacts/content',
    {
      config: { needs: 'read', errors: UNAVAILABLE },
      schema: {
        summary: 'The bytes of several files in one answer',
        params: IdParams,
        querystring: ArtifactBatchQuery,
        response: { 200: BYTES },
      },
    },
    async (request, reply) => {
      const signal = whileOpen(reply.raw)
      const { ids } = request.query
      const caller = callerOf(request)
      const bytes = await openArtifactBatch(ctx, caller, request.params.id, ids, signal)
      return sendBytes(reply, bytes)
    },
  )
  api.get(
    '/api/artifacts/:id/content',
    {
      config: {
        needs: 'read',
        errors: [...UNAVAILABLE, 'range_not_satisfiable'],
        headers: {
          'Accept-Ranges': 'Bytes.',
          'Content-Disposition': 'The name of the file.',
          'Content-Range': 'With 206: which bytes.',
          'Repr-Digest': 'SHA-256 of the whole file (RFC 9530).',
        },
      },
      schema: {
        summary: 'The bytes of one file, from its server',
        params: IdParams,
        response: { 200: BYTES, 206: BYTES },
      },
    },
    async (request, reply) => {
      const { range, 'if-range': ifRange } = request.headers
      const statOnly = request.method === 'HEAD'
      const signal = whileOpen(reply.raw)
      const asked = { range, ifRange: ifRange as string | undefined, statOnly, signal }
      const caller = callerOf(request)
      const content = await openArtifactContent(ctx, caller, request.params.id, asked).catch(
        (error: unknown) => {
          const isBeyond = error instanceof AppError && error.code === 'range_not_satisfiable'
          if (isBeyond) reply.header('content-range', `bytes */${error.details.size_bytes}`)
          throw error
        },
      )
      return sendContent(reply, content)
    },
  )
}

/** Sends headers and bytes; also used for the dashboard's tickets. */
export function sendContent(reply: FastifyReply, content: ArtifactContent): FastifyReply {
  const { artifact, size, etag, range } = content
  if (range) reply.code(206).header('content-range', `bytes ${range.from}-${range.to - 1}/${size}`)
  const digest = Buffer.from(artifact.sha256, 'hex').toString('base64')
  reply
    .header('content-length', range ? range.to - range.from : size)
    .header('content-disposition', contentDisposition(artifact.path))
    .header('repr-digest', `sha-256=:${digest}:`)
    .header('accept-ranges', 'bytes')
    .header('etag', etag)
  return sendBytes(reply, content.bytes)
}

function sendBytes(reply: FastifyReply, bytes: AsyncIterable<Buffer>): FastifyReply {
  reply.header('x-content-type-options', 'nosniff').type('application/octet-stream')
  return reply.send(new ByteStream(bytes))
}

/** Aborts when the reader disconnects or has everything. */
export function whileOpen(response: ServerResponse): AbortSignal {
  const gone = new AbortController()
  const end = (): void => gone.abort(new Error('the reader left'))
  if (response.destroyed || response.closed) end()
  else response.once('close', end)
  return gone.signal
}
