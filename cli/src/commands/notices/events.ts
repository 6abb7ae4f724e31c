// berth events: what happened in the organization, and with -f what happens. Over connections that break, it continues
// after the last id, so no event is lost or printed twice.
import { PublicEvent } from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import type { Query } from '../../client/http.ts'
import { chunksOf } from '../../client/log-stream.ts'
import { ApiFailure } from '../../client/problem.ts'
import { findProject, findTarget } from '../../client/resolve.ts'
import { type Context, compose, flagOn, flagText, type Invocation } from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { EXIT, type ExitCode } from '../../terminal/exit.ts'
import { parseCount } from '../../terminal/format.ts'
import { cleanText } from '../../terminal/text.ts'

interface EventsOptions {
  isFollowing: boolean
  after: number | undefined
  limit: number
}

function parseEvents({ flags }: Invocation): EventsOptions {
  const after = flagText(flags, 'after')
  return {
    isFollowing: flagOn(flags, 'follow'),
    after: after === undefined ? undefined : parseCount('--after', after, Number.MAX_SAFE_INTEGER),
    limit: parseCount('--limit', flagText(flags, 'limit') ?? '50', 500),
  }
}

/** Only -e and -p that were given: without them it is the whole organization, also in a linked folder. */
async function filterOf(api: Api, context: Context): Promise<Query> {
  const { env, project } = context.globals
  if (env !== undefined) {
    const { environment } = await findTarget(api, context, 'read')
    return { environment_id: environment.id }
  }
  if (project === undefined) return {}
  return { project_id: (await findProject(api, context, 'read')).id }
}

async function printEvent({ screen }: Context, event: PublicEvent, raw: unknown): Promise<void> {
  if (screen.json) return screen.print(JSON.stringify(raw))
  const about = [
    event.project_id ? `project ${event.project_id}` : '',
    event.environment_id ? `environment ${event.environment_id}` : '',
    event.task_id ? `task ${event.task_id}` : '',
    event.environment ? event.environment.status : '',
  ].filter(Boolean)
  const words = cleanText(about.join(', '))
  await screen.print(
    screen.human
      ? `${screen.out.paint('dim', event.at)}  ${event.type.padEnd(22)} ${words}`
      : [event.id, event.at, event.type, words].join('\t'),
  )
}

async function performEvents(options: EventsOptions, context: Context): Promise<ExitCode> {
  const api = await context.connect()
  const filter = await filterOf(api, context)
  const { value, raw, headers } = await api.get('/api/events', PublicEvent.array(), {
    query: { ...filter, after: options.after, limit: options.limit },
  })
  for (const [i, event] of value.entries()) {
    await printEvent(context, event, (raw as unknown[])[i])
  }
  if (!options.isFollowing) {
    if (value.length === 0) await context.screen.note('No events. berth events -f waits for them.')
    return EXIT.done
  }
  const last = Number(headers.get('berth-last-event-id') ?? '0')
  return follow(api, context, filter, last)
}

async function follow(api: Api, context: Context, filter: Query, from: number): Promise<ExitCode> {
  const { io } = context
  let after = from
  for (let failures = 0; ; ) {
    try {
      const response = await api.stream('/api/events', {
        query: filter,
        headers: { accept: 'text/event-stream', 'last-event-id': String(after) },
      })
      for await (const { id, data } of messagesOf(chunksOf(response, api, io))) {
        failures = 0
        after = id
        if (data === undefined) continue
        const raw: unknown = JSON.parse(data)
        const event = PublicEvent.safeParse(raw)
        if (event.success) await printEvent(context, event.data, raw) // a newer server has more types
      }
    } catch (error) {
      const isPassing =
        error instanceof ApiFailure && (error.kind === 'no_answer' || (error.status ?? 0) >= 500)
      if (!isPassing) throw error
    }
    failures += 1
    await io.sleep(Math.min(CLIENT.retryMs * 2 ** Math.min(failures, 10), CLIENT.backoffCapMs))
  }
}

interface Message {
  id: number
  data: string | undefined
}

/** Reads Server-Sent Events: blocks of `name: value` lines that an empty line ends. */
async function* messagesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Message> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of chunks) {
    const blocks = (rest + decoder.decode(chunk, { stream: true })).split('\n\n')
    rest = blocks.pop() ?? ''
    if (rest.length > CLIENT.logLineChars) {
      throw new ApiFailure('nonsense', EXIT.error, 'an event is too long')
    }
    for (const block of blocks) {
      const fields = new Map(
        block.split('\n').map((line): [string, string] => {
          const at = line.indexOf(':')
          return [line.slice(0, at), line.slice(at + 1).trimStart()]
        }),
      )
      const id = fields.get('id')
      if (id !== undefined) yield { id: Number(id), data: fields.get('data') }
    }
  }
}

export const events = compose(parseEvents, performEvents)
