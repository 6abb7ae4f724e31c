// Probes a service once: a connection or a GET, straight to its port or socket, with a deadline and a bound on what is
// read of the answer. Never throws; it returns the error.
import { request } from 'node:http'
import { connect, type NetConnectOpts } from 'node:net'
import { STEPS, stripEscapes } from '@berth/shared'
import { explainStatus, type HealthCheck, type HealthSample, isExpectedStatus } from './health.ts'

/** Without an address, it is on this machine's loopback. */
export type ProbeTarget =
  | { port: number; address?: string }
  /** `shown` is its name in messages. */
  | { socket: string; shown?: string }

const nameTarget = (target: ProbeTarget): string =>
  'port' in target ? `port ${target.port}` : (target.shown ?? target.socket)

const where = (target: ProbeTarget): NetConnectOpts =>
  'port' in target
    ? { host: target.address ?? '127.0.0.1', port: target.port }
    : { path: target.socket }

function probeConnection(target: ProbeTarget, timeoutMs: number): Promise<HealthSample> {
  return new Promise((resolve) => {
    const socket = connect(where(target))
    const answer = (isHealthy: boolean, said: string, detail = ''): void => {
      socket.destroy()
      resolve({ isHealthy, said, detail })
    }
    socket.setTimeout(timeoutMs, () =>
      answer(false, `${nameTarget(target)} did not answer in ${timeoutMs} ms`),
    )
    socket.once('connect', () => answer(true, 'connected'))
    socket.once('error', (error: NodeJS.ErrnoException) =>
      answer(
        false,
        `${nameTarget(target)} did not accept a connection`,
        error.code ?? error.message,
      ),
    )
  })
}

/** The first line with text, as plain text; of a web page its title, because its first line says nothing. */
export function firstLineOf(bytes: Buffer): string {
  const text = stripEscapes(bytes.subarray(0, STEPS.healthBodyBytes).toString('utf8'))
  const title = /<title[^>]*>([^<]+)/i.exec(text)?.[1]
  const lines = (title ?? text)
    .split('\n')
    .map((line) => line.replaceAll(/[\p{Cc}\s]+/gu, ' ').trim())
  return lines.find((line) => line !== '') ?? ''
}

function probeHttp(
  target: ProbeTarget,
  check: Extract<HealthCheck, { kind: 'http' }>,
  host: string,
): Promise<HealthSample> {
  const { path } = check
  return new Promise((resolve) => {
    const place =
      'port' in target
        ? { host: target.address ?? '127.0.0.1', port: target.port }
        : { socketPath: target.socket }
    const asked = request({ ...place, path, headers: { host, connection: 'close' }, agent: false })
    const answer = (isHealthy: boolean, said: string, detail = '', cause?: string): void => {
      clearTimeout(timer)
      asked.destroy()
      const why = cause === undefined ? {} : { cause }
      resolve({ isHealthy, said: `GET ${path} ${said}`, detail, ...why })
    }
    const timer = setTimeout(
      () => answer(false, `did not answer in ${check.timeoutMs} ms`),
      check.timeoutMs,
    )
    asked.once('error', (error: NodeJS.ErrnoException) =>
      answer(false, `got no answer on ${nameTarget(target)}`, error.code ?? error.message),
    )
    asked.once('response', (response) => {
      const status = response.statusCode ?? 0
      if (isExpectedStatus(check.status, status)) return answer(true, `answered ${status}`)
      const parts: Buffer[] = []
      let kept = 0
      const finish = (): void => {
        const line = firstLineOf(Buffer.concat(parts))
        const cause = explainStatus(path, status, host)
        answer(false, `answered ${status}`, line && `first line: ${line}`, cause)
      }
      response.on('data', (chunk: Buffer) => {
        parts.push(chunk)
        kept += chunk.length
        if (kept >= STEPS.healthBodyBytes) finish()
      })
      response.once('end', finish)
      response.once('error', finish)
    })
    asked.end()
  })
}

/** `host` is the hostname that a client outside would send. */
export function probe(
  target: ProbeTarget,
  check: HealthCheck,
  host: string,
): Promise<HealthSample> {
  return check.kind === 'connect'
    ? probeConnection(target, check.timeoutMs)
    : probeHttp(target, check, host)
}

/** Undefined when a process accepts connections there; otherwise the error code, possibly ETIMEDOUT. */
export function dial(
  host: string,
  port: number,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host, port })
    const onAbort = (): void => answer('ECANCELED')
    const answer = (code: string | undefined): void => {
      signal?.removeEventListener('abort', onAbort)
      socket.destroy()
      resolve(code)
    }
    signal?.addEventListener('abort', onAbort)
    if (signal?.aborted) return onAbort()
    socket.setTimeout(timeoutMs, () => answer('ETIMEDOUT'))
    socket.once('connect', () => answer(undefined))
    socket.once('error', (error: NodeJS.ErrnoException) => answer(error.code ?? 'ECONNREFUSED'))
  })
}
