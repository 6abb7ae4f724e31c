// A call whose connection becomes a bidirectional stream: the session of a build, or an interactive command in a
// container. It lasts until either side closes it.
import { request as httpRequest } from 'node:http'
import type { Duplex } from 'node:stream'
import { ENGINE } from '@berth/shared'
import { EngineError, type Line, readRefusal, toEngineError } from './engine.ts'

export interface HijackRequest {
  path: string
  /** The protocol to which the connection is upgraded. */
  protocol: 'h2c' | 'tcp'
  headers?: Record<string, string | string[]>
  body?: object
}

/** Throws an EngineError. */
export function hijack(line: Line, request: HijackRequest): Promise<Duplex> {
  const { path, protocol, headers, body } = request
  const text = body === undefined ? '' : JSON.stringify(body)
  return new Promise((resolve, reject) => {
    const asked = httpRequest({
      ...line,
      method: 'POST',
      path,
      headers: {
        host: 'docker',
        connection: 'Upgrade',
        upgrade: protocol,
        'content-length': String(Buffer.byteLength(text)),
        ...(text ? { 'content-type': 'application/json' } : {}),
        ...headers,
      },
    })
    const late = `no answer to POST ${path} in ${ENGINE.callMs / 1_000} s`
    const timer = setTimeout(
      () => asked.destroy(new EngineError('unavailable', late)),
      ENGINE.callMs,
    )
    const fail = (error: unknown): void => {
      clearTimeout(timer)
      reject(toEngineError(error))
    }
    asked.on('error', fail)
    asked.on('upgrade', (_, socket, head) => {
      clearTimeout(timer)
      socket.on('error', () => {}) // the reader sees the stream end
      if (head.length > 0) socket.unshift(head)
      resolve(socket)
    })
    asked.on('response', (answer) => {
      const end = () => void answer.on('error', () => {}).destroy()
      readRefusal(answer).then(fail, fail).finally(end)
    })
    asked.end(text)
  })
}
