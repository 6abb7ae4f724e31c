// Opens bulk transfers: one TLS connection for one transfer of files, to the address of the session, with the same
// certificate and the same checks of the peer. Invariant: the returned socket was opened in time and speaks the bulk
// transfer protocol; otherwise nothing is left open.
import { connect, type TLSSocket } from 'node:tls'
import { TRANSFERS } from '@berth/shared'
import { BULK_TRANSFER } from '@berth/shared/wire'
import { CONTROL_PLANE_NAME, isLoopback } from './channel.ts'
import type { Identity } from './identity/identity.ts'

const PROXIES = ['grpc_proxy', 'https_proxy', 'http_proxy']

/** The session may go through an HTTP proxy, which grpc-js supports and this code does not. */
export const mayDial = (endpoint: string, env: NodeJS.ProcessEnv = process.env): boolean =>
  isLoopback(endpoint) || !PROXIES.some((name) => env[name] || env[name.toUpperCase()])

function splitEndpoint(endpoint: string): { host: string; port: number } {
  const [, bracketed, plain, port] = /^(?:\[(.+)\]|(.+)):(\d+)$/.exec(endpoint) ?? []
  return { host: bracketed ?? plain ?? '', port: Number(port) }
}

export function dialFileLine(
  identity: Identity,
  endpoint: string,
  signal: AbortSignal,
): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect({
      ...splitEndpoint(endpoint),
      servername: CONTROL_PLANE_NAME,
      ca: identity.ca,
      key: identity.key,
      cert: identity.certificate,
      minVersion: 'TLSv1.3',
      ALPNProtocols: [BULK_TRANSFER],
    })
    const settle = (error?: Error): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', left)
      socket.off('error', settle).off('close', closed).off('secureConnect', opened)
      socket.on('error', () => undefined) // its close is what counts
      if (error) {
        socket.destroy()
        reject(error)
      } else resolve(socket)
    }
    const late = (): void => settle(new Error('it was not opened in time'))
    const closed = (): void => settle(new Error('it was closed'))
    const left = (): void => settle(new Error('the session ended'))
    socket.setNoDelay(true) // a small record does not wait for the acknowledgement of a large one
    const opened = (): void => {
      if (socket.alpnProtocol === BULK_TRANSFER) settle()
      else settle(new Error('the other side does not support bulk transfers'))
    }
    const timer = setTimeout(late, TRANSFERS.lineDialMs)
    socket.on('error', settle).on('close', closed).on('secureConnect', opened)
    signal.addEventListener('abort', left)
    if (signal.aborted) left()
  })
}
