// Container logs of one environment over certificate SSH, through connections that may break: a new one gets a new
// certificate and resumes where the last one ended, and repeated records are dropped. The server limits the duration of
// a session; following continues past it. The same records also come through the control plane, if SSH cannot reach the
// server.
import { SERVICE_LOGS } from '@berth/shared'
import { CLIENT } from '../limits/client.ts'
import { CliError, EXIT, interrupted } from '../terminal/exit.ts'
import type { Io } from '../terminal/io.ts'
import type { Api } from './api.ts'
import {
  isGap,
  type LogItem,
  mergeByTime,
  parseItem,
  Resumption,
  recordLines,
} from './log-records.ts'
import { chunksOf } from './log-stream.ts'
import { ApiFailure } from './problem.ts'
import {
  explainEnd,
  NO_CONNECTION,
  openSession,
  SSH_NO_AGENT,
  SSH_NOT_AVAILABLE,
  type SshEnd,
  whyLost,
} from './ssh/run.ts'
import { openEndpoint, type SshEndpoint, type SshPlace } from './ssh/ssh.ts'
import { pauseMs, pollInterval } from './wait.ts'

export interface LogsRequest {
  /** Empty: all of them. */
  services: readonly string[]
  tail: number | null
  since: string | null
  until: string | null
  follow: boolean
}

/** Words of the forced command; all of them match `[A-Za-z0-9_.:=-]`. */
function logsWords(request: Omit<LogsRequest, 'services'>, service: string | null): string[] {
  return [
    'logs',
    service ?? '-',
    ...(request.tail === null ? [] : [`--tail=${request.tail}`]),
    ...(request.since === null ? [] : [`--since=${request.since}`]),
    ...(request.until === null ? [] : [`--until=${request.until}`]),
    ...(request.follow ? ['--follow'] : []),
    '--timestamps',
  ]
}

export interface LogsSource {
  api: Api
  io: Io
  place: SshPlace
  /** Called once each time the connection is lost. */
  onLost(reason: string): Promise<void>
}

/** One connection: its records, then how it ended. */
async function* readSession(
  source: LogsSource,
  words: readonly string[],
): AsyncGenerator<LogItem, { end: SshEnd; endpoint: SshEndpoint }> {
  const { io } = source
  const endpoint = await openEndpoint(source, source.place, 'logs')
  const session = openSession(io, endpoint.argv(words))
  const stop = () => void session.close().catch(() => {})
  io.interrupted.addEventListener('abort', stop, { once: true })
  try {
    session.stdout.setEncoding('utf8')
    for await (const line of recordLines(session.stdout)) {
      if (io.interrupted.aborted) break
      yield parseItem(line)
    }
    if (io.interrupted.aborted) throw interrupted()
    return { end: await session.ended, endpoint }
  } finally {
    io.interrupted.removeEventListener('abort', stop)
    await session.close().catch(() => {})
    endpoint.close()
  }
}

/** Such an end says nothing about the logs, so retry. */
function isPassing(error: unknown): boolean {
  return (
    error instanceof ApiFailure &&
    (error.kind === 'no_answer' || error.status === 429 || (error.status ?? 0) >= 500)
  )
}

/** A session that lasted was not refused; the server ended it at its time limit. */
const isBreak = ({ code, stderr }: SshEnd, hasLasted: boolean): boolean =>
  code === null ||
  code === SSH_NO_AGENT ||
  (code === SSH_NOT_AVAILABLE && hasLasted) ||
  (code === NO_CONNECTION && !['foreign', 'denied'].includes(whyLost(stderr).reason))

/** The records of one service, or of all; with `follow` until the user stops it. */
async function* readService(
  source: LogsSource,
  request: LogsRequest,
  service: string | null,
): AsyncGenerator<LogItem> {
  const { io } = source
  const resumption = new Resumption()
  let hadContact = false
  let failures = 0
  let lastContactAt = io.now()
  for (;;) {
    const { since } = resumption
    const asked = since === null ? request : { ...request, since, tail: null }
    resumption.begin()
    const beganAt = io.now()
    let broken: CliError
    try {
      const session = readSession(source, logsWords(asked, service))
      let step = await session.next()
      for (; !step.done; step = await session.next()) {
        hadContact = true
        failures = 0
        lastContactAt = io.now()
        const item = step.value
        if (isGap(item) ? since === null : resumption.take(item)) yield item
      }
      const { end, endpoint } = step.value
      if (end.code === 0 && !request.follow) return
      const hasLasted = request.follow && io.now() - beganAt >= CLIENT.noContactMs
      if (end.code === 0 || hasLasted) {
        hadContact = true
        lastContactAt = io.now()
      }
      if (end.code === 0) broken = new CliError(EXIT.error, 'the session ended')
      else {
        broken = explainEnd(end, endpoint)
        if (!hadContact || !isBreak(end, hasLasted)) throw broken
      }
    } catch (error) {
      if (!hadContact || !isPassing(error)) throw error
      broken = error as CliError
    }
    failures++
    const tired = request.follow
      ? failures > CLIENT.retries && io.now() - lastContactAt >= CLIENT.noContactMs
      : failures > CLIENT.retries
    if (tired) throw broken
    if (failures === 2) await source.onLost(broken.message) // the first loss is usually repaired unnoticed
    await io.sleep(pauseMs(pollInterval(io), 0, failures - 1))
  }
}

/** Every requested record; those of several services in chronological order. */
export async function* readContainerLogs(
  source: LogsSource,
  request: LogsRequest,
): AsyncGenerator<LogItem> {
  const { services } = request
  if (services.length < 2) return yield* readService(source, request, services[0] ?? null)
  const streams = services.map((service) => readService(source, request, service))
  yield* mergeByTime(streams, request.follow ? CLIENT.logMergeMs : null)
}

/** One request to the control plane; `since` continues an earlier one. */
async function* readAnswer(
  { api, io, place }: LogsSource,
  request: LogsRequest,
): AsyncGenerator<LogItem> {
  const path = `/api/environments/${place.environmentId}/service_logs`
  const response = await api.stream(path, {
    query: {
      service: [...request.services],
      tail: request.tail === null ? undefined : Math.min(request.tail, SERVICE_LOGS.tailLines),
      since: request.since ?? undefined,
      until: request.until ?? undefined,
      follow: request.follow ? 'true' : undefined,
    },
    headers: { accept: 'application/x-ndjson' },
  })
  const decoder = new TextDecoder()
  const decode = async function* (): AsyncGenerator<string> {
    for await (const chunk of chunksOf(response, api, io)) {
      yield decoder.decode(chunk, { stream: true })
    }
  }
  for await (const line of recordLines(decode())) yield parseItem(line)
}

/** The same records without SSH. A followed answer that ends is asked for again. */
export async function* readThroughControlPlane(
  source: LogsSource,
  request: LogsRequest,
): AsyncGenerator<LogItem> {
  const { io } = source
  const resumption = new Resumption()
  let failures = 0
  let hadContact = false
  let lastContactAt = io.now()
  for (;;) {
    const { since } = resumption
    const asked = since === null ? request : { ...request, since, tail: null }
    resumption.begin()
    try {
      for await (const item of readAnswer(source, asked)) {
        hadContact = true
        failures = 0
        lastContactAt = io.now()
        if (isGap(item) ? since === null : resumption.take(item)) yield item
      }
      if (!request.follow) return
      hadContact = true
      lastContactAt = io.now()
    } catch (error) {
      if (!hadContact || !isPassing(error)) throw error
      failures++
      const isTired = failures > CLIENT.retries
      if (isTired && (!request.follow || io.now() - lastContactAt >= CLIENT.noContactMs))
        throw error
      if (failures === 2) await source.onLost((error as CliError).message)
    }
    await io.sleep(pauseMs(pollInterval(io), 0, failures))
  }
}
