// Requests that the proxy answered for one environment, through the control plane. Pages join by positions, so a broken
// connection continues without a gap or a repeated line.
import { RUNTIME_LOGS } from '@berth/shared'
import { RuntimeLogPage, RuntimeLogRequest } from '@berth/shared/api'
import { z } from 'zod'
import { CLIENT } from '../limits/client.ts'
import { CliError, EXIT } from '../terminal/exit.ts'
import type { Io } from '../terminal/io.ts'
import type { Api } from './api.ts'
import { recordLines } from './log-records.ts'
import { chunksOf } from './log-stream.ts'
import { ApiFailure } from './problem.ts'
import { pauseMs, pollInterval } from './wait.ts'

export type RequestEntry = z.infer<typeof RuntimeLogRequest>
type PageEnd = z.infer<typeof RuntimeLogPage>

export interface RequestsRequest {
  services: readonly string[]
  statuses: readonly string[]
  /** Plain text; empty: every request. */
  search: string
  tail: number | null
  since: string | null
  until: string | null
  follow: boolean
}

interface Source {
  api: Api
  io: Io
  environmentId: number
}

const Item = z.union([RuntimeLogRequest, RuntimeLogPage])

function parseItem(line: string): RequestEntry | PageEnd {
  try {
    return Item.parse(JSON.parse(line))
  } catch {
    throw new CliError(EXIT.error, 'the server sent a request log that makes no sense')
  }
}

interface Place {
  before?: string | undefined
  after?: string | undefined
  limit?: number
  follow?: 'true'
}

async function* read({ api, io, environmentId }: Source, asked: RequestsRequest, place: Place) {
  const response = await api.stream(`/api/environments/${environmentId}/log_lines`, {
    query: {
      log: 'requests',
      service: [...asked.services],
      status: [...asked.statuses],
      q: asked.search === '' ? undefined : asked.search,
      since: asked.since ?? undefined,
      until: asked.until ?? undefined,
      ...place,
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

/** One page: its requests, oldest first, and where it ends. */
async function readPage(source: Source, asked: RequestsRequest, place: Place) {
  const entries: RequestEntry[] = []
  for await (const item of read(source, asked, place)) {
    if ('kind' in item) return { entries, end: item }
    entries.push(item)
  }
  throw new CliError(EXIT.error, 'the server broke the request log off; try again')
}

/** The last requests, oldest first, and the position after them. */
async function readTail(source: Source, asked: RequestsRequest, tail: number) {
  const pages: RequestEntry[][] = []
  let missing = tail
  let newer: string | undefined
  for (let before: string | undefined; missing > 0; ) {
    const limit = Math.min(missing, RUNTIME_LOGS.lines)
    const { entries, end } = await readPage(source, asked, { before, limit })
    newer ??= end.newer
    pages.unshift(entries)
    missing -= entries.length
    if (end.is_last || end.older === null) break
    before = end.older
  }
  return { entries: pages.flat(), newer: newer ?? '' }
}

const isPassing = (error: unknown): boolean =>
  error instanceof ApiFailure &&
  (error.kind === 'no_answer' || error.status === 429 || (error.status ?? 0) >= 500)

export async function* readRequests(
  source: Source,
  asked: RequestsRequest,
): AsyncGenerator<RequestEntry> {
  let after = ''
  if (asked.tail !== null) {
    const { entries, newer } = await readTail(source, asked, asked.tail)
    yield* entries
    after = newer
  } else {
    for (let isLast = false; !isLast; ) {
      const page = await readPage(source, asked, { after, limit: RUNTIME_LOGS.lines })
      yield* page.entries
      after = page.end.newer
      isLast = page.end.is_last
    }
  }
  for (let failures = 0; asked.follow; ) {
    try {
      for await (const item of read(source, asked, { after, follow: 'true' })) {
        failures = 0
        if ('kind' in item) after = item.newer
        else yield item
      }
    } catch (error) {
      failures += 1
      if (!isPassing(error) || failures > CLIENT.retries) throw error
    }
    await source.io.sleep(pauseMs(pollInterval(source.io), 0, failures))
  }
}
