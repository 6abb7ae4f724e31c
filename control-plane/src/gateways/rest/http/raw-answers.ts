// Answers what never becomes a request: unknown methods, CONNECT, oversized heads, requests that are not complete in
// time, anything but HTTP. It writes to the socket directly, in the shape of every refusal.
import type { Socket } from 'node:net'
import { AppError, ERRORS, type ErrorCode, REST, VERSION } from '@berth/shared'
import type { Context } from '../../../context.ts'
import { displayName } from '../../../domain/core/display-name.ts'
import { PROBLEM } from './problem.ts'
import { requestId } from './request-ids.ts'

/** The methods of a path. */
export type AllowedAt = (path: string) => string[]

export const wrongMethod = (method: string, allowed: readonly string[]): AppError =>
  new AppError(
    'method_not_allowed',
    `${displayName(method).slice(0, 60)} is not possible here; ${allowed.join(', ')} is.`,
  )

const refuseMethod = (method: string, allowed: readonly string[]): AppError =>
  allowed.length > 0
    ? wrongMethod(method, allowed)
    : new AppError('not_found', "Not found, or you don't have access.")

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

type Broken = Error & { code?: string; rawPacket?: unknown }

/** Returns method and path of the first line, if the bytes begin with one. */
function firstLine(error: Broken): { method: string; path: string; isLong: boolean } | undefined {
  const packet = Buffer.isBuffer(error.rawPacket) ? error.rawPacket : Buffer.alloc(0)
  const start = packet.subarray(0, REST.uriBytes).toString('latin1')
  const [, method, target = ''] = /^([!#$%&'*+.^_`|~\w-]{1,100}) ([!-~]+)/.exec(start) ?? []
  const [path = ''] = target.split(/[?#]/)
  const isLong = method !== undefined && method.length + 1 + target.length >= REST.uriBytes
  return method === undefined ? undefined : { method, path, isLong }
}

const SAYS: Partial<Record<string, readonly [ErrorCode, string]>> = {
  HPE_HEADER_OVERFLOW: ['headers_too_large', 'The headers are over 16 KiB together.'],
  ERR_HTTP_REQUEST_TIMEOUT: ['request_timeout', 'The request was not whole in time.'],
}

function explain(error: Broken, allowed: readonly string[]): AppError {
  const line = firstLine(error)
  if (error.code === 'HPE_INVALID_METHOD' && line) {
    return refuseMethod(line.method, allowed)
  }
  if (error.code === 'HPE_HEADER_OVERFLOW' && line?.isLong) {
    return new AppError('uri_too_long', 'The address is over 8 KiB.')
  }
  const [code, detail] = SAYS[error.code ?? ''] ?? [
    'invalid_header',
    'The request could not be read.',
  ]
  return new AppError(code, detail)
}

/** Answers requests that no route sees: unknown methods, too many headers, too slow, not HTTP. */
export function answerBroken(
  ctx: Context,
  error: Broken,
  socket: Socket,
  allowedAt: AllowedAt,
): void {
  const path = firstLine(error)?.path ?? '/'
  const allowed = allowedAt(path)
  answerRaw(ctx, explain(error, allowed), socket, { path, allowed })
}

/** CONNECT asks for a tunnel; Node passes it only to this handler. */
export function refuseTunnel(
  ctx: Context,
  request: { url?: string | undefined },
  socket: Socket,
  allowedAt: AllowedAt,
): void {
  const [path = ''] = (request.url ?? '').split(/[?#]/)
  const allowed = path.startsWith('/') ? allowedAt(path) : METHODS // otherwise it names a machine
  answerRaw(ctx, refuseMethod('CONNECT', allowed), socket, { path, allowed })
}

const REASONS: Record<number, string> = {
  400: 'Bad Request',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  414: 'URI Too Long',
  431: 'Request Header Fields Too Large',
}

function answerRaw(
  ctx: Context,
  { code, status, message: detail }: AppError,
  socket: Socket,
  asked: { path: string; allowed: readonly string[] },
): void {
  // an answer that has begun cannot be changed
  const { _httpMessage: begun } = socket as { _httpMessage?: { headersSent: boolean } | null }
  if (!socket.writable || begun?.headersSent) {
    socket.destroy()
    return
  }
  const id = requestId()
  const body = JSON.stringify({
    type: `${ctx.baseUrl}/docs/errors/${code}`,
    title: ERRORS[code][1],
    status,
    detail,
    instance: asked.path.slice(0, 1_000),
    code,
    request_id: id,
  })
  const headers = [
    `HTTP/1.1 ${status} ${REASONS[status] ?? 'Error'}`,
    `Content-Type: ${PROBLEM}`,
    `X-Request-Id: ${id}`,
    `Berth-Version: ${VERSION}`,
    'Cache-Control: no-store',
    ...(status === 405 ? [`Allow: ${asked.allowed.join(', ')}`] : []),
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ]
  socket.end(`${headers.join('\r\n')}\r\n\r\n${body}`)
}
