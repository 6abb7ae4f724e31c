// `logs`: the service logs on this server, then live. One JSON object per line, exactly the stored record.
import { readServiceLogs } from '../../service-logs/reader.ts'
import type { AgentSettings } from '../../settings.ts'
import type { SessionContext } from '../sessions/context.ts'
import type { Ending } from '../sessions/frames.ts'
import type { Output } from '../sessions/output.ts'
import type { Verb } from './commands.ts'
import { type Work, withoutInput } from './work.ts'

export function startLogs(
  settings: AgentSettings,
  { environmentId, masker }: SessionContext,
  asked: Extract<Verb, { verb: 'logs' }>,
  output: Output,
): Work {
  const stop = new AbortController()
  const read = async (): Promise<Ending> => {
    const records = readServiceLogs(settings, {
      environmentId,
      services: asked.service === null ? null : [asked.service],
      ...(asked.since === undefined ? {} : { since: new Date(asked.since) }),
      ...(asked.until === undefined ? {} : { until: new Date(asked.until) }),
      ...(asked.tail === undefined ? {} : { tail: asked.tail }),
      follow: asked.follow,
      signal: stop.signal,
    })
    for await (const record of records) {
      // the writer masked them; this masks values that became secret since
      const shown = 'text' in record ? { ...record, text: masker.maskText(record.text) } : record
      await output.write('data', Buffer.from(`${JSON.stringify(shown)}\n`))
      if (stop.signal.aborted) break
    }
    return { code: 0 }
  }
  return withoutInput(read(), stop)
}
