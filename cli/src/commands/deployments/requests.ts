// berth requests: what the proxy of an environment's server answered, newest last. The server filters, so that hours of
// requests need not travel.
import { RUNTIME_LOGS, STATUS_CLASSES } from '@berth/shared'
import { type RequestEntry, type RequestsRequest, readRequests } from '../../client/request-log.ts'
import { findTarget, targetName } from '../../client/resolve.ts'
import {
  type Context,
  compose,
  flagList,
  flagOn,
  flagText,
  type Invocation,
} from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { EXIT, type ExitCode, interrupted, usage } from '../../terminal/exit.ts'
import { parseCount, parseMoment } from '../../terminal/format.ts'
import type { Style } from '../../terminal/terminal.ts'
import { cleanText, toJson } from '../../terminal/text.ts'
import { parseServices, requireServices } from './logs.ts'

interface Options extends Omit<RequestsRequest, 'since' | 'until'> {
  /** As typed; relative times count from when the command runs. */
  since: string | undefined
  until: string | undefined
}

function parseRequests({ flags }: Invocation): Options {
  const statuses = flagList(flags, 'status')
  const wrong = statuses.find((word) => !(STATUS_CLASSES as readonly string[]).includes(word))
  if (wrong !== undefined)
    throw usage(`--status takes ${STATUS_CLASSES.join(', ')}, got '${wrong}'`)
  const search = flagText(flags, 'search') ?? ''
  if (search.length > RUNTIME_LOGS.searchChars) {
    throw usage(`--search takes at most ${RUNTIME_LOGS.searchChars} characters`)
  }
  const follow = flagOn(flags, 'follow')
  const [since, until] = ['since', 'until'].map((name) => flagText(flags, name))
  if (follow && until !== undefined) throw usage('--until goes without -f')
  const tail = flagText(flags, 'lines') ?? (since === undefined ? '100' : undefined)
  const options = {
    services: parseServices(flagList(flags, 'service')),
    statuses,
    search,
    tail: tail === undefined ? null : parseCount('-n', tail, 100_000),
    since,
    until,
    follow,
  }
  requestOf(options, Date.now()) // reports a wrong time before anything else happens
  return options
}

function requestOf(options: Options, now: number): RequestsRequest {
  const moment = (flag: string, text: string | undefined) =>
    text === undefined ? null : parseMoment(flag, text, now, CLIENT.logLookBackMs)
  const since = moment('--since', options.since)
  const until = moment('--until', options.until)
  if (since !== null && until !== null && since >= until) {
    throw usage('--until must be later than --since')
  }
  return { ...options, since, until }
}

const styleOf = (status: number): Style | undefined =>
  status >= 500 ? 'red' : status >= 400 ? 'yellow' : status >= 300 ? 'dim' : 'green'

/** '2026-11-14T07:31:02Z 200 GET  shop.example.com/cart  12.4ms 5120B 203.0.113.7' */
function lineWriter({ screen }: Context) {
  const { paint } = screen.out
  return (r: RequestEntry): string => {
    const time = paint('dim', r.t.replace(/\.\d+/, ''))
    const status = paint(styleOf(r.status), String(r.status).padStart(3, '0'))
    const what = `${cleanText(r.method)} ${cleanText(r.host)}${cleanText(r.path)}`
    const rest = paint('dim', `${r.duration_ms}ms ${r.size}B ${cleanText(r.client)}`)
    return `${time} ${status} ${what} ${rest}\n`
  }
}

async function performRequests(options: Options, context: Context): Promise<ExitCode> {
  const { io, screen } = context
  const request = requestOf(options, io.now())
  const api = await context.connect()
  const target = await findTarget(api, context, 'read')
  requireServices(target, options.services)
  const format = lineWriter(context)
  let count = 0
  try {
    const source = { api, io, environmentId: target.environment.id }
    for await (const entry of readRequests(source, request)) {
      count++
      await io.stdout.write(screen.json ? `${toJson(entry)}\n` : format(entry))
      if (io.stdout.closed) return EXIT.done
    }
  } catch (error) {
    if (io.interrupted.aborted) throw interrupted('stopped reading', 'the services keep running')
    throw error
  }
  if (count === 0) await screen.note(`no requests in ${cleanText(targetName(target))}`)
  return EXIT.done
}

export const requests = compose(parseRequests, performRequests)
