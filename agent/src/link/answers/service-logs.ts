// Answers OpenContainerLogs: sends the output of services (service-logs/reader.ts), then live.
import { LOG_SENDING } from '@berth/shared'
import { type OpenContainerLogs, RequestErrorCode } from '@berth/shared/wire'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import { describeError, type Log } from '../../log.ts'
import { environmentPaths } from '../../machine/files.ts'
import { listLoggedServices } from '../../service-logs/days.ts'
import { type GoneRecord, readServiceLogs, type ServiceRecord } from '../../service-logs/reader.ts'
import type { AgentSettings } from '../../settings.ts'
import type { Answerer } from '../requests.ts'
import { type Collecting, inBatches, sendLogFrames, toLine } from './log-frames.ts'

/** Limits the number of concurrent streams for all clients together. */
export function createLogAnswerer(settings: AgentSettings, log: Log): Answerer {
  let sending = 0
  return async (request, _signal, bulk) => {
    if (request.body.case !== 'openContainerLogs') throw new Error('not a question for logs')
    const asked = request.body.value
    if (sending >= LOG_SENDING.streams) {
      const message = 'The agent is sending too many logs.'
      return { case: 'error', value: { code: RequestErrorCode.TOO_MANY, message } }
    }
    const { logs } = environmentPaths(settings, asked.environmentId)
    const known = listLoggedServices(logs)
    const wanted = asked.services
    const services = wanted.length > 0 ? known.filter((name) => wanted.includes(name)) : known
    sending += 1
    // sends concurrently with the answer, because the reader waits for both
    const { transferId } = asked
    sendLogFrames(bulk, transferId, async (write, stopped) => {
      const signal = AbortSignal.any([stopped, AbortSignal.timeout(LOG_SENDING.followMs)])
      const records = readRecords(settings, asked, signal)
      for await (const value of inBatches(records, collect, signal)) {
        await write({ case: 'batch', value })
      }
      stopped.throwIfAborted()
      await write({ case: 'end', value: { containerEnded: false } })
    })
      .catch((error: unknown) =>
        log.debug({ transferId, ...describeError(error) }, 'logs were not sent to their end'),
      )
      .finally(() => {
        sending -= 1
      })
    return { case: 'streamOpened', value: { services } }
  }
}

const readRecords = (settings: AgentSettings, asked: OpenContainerLogs, signal: AbortSignal) =>
  readServiceLogs(settings, {
    environmentId: asked.environmentId,
    services: asked.services.length > 0 ? asked.services : null,
    since: asked.since && timestampDate(asked.since),
    until: asked.until && timestampDate(asked.until),
    tail: asked.tail > 0 ? asked.tail : undefined,
    follow: asked.follow,
    signal,
  })

function collect(): Collecting<ServiceRecord | GoneRecord> {
  const lines: ReturnType<typeof toLine>[] = []
  const gone: GoneRecord[] = []
  let bytes = 0
  let since: number | undefined
  return {
    value: { lines, gone },
    get bytes() {
      return bytes
    },
    get since() {
      return since
    },
    add(record) {
      since ??= performance.now()
      if ('kind' in record) {
        gone.push(record)
        return
      }
      const line = toLine(record)
      bytes += (line.data?.length ?? 0) + record.service.length + 32
      lines.push(line)
    },
  }
}
