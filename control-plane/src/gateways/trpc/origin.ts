// Whether a request comes from our own pages. A browser adds cookies to requests of foreign pages and to their sockets;
// what it says in Origin it cannot be made to say wrongly. Programs send no Origin and no cookie.
import type { IncomingHttpHeaders } from 'node:http'
import { AppError } from '@berth/shared'
import type { Context } from '../../context.ts'

const foreign = (): AppError =>
  new AppError('origin_forbidden', 'This page may not use the control plane in your name.')

/** `null` is foreign as well: sandboxed frames and local files have it. */
export function requireOwnOrigin(
  ctx: Context,
  headers: IncomingHttpHeaders,
  kind: 'read' | 'change' | 'socket',
): void {
  const { origin, cookie } = headers
  if (origin !== undefined) {
    if (origin !== new URL(ctx.baseUrl).origin) throw foreign()
    return
  }
  if (cookie === undefined) return
  if (kind !== 'read') throw foreign()
  // reading from our own page has no Origin; newer browsers say where it came from all the same
  const site = headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin' && site !== 'none') throw foreign()
}
