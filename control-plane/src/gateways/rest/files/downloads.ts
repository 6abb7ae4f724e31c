// /downloads/{ticket} serves files to browsers, which cannot send a token. A ticket from /trpc works once, for a
// minute, only in a browser signed in as the user who got it; otherwise the answer is 404. Not part of the REST
// contract; the address is never logged.
import { Readable } from 'node:stream'
import { AppError } from '@berth/shared'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { openArtifactContent } from '../../../app/files/artifacts.ts'
import {
  type Download,
  openLogDownload,
  openRuntimeLogDownload,
  takeTicket,
} from '../../../app/files/downloads.ts'
import { authenticateSession } from '../../../app/people/browser-callers.ts'
import type { Context } from '../../../context.ts'
import type { Caller } from '../../../domain/core/access.ts'
import { DOWNLOADS } from '../../../limits/browser.ts'
import type { Api } from '../http/api.ts'
import { sendContent, whileOpen } from './artifacts.ts'

const Ticket = z.object({ ticket: z.string().max(100) })
/** Untrusted text is shown as text, without scripts. */
const HARMLESS = "default-src 'none'; sandbox; frame-ancestors 'none'"

async function callerOf(ctx: Context, request: FastifyRequest): Promise<Caller> {
  const { cookie } = request.headers
  const from = { address: request.ip, requestId: request.id }
  const who = await authenticateSession(ctx, { cookie }, from)
  if (!who) throw new AppError('not_found', "Not found, or you don't have access.")
  return who.caller
}

export function downloadRoutes(api: Api, ctx: Context): void {
  const open = new Map<number, number>()
  const options = {
    exposeHeadRoute: false, // a HEAD request would use up the ticket
    config: { needs: 'nothing' as const },
    schema: { hide: true, params: Ticket },
  }
  api.get('/downloads/:ticket', options, async (request, reply) => {
    reply
      .header('cache-control', 'no-store')
      .header('x-content-type-options', 'nosniff')
      .header('referrer-policy', 'no-referrer')
      .header('content-security-policy', HARMLESS)
    const caller = await callerOf(ctx, request)
    const leave = takePlace(open, caller.userId)
    reply.raw.once('close', leave)
    return send(ctx, caller, await takeTicket(ctx, caller, request.params.ticket), reply)
  })
}

function takePlace(open: Map<number, number>, userId: number): () => void {
  const count = open.get(userId) ?? 0
  if (count >= DOWNLOADS.atOnce) {
    throw new AppError('rate_limited', `You download ${count} files already; wait for one.`)
  }
  open.set(userId, count + 1)
  return () => {
    const left = (open.get(userId) ?? 1) - 1
    if (left > 0) open.set(userId, left)
    else open.delete(userId)
  }
}

async function send(
  ctx: Context,
  caller: Caller,
  download: Download,
  reply: FastifyReply,
): Promise<FastifyReply> {
  if (download.kind === 'artifact') {
    const signal = whileOpen(reply.raw)
    return sendContent(
      reply,
      await openArtifactContent(ctx, caller, download.artifactId, { signal }),
    )
  }
  if (download.kind === 'runtime_log') {
    const { name, content } = await openRuntimeLogDownload(
      ctx,
      caller,
      download,
      whileOpen(reply.raw),
    )
    return reply
      .type('text/plain; charset=utf-8')
      .header('content-disposition', `attachment; filename="${name}"`)
      .send(Readable.from(content))
  }
  const { name, bytes, content } = await openLogDownload(ctx, caller, download.taskId)
  const how = download.isShown ? 'inline' : 'attachment'
  return reply
    .type('text/plain; charset=utf-8')
    .header('content-disposition', `${how}; filename="${name}"`)
    .header('content-length', bytes)
    .send(Readable.from(content))
}
