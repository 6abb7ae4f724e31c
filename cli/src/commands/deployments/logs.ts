// berth logs: what the containers of an environment wrote, over certificate SSH, of any age. There is no other way: the
// log endpoint of the API no longer exists.

import { type LogsRequest, readContainerLogs } from '../../client/container-logs.ts'
import { isGap, type LogEntry } from '../../client/log-records.ts'
import { findTarget, type Target, targetName } from '../../client/resolve.ts'
import {
  type Context,
  compose,
  flagList,
  flagOn,
  flagText,
  type Invocation,
} from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT, type ExitCode, interrupted, usage } from '../../terminal/exit.ts'
import { parseCount, parseMoment } from '../../terminal/format.ts'
import type { Style } from '../../terminal/terminal.ts'
import { cleanLogLine, cleanText, padText, textWidth, toJson } from '../../terminal/text.ts'
import { flagsOf } from './deploy.ts'

interface LogsOptions {
  services: string[]
  follow: boolean
  tail: number | null
  /** As typed; relative times count from when the command runs. */
  since: string | undefined
  until: string | undefined
  grep: RegExp | undefined
  fullTimes: boolean
}

const SERVICE = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/

function parsePattern(text: string | undefined): RegExp | undefined {
  if (text === undefined) return undefined
  try {
    return new RegExp(text, 'u')
  } catch {
    throw usage(`--grep is not a regular expression: '${text}'`)
  }
}

export function parseServices(words: readonly string[]): string[] {
  const services = [...new Set(words)]
  const wrong = services.find((word) => !SERVICE.test(word))
  if (wrong !== undefined) throw usage(`'${wrong}' is no name of a service`)
  return services
}

function parseLogs({ flags }: Invocation): LogsOptions {
  const services = parseServices(flagList(flags, 'service'))
  if (services.length > CLIENT.logServices) {
    throw usage(`-s at most ${CLIENT.logServices} times; without it all services are shown`)
  }
  const follow = flagOn(flags, 'follow')
  const [since, until] = ['since', 'until'].map((name) => flagText(flags, name))
  const lines = flagText(flags, 'lines') ?? flagText(flags, 'tail')
  if (follow && until !== undefined) throw usage('--until goes without -f')
  // with a start time, everything from there on, unless a number of lines was given
  const tail = lines ?? (since === undefined ? '100' : undefined)
  const options = {
    services,
    follow,
    tail: tail === undefined ? null : parseCount('-n', tail, 1_000_000),
    since,
    until,
    grep: parsePattern(flagText(flags, 'grep')),
    fullTimes: flagOn(flags, 'timestamps'),
  }
  requestOf(options, Date.now()) // reports a wrong time before anything else happens
  return options
}

function requestOf(options: LogsOptions, now: number): LogsRequest {
  const moment = (flag: string, text: string | undefined) =>
    text === undefined ? null : parseMoment(flag, text, now, CLIENT.logLookBackMs)
  const since = moment('--since', options.since)
  const until = moment('--until', options.until)
  if (since !== null && until !== null && since >= until) {
    throw usage('--until must be later than --since')
  }
  const { services, tail, follow } = options
  return { services, tail, since, until, follow }
}

const COLOURS: readonly Style[] = ['cyan', 'green', 'yellow', 'bold']

/** '2026-11-14T07:31:02Z web  GET /cart 200 12ms'; the name column is as wide as the longest name so far. */
function lineWriter(context: Context, target: Target, fullTimes: boolean) {
  const { paint, colour } = context.screen.out
  const known = target.environment.services.map(({ name }) => name)
  let width = 0
  const styles = new Map<string, Style | undefined>()
  return (entry: LogEntry): string => {
    const name = cleanText(entry.service)
    if (!styles.has(name)) {
      width = Math.max(width, textWidth(name), ...known.map(textWidth))
      styles.set(name, COLOURS[styles.size % COLOURS.length])
    }
    const time = fullTimes ? cleanText(entry.t) : entry.t.replace(/\.\d+/, '')
    const label = context.screen.human ? padText(name, width) : name
    const text = cleanLogLine(entry.text.replace(/\r?\n$/, ''), colour)
    return `${paint('dim', time)} ${paint(styles.get(name), label)}  ${text}\n`
  }
}

/** There were no lines, so it points to the other log. */
async function reportNothing(context: Context, target: Target): Promise<void> {
  const { last_task: last } = target.environment
  const flags = cleanText(flagsOf(target))
  const other =
    last === null
      ? `it was never deployed: berth deploy ${flags}`
      : last.status === 'failed'
        ? `the last deployment failed: berth tasks log ${flags} --failed`
        : `the deployment's own log: berth tasks log ${flags}`
  const what = last?.status === 'failed' || last === null ? 'no service runs yet' : 'no log lines'
  await context.screen.note(`${what} in ${cleanText(targetName(target))}; ${other}`)
}

/** Before a connection is made, which would only find nothing. */
export function requireServices(target: Target, words: readonly string[]): void {
  const known = target.environment.services.map(({ name }) => name)
  const unknown = words.find((word) => !known.includes(word))
  // before the first deployment the names are not known
  if (unknown === undefined || known.length === 0) return
  throw new CliError(
    EXIT.notFound,
    `no service '${unknown}' in ${targetName(target)}`,
    `services: ${known.join(', ')}`,
  )
}

function explain(error: unknown, target: Target): unknown {
  if (!(error instanceof CliError) || !/is not reachable from here/.test(error.message))
    return error
  const message =
    `${error.message}. Logs of services need SSH; deployment logs do not: ` +
    `berth tasks log ${flagsOf(target)}`
  return new CliError(error.exitCode, message, error.hint, error)
}

async function performLogs(options: LogsOptions, context: Context): Promise<ExitCode> {
  const { io, screen } = context
  const request = requestOf(options, io.now())
  const api = await context.connect()
  const target = await findTarget(api, context, 'read')
  requireServices(target, options.services)
  const { environment } = target
  const place = { server: environment.server, environmentId: environment.id }
  const onLost = (reason: string) => screen.note(`${cleanText(reason)}; trying again`)
  const format = lineWriter(context, target, options.fullTimes)
  let count = 0
  try {
    for await (const item of readContainerLogs({ api, io, place, onLost }, request)) {
      count++
      if (isGap(item)) {
        if (screen.json) await io.stdout.write(`${toJson(item)}\n`)
        await screen.warn(`${item.service}: its logs of ${item.days} are gone`)
      } else if (!options.grep || options.grep.test(cleanLogLine(item.text, false))) {
        await io.stdout.write(screen.json ? `${toJson(item)}\n` : format(item))
      }
      if (io.stdout.closed) return EXIT.done
    }
  } catch (error) {
    if (io.interrupted.aborted) throw interrupted('stopped reading', 'the services keep running')
    throw explain(error, target)
  }
  if (count === 0) await reportNothing(context, target)
  return EXIT.done
}

export const logs = compose(parseLogs, performLogs)
