// Checks that a request comes from our own pages. Browsers add cookies to requests and sockets of foreign pages, but
// pages cannot forge Origin. Programs send neither Origin nor cookies.
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
  // reads from our own page have no Origin, but newer browsers send sec-fetch-site
  const site = headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin' && site !== 'none') throw foreign()
}
