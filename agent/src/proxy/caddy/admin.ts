// Caddy's admin socket. Every call has a deadline. When Caddy refuses a configuration, the old one stays active, and
// the caller gets the reason as a sentence.
import { statSync } from 'node:fs'
import { request } from 'node:http'
import { PROXY } from '../../limits/proxy.ts'

export interface CaddyAdmin {
  /** Undefined when it answers; otherwise the reason. */
  ping(): Promise<string | undefined>
  /** Rejects with `CaddyRefused`, or with another error when Caddy cannot be reached. */
  load(configuration: string): Promise<void>
  /** Running requests by upstream; those without an upstream are left out. */
  requests(): Promise<Map<string, number>>
  /** Changes with the process, and with its admin socket. */
  instance(): string
}

export class CaddyRefused extends Error {
  override readonly name = 'CaddyRefused'
}

const ANSWER_BYTES = 64 * 1_024

export function openAdmin(socketPath: string, origin: string): CaddyAdmin {
  const call = (method: string, path: string, body: string | undefined, ms: number) =>
    new Promise<{ status: number; text: string }>((resolve, reject) => {
      const headers = {
        host: origin,
        origin: `http://${origin}`,
        ...(body === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
      }
      const sent = request({ socketPath, method, path, headers, agent: false }, (answer) => {
        let text = ''
        answer.setEncoding('utf8')
        answer.on('data', (chunk: string) => {
          if (text.length < ANSWER_BYTES) text += chunk
        })
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text }))
        answer.on('error', reject)
      })
      const late = setTimeout(
        () => sent.destroy(new Error(`Caddy did not answer in ${ms / 1_000} s.`)),
        ms,
      )
      sent.on('close', () => clearTimeout(late))
      sent.on('error', reject)
      sent.end(body)
    })
  return {
    async ping() {
      try {
        const { status } = await call('GET', '/config/admin/listen', undefined, PROXY.adminMs)
        return status === 200 ? undefined : `Caddy's admin socket answers ${status}.`
      } catch (error) {
        return (error as Error).message
      }
    },
    async load(configuration) {
      const { status, text } = await call('POST', '/load', configuration, PROXY.pushMs)
      if (status !== 200) throw new CaddyRefused(readReason(text) || `status ${status}`)
    },
    async requests() {
      const { status, text } = await call(
        'GET',
        '/reverse_proxy/upstreams',
        undefined,
        PROXY.adminMs,
      )
      if (status !== 200) throw new Error(`Caddy's admin socket answers ${status}.`)
      const found = JSON.parse(text) as { address: string; num_requests: number }[]
      return new Map(found.map(({ address, num_requests }) => [address, num_requests]))
    },
    instance() {
      const found = statSync(socketPath, { throwIfNoEntry: false })
      return found ? `${found.ino}:${found.ctimeMs}` : ''
    },
  }
}

/** `{"error":"loading config: …"}`. */
function readReason(text: string): string {
  try {
    return String((JSON.parse(text) as { error?: string }).error ?? '').slice(0, 500)
  } catch {
    return text.slice(0, 500)
  }
}
