// Performs one TLS handshake with this server's proxy for a name, as a browser would. Returns errors, never throws.
import { connect } from 'node:tls'
import type { Endpoint } from '../../settings.ts'

/** Undefined when the proxy has a certificate for the name. Any issuer is fine, as installations may use their own. */
export function tryHandshake(
  { address, port }: Endpoint,
  servername: string,
  timeoutMs: number,
): Promise<string | undefined> {
  const host = address === '0.0.0.0' ? '127.0.0.1' : address
  return new Promise((resolve) => {
    const socket = connect({ host, port, servername, rejectUnauthorized: false })
    const answer = (problem: string | undefined): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve(problem)
    }
    const timer = setTimeout(() => answer(`no handshake in ${timeoutMs / 1_000} s`), timeoutMs)
    socket.once('secureConnect', () => answer(undefined))
    socket.once('error', (error: NodeJS.ErrnoException) => answer(error.code ?? error.message))
  })
}
